#include "lib/data/images/image_frame.h"

#include <algorithm>
#include <cmath>

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/core/terminal/log.h"
#include "lib/io/json_file.h"

namespace comera::data {
namespace {

using io::Json;

constexpr double byte_scale = 1.0 / 255;

// Numbers per channel; the default stays where the key is missing.
void read_numbers(const Json& config, const char* key, const std::string& path, double least,
                  std::vector<double>& numbers) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null()) return;
  std::vector<double> read;
  for (const Json& number : found->is_array() ? *found : Json::array({*found})) {
    if (!number.is_number() || !std::isfinite(number.get<double>()) || number.get<double>() < least)
      fail_input("{}: {} must hold one number per channel", path, key);
    read.push_back(number.get<double>());
  }
  if (read.size() == 1) read.resize(numbers.size(), read.front());
  if (read.size() != numbers.size())
    fail_input("{}: {} has {} numbers, but the model reads {} channels", path, key, read.size(), numbers.size());
  numbers = std::move(read);
}

void require_on(const Json& config, const char* key, const std::string& path, bool wanted) {
  const auto found = config.find(key);
  if (found != config.end() && found->is_boolean() && found->get<bool>() != wanted)
    fail_input("{}: {} is {}; only {} is supported", path, key, !wanted, wanted);
}

// The size is a number, or an object with height and width.
void check_size(const Json& config, const std::string& path, std::int64_t size) {
  const auto found = config.find("size");
  if (found == config.end() || found->is_null()) return;
  for (const Json& one : found->is_object() ? *found : Json::array({*found}))
    if (!one.is_number_integer() || one.get<double>() != static_cast<double>(size))
      fail_input("{}: size is {}, but config.json says {}; they must agree", path, found->dump(), size);
}

Resampling resampling_of(const Json& config, const std::string& path) {
  const auto found = config.find("resample");
  if (found == config.end() || found->is_null()) return Resampling::bilinear;
  for (const Resampling one : {Resampling::bilinear, Resampling::bicubic})
    if (*found == static_cast<int>(one)) return one;
  fail_input(
      "{}: resample is {}; 2 (bilinear) and 3 (bicubic) are supported; images that already have the model's size need "
      "none, so set it to 2 for them",
      path, printable(found->dump()));
}

}  // namespace

ImageFrame image_frame(std::int64_t size, std::int64_t channels, std::int64_t tokens) {
  const std::vector<double> half(static_cast<std::size_t>(channels), 0.5);
  return {size, channels, tokens, half, half, Resampling::bilinear};
}

void save_image_frame(const ImageFrame& frame, const Folder& folder) {
  Json config = {{"image_processor_type", "ViTImageProcessor"},
                 {"do_resize", true},
                 {"resample", static_cast<int>(frame.resampling)},
                 {"do_rescale", true},
                 {"rescale_factor", byte_scale},
                 {"do_normalize", true}};
  config["size"] = {{"height", frame.size}, {"width", frame.size}};
  config["image_mean"] = frame.mean;
  config["image_std"] = frame.deviation;
  write_file_atomic(folder, image_frame_file, io::json_text(config));
}

void read_image_frame(const std::string& folder, ImageFrame& frame) {
  const std::string path = join_path(folder, image_frame_file);
  if (!path_exists(path)) return;
  const Json config = io::read_json(path, io::largest_config);
  if (!config.is_object()) fail_input("{}: is not a JSON object", path);
  for (const char* key : {"do_resize", "do_rescale", "do_normalize"}) require_on(config, key, path, true);
  require_on(config, "do_center_crop", path, false);
  check_size(config, path, frame.size);
  if (const auto found = config.find("rescale_factor");
      found != config.end() && (!found->is_number() || std::abs(found->get<double>() - byte_scale) > 1e-6))
    fail_input("{}: rescale_factor is {}; only 1/255 is supported", path, found->dump());
  frame.resampling = resampling_of(config, path);
  read_numbers(config, "image_mean", path, -1e6, frame.mean);
  read_numbers(config, "image_std", path, 1e-6, frame.deviation);
}

void shape_image_batch(const ImageFrame& frame, std::int64_t images, Batch& batch) {
  batch.sequences = images;
  batch.length = frame.tokens;
  batch.tokens = images * frame.tokens;
  batch.add("pixel_values", DType::f32, {images, frame.channels, frame.size, frame.size});
  batch.add("labels", DType::i32, {images});
  batch.add("samples", DType::i64, {images});
  std::ranges::fill(batch.add("lengths", DType::i32, {images}).as<std::int32_t>(),
                    static_cast<std::int32_t>(frame.tokens));
}

}  // namespace comera::data
