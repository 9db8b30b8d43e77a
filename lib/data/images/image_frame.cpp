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
constexpr std::array<std::string_view, 3> steps = {"do_resize", "do_rescale", "do_normalize"};
constexpr std::int64_t largest_side = 8192;

// A class of image processors, and what it does where a key is missing.
struct Processor {
  std::string_view name;
  bool crops;               // a square of the centre
  std::int64_t side, crop;  // 0: that of the model
  Resampling resampling;
};
constexpr Processor vit{"ViTImageProcessor", false, 0, 0, Resampling::bilinear},
    deit{"DeiTImageProcessor", true, 256, 224, Resampling::bicubic};
constexpr std::array processors = {vit, deit};

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

// "DeiTImageProcessor" for DeiTImageProcessorFast, DeiTImageProcessorPil and the older DeiTFeatureExtractor.
std::string plain_class(std::string name) {
  for (const std::string_view ending : {"Fast", "Pil"})
    if (name.ends_with(ending)) name.resize(name.size() - ending.size());
  if (constexpr std::string_view before = "FeatureExtractor"; name.ends_with(before))
    name.replace(name.size() - before.size(), before.size(), "ImageProcessor");
  return name;
}

// ViTImageProcessor if the file names no class. Unknown classes have steps of their own by default.
const Processor& processor_named(const Json& config, const std::string& path) {
  const Processor* processor = processors.data();
  for (const char* key : {"feature_extractor_type", "image_processor_type"}) {  // the latter counts
    const auto found = config.find(key);
    if (found == config.end() || found->is_null()) continue;
    const std::string name = found->is_string() ? plain_class(found->get<std::string>()) : "";
    processor = std::ranges::find(processors, name, &Processor::name);
    if (processor == processors.end())
      fail_input(
          "{}: {} is {}; ViTImageProcessor and DeiTImageProcessor are supported. Set it to the first if the images are "
          "only resized, divided by 255 and normalised",
          path, key, printable(found->dump()));
  }
  return *processor;
}

// True if a square of the centre is cut out. Steps are the keys do_...; null is transformers' default.
bool check_steps(const Json& config, const std::string& path, const Processor& processor) {
  bool crops = processor.crops;
  for (const auto& [key, value] : config.items()) {
    if (!key.starts_with("do_") || value.is_null()) continue;
    const bool wanted = std::ranges::find(steps, key) != steps.end();
    if (key == "do_convert_rgb" && value.is_boolean()) continue;  // gray and colours become what the model reads
    if (key == "do_center_crop" && processor.crops && value.is_boolean())
      crops = value.get<bool>();
    else if (value != wanted)
      fail_input("{}: {} is {}; only {} is supported", path, printable(key), printable(value.dump()), wanted);
  }
  return crops;
}

// The side of a square: a number, or height and width.
std::int64_t side_of(const Json& config, const char* key, const std::string& path, std::int64_t fallback) {
  const auto found = config.find(key), square = config.find("default_to_square");
  if (found == config.end() || found->is_null()) return fallback;
  if (found->is_object()) {
    for (const auto& [side, one] : found->items())
      if (side != "height" && side != "width" && !one.is_null())
        fail_input("{}: {} has {}; only height and width are supported, which do not keep the aspect", path, key,
                   printable(side));
  } else if (square != config.end() && *square == false) {
    fail_input("{}: default_to_square is false, which keeps the aspect; only a {} with height and width is supported",
               path, key);
  }
  std::int64_t result = 0;
  for (const Json& one : found->is_object() || found->is_array() ? *found : Json::array({*found})) {
    if (one.is_null()) continue;
    const bool fits = one.is_number_integer() && one.get<double>() >= 1 && one.get<double>() <= largest_side &&
                      (result == 0 || one == result);
    if (!fits)
      fail_input("{}: {} is {}; want one number, or height and width that are equal, of at most {}", path, key,
                 printable(found->dump()), largest_side);
    result = one.get<std::int64_t>();
  }
  return result > 0 ? result : fallback;
}

// The side of the square that images are resized to, before the model's is cut out of its centre.
std::int64_t resized_side(const Json& config, const std::string& path, const Processor& processor, bool crops,
                          std::int64_t size) {
  const std::int64_t side = side_of(config, "size", path, processor.side > 0 ? processor.side : size);
  const char* key = crops ? "crop_size" : "size";
  const std::int64_t seen = crops ? side_of(config, key, path, processor.crop) : side;
  if (seen != size) fail_input("{}: {} is {}, but config.json says {}; they must agree", path, key, seen, size);
  if (side < seen) fail_input("{}: crop_size is {}, more than size, which is {}", path, seen, side);
  return side;
}

Resampling resampling_of(const Json& config, const std::string& path, Resampling fallback) {
  const auto found = config.find("resample");
  if (found == config.end() || found->is_null()) return fallback;
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
  return {size, size, channels, tokens, half, half, Resampling::bilinear};
}

void save_image_frame(const ImageFrame& frame, const Folder& folder) {
  const bool crops = frame.resized != frame.size;
  Json config = {{"image_processor_type", (crops ? deit : vit).name},
                 {"do_resize", true},
                 {"resample", static_cast<int>(frame.resampling)},
                 {"do_rescale", true},
                 {"rescale_factor", byte_scale},
                 {"do_normalize", true}};
  config["size"] = {{"height", frame.resized}, {"width", frame.resized}};
  if (crops) config["do_center_crop"] = true, config["crop_size"] = {{"height", frame.size}, {"width", frame.size}};
  config["image_mean"] = frame.mean;
  config["image_std"] = frame.deviation;
  write_file_atomic(folder, image_frame_file, io::json_text(config));
}

void read_image_frame(const std::string& folder, ImageFrame& frame) {
  std::string path;
  const Json config = processor_of(folder, path);
  const Processor& processor = processor_named(config, path);
  const bool crops = check_steps(config, path, processor);
  frame.resized = resized_side(config, path, processor, crops, frame.size);
  if (const auto found = config.find("rescale_factor");
      found != config.end() && !found->is_null() &&
      (!found->is_number() || std::abs(found->get<double>() - byte_scale) > 1e-6))
    fail_input("{}: rescale_factor is {}; only 1/255 is supported", path, printable(found->dump()));
  frame.resampling = resampling_of(config, path, processor.resampling);
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
