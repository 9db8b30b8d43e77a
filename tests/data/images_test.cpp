// Images: IDX, PNG and JPEG files, sizes, folders of classes, and their loader.
#include <png.h>
#include <turbojpeg.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <set>

#include "lib/core/error.h"
#include "lib/data/images/image_dataset.h"
#include "lib/data/images/picture.h"
#include "tests/data/scratch.h"

using namespace comera::data;
using Catch::Contains;

namespace {

std::string number(std::int64_t value) {
  std::string text;
  for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(value >> shift & 255);
  return text;
}

std::string idx(const std::vector<std::int64_t>& sizes, const std::string& bytes) {
  std::string text{'\0', '\0', '\x08', static_cast<char>(sizes.size())};
  for (const std::int64_t size : sizes) text += number(size);
  return text + bytes;
}

Idx read(const std::string& text) { return read_idx(*ByteStream::of(text), "input"); }

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

// Pixels that all differ from their neighbours.
Image sample(std::int64_t width, std::int64_t height, std::int64_t channels) {
  Image image{width, height, channels, {}};
  for (std::int64_t i = 0; i < width * height * channels; ++i)
    image.pixels.push_back(static_cast<std::uint8_t>(i * 37 % 256));
  return image;
}

std::string png_of(const Image& image, std::uint32_t format) {
  png_image out{};
  out.version = PNG_IMAGE_VERSION;
  out.width = static_cast<png_uint_32>(image.width), out.height = static_cast<png_uint_32>(image.height);
  out.format = format;
  png_alloc_size_t size = 0;
  REQUIRE(png_image_write_to_memory(&out, nullptr, &size, 0, image.pixels.data(), 0, nullptr) != 0);
  std::string text(size, '\0');
  REQUIRE(png_image_write_to_memory(&out, text.data(), &size, 0, image.pixels.data(), 0, nullptr) != 0);
  text.resize(size);
  return text;
}

std::string jpeg_of(const Image& image) {
  const tjhandle encoder = tjInitCompress();
  unsigned char* out = nullptr;
  unsigned long size = 0;  // NOLINT(google-runtime-int): the type of the interface
  const bool gray = image.channels == 1;
  REQUIRE(tjCompress2(encoder, image.pixels.data(), static_cast<int>(image.width), 0, static_cast<int>(image.height),
                      gray ? TJPF_GRAY : TJPF_RGB, &out, &size, gray ? TJSAMP_GRAY : TJSAMP_444, 100, 0) == 0);
  std::string text(reinterpret_cast<char*>(out), size);
  tjFree(out);
  tjDestroy(encoder);
  return text;
}

DataSpec spec_of(std::vector<std::string> files) {
  DataSpec spec;
  spec.task = Task::image;
  spec.files = std::move(files);
  spec.label = "label";
  return spec;
}

// 10 gray images of 2 x 2 pixels: image i has the pixels 4 i, 4 i + 1, ... and the label i % 3.
std::string idx_set(const Scratch& scratch) {
  std::string pixels, labels;
  for (int i = 0; i < 40; ++i) pixels += static_cast<char>(i);
  for (int i = 0; i < 10; ++i) labels += static_cast<char>(i % 3);
  scratch.write("train-labels-idx1-ubyte", idx({10}, labels));
  return scratch.write("train-images-idx3-ubyte", idx({10, 2, 2}, pixels));
}

ImageFrame bytes_frame(std::int64_t size, std::int64_t channels) {
  ImageFrame frame = image_frame(size, channels, 5);
  for (double& mean : frame.mean) mean = 0;
  for (double& deviation : frame.deviation) deviation = 1.0 / 255;  // the numbers are the bytes
  return frame;
}

// The images of a step: "sample label pixels".
std::vector<std::string> texts_of(std::span<const Batch> parts) {
  std::vector<std::string> texts;
  for (const Batch& part : parts)
    for (std::int64_t b = 0; b < part.sequences; ++b) {
      const auto pixels = part["pixel_values"].as<float>();
      const std::size_t each = pixels.size() / static_cast<std::size_t>(part.sequences);
      std::string text = std::to_string(part["samples"].as<std::int64_t>()[static_cast<std::size_t>(b)]) + " " +
                         std::to_string(part["labels"].as<std::int32_t>()[static_cast<std::size_t>(b)]);
      for (std::size_t i = 0; i < each; ++i)
        text += " " + std::to_string(std::lround(pixels[static_cast<std::size_t>(b) * each + i]));
      texts.push_back(text);
    }
  return texts;
}

// All images of `steps` steps.
std::vector<std::string> run(Loader& loader, std::int64_t accumulate, int steps) {
  std::vector<std::string> all;
  std::vector<Batch> parts(static_cast<std::size_t>(accumulate));
  for (int i = 0; i < steps && loader.next(parts); ++i)
    for (std::string& text : texts_of(parts)) all.push_back(std::move(text));
  return all;
}

}  // namespace

TEST_CASE("idx: sizes and bytes; files that lie are refused") {
  const Idx found = read(idx({2, 1, 3}, "abcdef"));
  CHECK(found.sizes == std::vector<std::int64_t>{2, 1, 3});
  CHECK(std::string(found.bytes.begin(), found.bytes.end()) == "abcdef");
  CHECK_THROWS_WITH(read(idx({2, 1, 3}, "abcde")), Contains("claims 2 x 1 x 3 = 6 bytes, but 5 follow"));
  CHECK_THROWS_WITH(read(idx({2, 1, 3}, "abcdefg")), Contains("= 6 bytes, but more follow"));
  CHECK_THROWS_WITH(read(idx({4000000000, 4000000000}, "a")), Contains("claims 4000000000 x 4000000000"));
  CHECK_THROWS_WITH(read(idx({1000000000}, "abc")), Contains("but 3 follow"));  // no gigabyte is allocated
  CHECK_THROWS_WITH(read(idx({2, 0}, "")), Contains("size 2 is 0"));
  CHECK_THROWS_WITH(read(idx({2, 2}, "").substr(0, 9)), Contains("ends within its header"));
  CHECK_THROWS_WITH(read(std::string("\0\0\x0d\1", 4)), Contains("type 13"));
  CHECK_THROWS_WITH(read("text, text"), Contains("no IDX file"));
}

TEST_CASE("pictures: PNG and JPEG give the pixels that were written") {
  for (const std::int64_t channels : {1, 3}) {
    const Image image = sample(5, 3, channels);
    const std::string png = png_of(image, channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB);
    const Image read = decode_picture(bytes_of(png), "a.png");
    CHECK((read.width == 5 && read.height == 3 && read.channels == channels));
    CHECK(read.pixels == image.pixels);
    const Image header = picture_header(bytes_of(png), "a.png");
    CHECK((header.width == 5 && header.height == 3 && header.channels == channels && header.pixels.empty()));
    // A flat JPEG keeps its colour within the rounding of the transform.
    const Image flat{16, 8, channels, std::vector<std::uint8_t>(static_cast<std::size_t>(128 * channels), 90)};
    const std::string jpeg = jpeg_of(flat);
    const Image again = decode_picture(bytes_of(jpeg), "a.jpg");
    CHECK((again.width == 16 && again.height == 8 && again.channels == channels));
    CHECK(std::ranges::all_of(again.pixels, [](int pixel) { return std::abs(pixel - 90) <= 2; }));
    // Cameras write a film behind the picture.
    CHECK(decode_picture(bytes_of(jpeg + std::string(100000, '\0')), "a.jpg").pixels == again.pixels);
    // The decoder warns of bytes before the end marker, behind which nothing is missing.
    const std::string body = jpeg.substr(0, jpeg.size() - 2), end = jpeg.substr(jpeg.size() - 2);
    CHECK(decode_picture(bytes_of(body + "abcd" + end), "a.jpg").pixels == again.pixels);
  }
  // Transparency is left out.
  Image clear = sample(2, 2, 4);
  for (std::size_t i = 3; i < 16; i += 4) clear.pixels[i] = 255;
  const Image seen = decode_picture(bytes_of(png_of(clear, PNG_FORMAT_RGBA)), "a.png");
  CHECK(seen.channels == 3);
  CHECK(seen.pixels == std::vector<std::uint8_t>{0, 37, 74, 148, 185, 222, 40, 77, 114, 188, 225, 6});
}

TEST_CASE("pictures: damaged, foreign and huge ones are refused") {
  const std::string png = png_of(sample(40, 30, 3), PNG_FORMAT_RGB), jpeg = jpeg_of(sample(40, 30, 3));
  CHECK_THROWS_WITH(decode_picture(bytes_of(png.substr(0, png.size() / 2)), "a.png"),
                    Contains("a.png: is a damaged PNG"));
  CHECK_THROWS_WITH(decode_picture(bytes_of(jpeg.substr(0, jpeg.size() / 2)), "a.jpg"),
                    Contains("a.jpg: is a damaged JPEG"));
  CHECK_THROWS_WITH(picture_header(bytes_of(png.substr(0, png.size() - 9)), "a.png"), Contains("is truncated"));
  CHECK_THROWS_WITH(picture_header(bytes_of(jpeg.substr(0, jpeg.size() - 2)), "a.jpg"), Contains("is truncated"));
  CHECK(picture_header(bytes_of(jpeg + "notes"), "a.jpg").width == 40);
  CHECK_THROWS_WITH(picture_header(bytes_of("GIF89a"), "a.gif"), Contains("is no PNG and no JPEG"));
  CHECK_THROWS_WITH(picture_header({}, "a.png"), Contains("is no PNG and no JPEG"));
  // The sizes are bytes 16 to 23 of a PNG; their checksum follows, so the image is made by libpng.
  Image wide{100000, 1, 1, std::vector<std::uint8_t>(100000)};
  std::string huge = png_of(wide, PNG_FORMAT_GRAY);
  huge.replace(20, 4, number(100000));
  unsigned checksum = 0xffffffffU;  // CRC-32 of the chunk's type and data (the PNG specification, annex D)
  for (std::size_t i = 12; i < 29; ++i) {
    checksum ^= static_cast<unsigned char>(huge[i]);
    for (int k = 0; k < 8; ++k) checksum = checksum & 1 ? 0xedb88320U ^ checksum >> 1 : checksum >> 1;
  }
  huge.replace(29, 4, number(checksum ^ 0xffffffffU));
  CHECK_THROWS_WITH(picture_header(bytes_of(huge), "a.png"), Contains("has 100000 x 100000 pixels; at most 67108864"));
}

TEST_CASE("images: other sizes and channels") {
  // From 4 to 2 pixels, the triangle has a half width of 2: weights .75, .75, .25 over 1.75, and the mirror of it.
  const Image row{4, 1, 1, {0, 100, 200, 60}};
  CHECK(resized(row, 2, 1).pixels == std::vector<std::uint8_t>{71, 126});
  // From 2 to 4, of 1: weights 1, then .75 and .25.
  CHECK(resized({2, 1, 1, {0, 100}}, 4, 1).pixels == std::vector<std::uint8_t>{0, 25, 75, 100});
  CHECK(resized({1, 2, 1, {0, 100}}, 1, 4).pixels == std::vector<std::uint8_t>{0, 25, 75, 100});
  // As Pillow 13 with Resampling.BICUBIC.
  const auto bicubic = Resampling::bicubic;
  CHECK(resized(row, 2, 1, bicubic).pixels == std::vector<std::uint8_t>{68, 131});
  CHECK(resized({2, 1, 1, {0, 100}}, 4, 1, bicubic).pixels == std::vector<std::uint8_t>{0, 21, 79, 109});
  CHECK(resized({5, 1, 1, {0, 255, 0, 255, 30}}, 3, 1, bicubic).pixels == std::vector<std::uint8_t>{106, 125, 123});
  CHECK(resized({1, 2, 1, {10, 250}}, 1, 7, bicubic).pixels == std::vector<std::uint8_t>{0, 2, 51, 130, 209, 255, 255});
  const Image flat{7, 5, 3, std::vector<std::uint8_t>(105, 33)};
  CHECK(resized(flat, 4, 9).pixels == std::vector<std::uint8_t>(108, 33));
  CHECK(with_channels({1, 1, 3, {100, 200, 50}}, 1).pixels == std::vector<std::uint8_t>{153});
  CHECK(with_channels({2, 1, 1, {9, 7}}, 3).pixels == std::vector<std::uint8_t>{9, 9, 9, 7, 7, 7});
}

TEST_CASE("image data: an epoch has every image once, for any split into micro-batches and after a resume") {
  const Scratch scratch;
  const auto dataset = ImageDataset::open(spec_of({idx_set(scratch)}), bytes_frame(2, 1));
  CHECK(dataset->size() == 10);
  CHECK(dataset->labels() == std::vector<std::string>{"0", "1", "2"});
  const auto steps = [&](std::int64_t batch, std::int64_t accumulate, int count, LoaderState* end = nullptr,
                         const LoaderState& start = {}) {
    LoaderOptions options;
    options.batch = batch, options.accumulate = accumulate, options.seed = 5;
    const auto loader = Loader::open(dataset, options, start);
    CHECK(loader->steps_per_epoch() == 3);
    std::vector<std::string> all = run(*loader, accumulate, count);
    if (end) *end = loader->state();
    return all;
  };
  const std::vector<std::string> whole = steps(4, 1, 6);
  REQUIRE(whole.size() == 20);
  const auto first = whole.begin(), middle = first + 10;
  CHECK(std::set<std::string>(first, middle).size() == 10);
  CHECK_FALSE(std::equal(first, middle, middle, whole.end()));  // another order, and other samples
  CHECK(std::ranges::count_if(whole, [](const std::string& text) { return text == "7 1 28 29 30 31"; }) == 1);
  CHECK(std::ranges::count_if(whole, [](const std::string& text) { return text == "17 1 28 29 30 31"; }) == 1);
  CHECK(steps(2, 2, 6) == whole);
  for (int before = 1; before < 6; ++before) {
    LoaderState state;
    std::vector<std::string> parts = steps(4, 1, before, &state);
    state = LoaderState::from_json(state.to_json());
    for (std::string& text : steps(4, 1, 6 - before, nullptr, state)) parts.push_back(std::move(text));
    CHECK(parts == whole);
  }
  LoaderOptions in_order;
  in_order.batch = 4, in_order.shuffle = false;
  const auto loader = Loader::open(dataset, in_order);
  const std::vector<std::string> ordered = run(*loader, 1, 100);
  REQUIRE(ordered.size() == 10);
  CHECK(ordered[9] == "9 0 36 37 38 39");
}

TEST_CASE("image data: shifts and mirrors depend on the image and the epoch alone") {
  const Scratch scratch;
  DataSpec spec = spec_of({idx_set(scratch)});
  spec.crop = 1, spec.flip = true;
  const auto dataset = ImageDataset::open(spec, bytes_frame(2, 1));
  LoaderOptions options;
  options.batch = 10, options.seed = 5;
  std::set<std::string> kinds;
  const auto loader = Loader::open(dataset, options);
  const std::vector<std::string> all = run(*loader, 1, 40);
  const auto shape_of = [](const std::string& text) {
    // Pixels as places in the image: 0 to 3, or - outside.
    std::string shape;
    std::istringstream words(text);
    std::int64_t sample = 0, label = 0, pixel = 0;
    words >> sample >> label;
    while (words >> pixel) shape += pixel == 0 && sample % 10 != 0 ? "-" : std::to_string(pixel - 4 * (sample % 10));
    return shape;
  };
  for (const std::string& text : all)
    if (std::stoll(text) % 10 != 0) kinds.insert(shape_of(text));
  // 9 shifts, mirrored or not, of which those that leave a single column are the same with a mirror.
  for (const char* kind : {"0123", "1032", "1-3-", "-0-2", "--01", "23--", "3---", "---0"}) CHECK(kinds.contains(kind));
  for (const std::string& kind : kinds) CHECK(kind.size() == 4);
  options.batch = 5, options.accumulate = 2;
  const auto split = Loader::open(dataset, options);
  CHECK(run(*split, 2, 40) == all);
  options.shuffle = false, options.accumulate = 1;
  const auto still = Loader::open(dataset, options);
  CHECK(run(*still, 1, 100)[3] == "3 0 12 13 14 15");
}

TEST_CASE("image data: folders of classes, sorted, in any mix of kinds, sizes and colours") {
  const Scratch scratch;
  for (const char* name : {"10", "9"}) std::filesystem::create_directories(scratch.path(std::string("set/") + name));
  scratch.write("set/9/a.png", png_of(sample(6, 6, 3), PNG_FORMAT_RGB));
  scratch.write("set/9/.hidden", "no image");
  scratch.write("set/10/b.jpeg", jpeg_of({8, 8, 1, std::vector<std::uint8_t>(64, 200)}));
  const DataSpec spec = spec_of({scratch.path("set")});
  const auto dataset = ImageDataset::open(spec, bytes_frame(4, 1));
  CHECK(dataset->labels() == std::vector<std::string>{"9", "10"});  // as numbers
  REQUIRE(dataset->size() == 2);
  CHECK((dataset->label(0) == 1 && dataset->label(1) == 0));  // in the order of the names
  CHECK(dataset->image(0).pixels.size() == 16);
  CHECK(std::abs(dataset->image(0).pixels[5] - 200) <= 2);
  // The same images under other names of classes are other data.
  const std::string hash = dataset->hash();
  CHECK(ImageDataset::open(spec, bytes_frame(4, 1), {"10", "9"})->hash() != hash);
  CHECK_THROWS_WITH(ImageDataset::open(spec, bytes_frame(4, 1), {"9", "11"}), Contains("unknown label '10'"));
  std::filesystem::create_directory(scratch.path("set/empty"));
  CHECK_THROWS_WITH(ImageDataset::open(spec, bytes_frame(4, 1)), Contains("set/empty: holds no images"));
  std::filesystem::remove(scratch.path("set/empty"));
  scratch.write("set/9/notes.txt", "no image");
  CHECK_THROWS_WITH(ImageDataset::open(spec, bytes_frame(4, 1)), Contains("notes.txt: is no PNG and no JPEG"));
  std::filesystem::remove(scratch.path("set/9/notes.txt"));
  scratch.write("set/lost.png", "");
  CHECK_THROWS_WITH(ImageDataset::open(spec, bytes_frame(4, 1)), Contains("lost.png: lies beside the folders"));
}

TEST_CASE("image data: IDX files that do not fit each other are refused") {
  const Scratch scratch;
  const std::string images = idx_set(scratch);
  const auto open = [&](std::vector<std::string> files, std::vector<std::string> labels = {}) {
    return ImageDataset::open(spec_of(std::move(files)), bytes_frame(2, 1), std::move(labels));
  };
  const std::string few = scratch.write("few", idx({9}, std::string(9, '\1'))),
                    alone = scratch.write("images", idx({1, 2, 2}, "abcd"));
  CHECK_THROWS_WITH(open({images, few}), Contains("has 9 labels for 10 images"));
  CHECK_THROWS_WITH(open({alone}), Contains("its labels are not found at") && Contains("--data IMAGES,LABELS"));
  CHECK_THROWS_WITH(open({scratch.path("train-labels-idx1-ubyte")}), Contains("has 1 sizes; images have 3"));
  CHECK_THROWS_WITH(open({images}, {"a", "b"}), Contains("label 2 of image 2 is out of range; the model has 2 labels"));
  CHECK(open({images}, {"a", "b", "c"})->labels() == std::vector<std::string>{"a", "b", "c"});
  CHECK_THROWS_WITH(open({scratch.write("x.png", png_of(sample(2, 2, 1), PNG_FORMAT_GRAY))}),
                    Contains("no IDX file and no folder"));
}

TEST_CASE("image frame: preprocessor_config.json") {
  const Scratch scratch;
  const auto read = [&](const std::string& text) {
    scratch.write("preprocessor_config.json", text);
    ImageFrame frame = image_frame(4, 3, 5);
    read_image_frame(scratch.path(""), frame);
    return frame;
  };
  CHECK(read("{}").mean == std::vector<double>{0.5, 0.5, 0.5});
  CHECK(read(R"({"image_mean": [0.1, 0.2, 0.3], "image_std": 0.7})").mean == std::vector<double>{0.1, 0.2, 0.3});
  CHECK(read(R"({"image_std": 0.7, "size": {"height": 4, "width": 4}})").deviation ==
        std::vector<double>{0.7, 0.7, 0.7});
  CHECK_THROWS_WITH(read(R"({"image_mean": [0.1, 0.2]})"), Contains("has 2 numbers, but the model reads 3 channels"));
  CHECK_THROWS_WITH(read(R"({"image_std": 0})"), Contains("image_std must hold"));
  CHECK_THROWS_WITH(read(R"({"do_normalize": false})"), Contains("do_normalize is false"));
  CHECK_THROWS_WITH(read(R"({"size": 5})"), Contains("size is 5, but config.json says 4"));
  CHECK_THROWS_WITH(read(R"({"rescale_factor": 1})"), Contains("rescale_factor"));
  CHECK(read(R"({"resample": null})").resampling == Resampling::bilinear);
  CHECK(read(R"({"resample": 3})").resampling == Resampling::bicubic);
  CHECK_THROWS_WITH(read(R"({"resample": 0})"), Contains("resample is 0; 2 (bilinear) and 3 (bicubic) are supported"));
  // Steps, sizes and classes of other processors are refused by name; null is transformers' default.
  CHECK(read(R"({"do_resize": null, "do_center_crop": null, "do_convert_rgb": true, "size": null, "crop_size": 9,
                 "rescale_factor": null, "image_processor_type": "ViTImageProcessorFast", "do_pad": false})")
            .mean == std::vector<double>{0.5, 0.5, 0.5});
  for (const char* key : {"do_resize", "do_rescale", "do_normalize"}) {
    CHECK_THROWS_WITH(read(fmt::format(R"({{"{}": false}})", key)), Contains(fmt::format("{} is false", key)));
    CHECK_THROWS_WITH(read(fmt::format(R"({{"{}": 0}})", key)), Contains(fmt::format("{} is 0; only true", key)));
  }
  for (const char* key : {"do_center_crop", "do_pad", "do_flip_channel_order", "do_reduce_labels"})
    CHECK_THROWS_WITH(read(fmt::format(R"({{"{}": true}})", key)), Contains(fmt::format("{} is true", key)));
  CHECK(read(R"({"size": [4, 4]})").mean.size() == 3);
  CHECK(read(R"({"size": {"height": 4, "width": 4, "shortest_edge": null}})").mean.size() == 3);
  for (const char* size : {"[4, 3]", "\"4\"", "0", "-4", "1e9", "[4, 4.5]"})
    CHECK_THROWS_WITH(read(fmt::format(R"({{"size": {}}})", size)), Contains("want one number, or height and width"));
  CHECK_THROWS_WITH(read(R"({"size": {"shortest_edge": 4}})"), Contains("size has shortest_edge"));
  CHECK_THROWS_WITH(read(R"({"size": 4, "default_to_square": false})"), Contains("default_to_square is false"));
  CHECK_THROWS_WITH(read(R"({"feature_extractor_type": "BeitFeatureExtractor"})"),
                    Contains("feature_extractor_type is \"BeitFeatureExtractor\"; ViTImageProcessor and DeiT"));
  CHECK_THROWS_WITH(read(R"({"image_processor_type": 3})"), Contains("image_processor_type is 3"));
  // transformers reads the image processor of processor_config.json first.
  scratch.write("processor_config.json", R"({"image_processor": {"image_mean": 0.2}})");
  CHECK(read(R"({"image_mean": 0.1})").mean == std::vector<double>{0.2, 0.2, 0.2});
  scratch.write("processor_config.json", R"({"image_processor": {"do_rescale": false}})");
  CHECK_THROWS_WITH(read("{}"), Contains("processor_config.json: do_rescale is false"));
  scratch.write("processor_config.json", R"({"processor_class": "Other"})");
  CHECK(read(R"({"image_mean": 0.1})").mean == std::vector<double>{0.1, 0.1, 0.1});
  // A run keeps the filter of the model that it began with.
  ImageFrame kept = image_frame(4, 3, 5);
  kept.resampling = Resampling::bicubic;
  save_image_frame(kept, comera::Folder(scratch.path("")));
  ImageFrame again = image_frame(4, 3, 5);
  read_image_frame(scratch.path(""), again);
  CHECK(again == kept);
}

TEST_CASE("image frame: DeiT's processor cuts out the centre") {
  const Scratch scratch;
  const auto read = [&](const std::string& text, std::int64_t size = 4) {
    scratch.write("preprocessor_config.json", text);
    ImageFrame frame = image_frame(size, 1, 5);
    read_image_frame(scratch.path(""), frame);
    return frame;
  };
  const ImageFrame plain = read(R"({"image_processor_type": "DeiTImageProcessor"})", 224);
  CHECK(plain.resized == 256);
  CHECK(plain.resampling == Resampling::bicubic);
  CHECK(read(R"({"feature_extractor_type": "DeiTFeatureExtractor", "crop_size": 4, "size": 8})").resized == 8);
  CHECK(read(R"({"image_processor_type": "DeiTImageProcessorFast", "crop_size": {"height": 4, "width": 4},
                 "size": {"height": 6, "width": 6}, "do_center_crop": true, "resample": 2})")
            .resampling == Resampling::bilinear);
  CHECK(read(R"({"image_processor_type": "DeiTImageProcessor", "do_center_crop": false, "size": 4})").resized == 4);
  const auto refused = [&](const std::string& keys, const std::string& message) {
    CHECK_THROWS_WITH(read(R"({"image_processor_type": "DeiTImageProcessor", )" + keys + "}"), Contains(message));
  };
  refused(R"("size": 8)", "crop_size is 224, but config.json says 4");
  refused(R"("size": 3, "crop_size": 4)", "crop_size is 4, more than size, which is 3");
  refused(R"("do_center_crop": false)", "size is 256, but config.json says 4");
  refused(R"("size": 8, "crop_size": [4, 5])", "crop_size is [4,5]; want one number");
  refused(R"("do_center_crop": 1)", "do_center_crop is 1");
  refused(R"("do_pad": true)", "do_pad is true");

  // An image of the resized size loses its border, and a run keeps the crop.
  std::string pixels;
  for (int i = 0; i < 25; ++i) pixels += static_cast<char>(i);
  DataSpec spec = spec_of({scratch.write("train-images-idx3-ubyte", idx({1, 5, 5}, pixels))});
  spec.label.clear();
  ImageFrame frame = bytes_frame(2, 1);
  frame.resized = 5;
  const auto data = ImageDataset::open(spec, frame);
  CHECK(data->image(0).pixels == std::vector<std::uint8_t>{6, 7, 11, 12});
  data->save(comera::Folder(scratch.path("")));
  ImageFrame again = image_frame(2, 1, 5);
  read_image_frame(scratch.path(""), again);
  CHECK(again == frame);
}
