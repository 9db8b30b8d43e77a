#include "lib/data/images/image_frame.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/core/terminal/log.h"
#include "lib/io/json_file.h"

namespace comera::data {
namespace {

using io::Json;

constexpr double byte_scale = 1.0 / 255;
constexpr const char* processor_file = "processor_config.json";
constexpr std::array processors = {"ViTImageProcessor", "ViTImageProcessorFast", "ViTImageProcessorPil",
                                   "ViTFeatureExtractor"};
constexpr std::array<std::string_view, 3> steps = {"do_resize", "do_rescale", "do_normalize"};

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

// Other classes have other steps by default, such as a crop of the centre.
void check_processor(const Json& config, const std::string& path) {
  for (const char* key : {"image_processor_type", "feature_extractor_type"}) {
    const auto found = config.find(key);
    if (found == config.end() || found->is_null()) continue;
    if (std::ranges::none_of(processors, [&](const char* name) { return *found == name; }))
      fail_input(
          "{}: {} is {}; only ViTImageProcessor is supported. Set it to that if the images are only resized, divided "
          "by "
          "255 and normalised",
          path, key, printable(found->dump()));
  }
}

// Steps are the keys do_...; null is transformers' default.
void check_steps(const Json& config, const std::string& path) {
  for (const auto& [key, value] : config.items()) {
    if (!key.starts_with("do_") || value.is_null()) continue;
    const bool wanted = std::ranges::find(steps, key) != steps.end();
    if (key == "do_convert_rgb" && value.is_boolean()) continue;  // gray and colours become what the model reads
    if (value != wanted)
      fail_input("{}: {} is {}; only {} is supported", path, printable(key), printable(value.dump()), wanted);
  }
}

// The size is a number, or height and width.
void check_size(const Json& config, const std::string& path, std::int64_t size) {
  const auto found = config.find("size"), square = config.find("default_to_square");
  if (found == config.end() || found->is_null()) return;
  if (found->is_object()) {
    for (const auto& [key, one] : found->items())
      if (key != "height" && key != "width" && !one.is_null())
        fail_input("{}: size has {}; only height and width are supported, which do not keep the aspect", path,
                   printable(key));
  } else if (square != config.end() && *square == false) {
    fail_input("{}: default_to_square is false, which keeps the aspect; only a size with height and width is supported",
               path);
  }
  for (const Json& one : found->is_object() || found->is_array() ? *found : Json::array({*found}))
    if (!one.is_null() && (!one.is_number_integer() || one.get<double>() != static_cast<double>(size)))
      fail_input("{}: size is {}, but config.json says {}; they must agree", path, printable(found->dump()), size);
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

// The image processor in processor_config.json, else preprocessor_config.json, as transformers reads them; else {}.
Json processor_of(const std::string& folder, std::string& path) {
  path = join_path(folder, processor_file);
  if (path_exists(path)) {
    const Json whole = io::read_json(path, io::largest_config);
    if (whole.is_object() && whole.contains("image_processor") && whole["image_processor"].is_object())
      return whole["image_processor"];
  }
  path = join_path(folder, image_frame_file);
  if (!path_exists(path)) return Json::object();
  Json config = io::read_json(path, io::largest_config);
  if (!config.is_object()) fail_input("{}: is not a JSON object", path);
  return config;
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
  std::string path;
  const Json config = processor_of(folder, path);
  check_processor(config, path);
  check_steps(config, path);
  check_size(config, path, frame.size);
  if (const auto found = config.find("rescale_factor");
      found != config.end() && !found->is_null() &&
      (!found->is_number() || std::abs(found->get<double>() - byte_scale) > 1e-6))
    fail_input("{}: rescale_factor is {}; only 1/255 is supported", path, printable(found->dump()));
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
