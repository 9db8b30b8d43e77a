// The values of PNG and JPEG files of every kind: as Pillow's exif_transpose() and convert("RGB") give them.
#include <turbojpeg.h>
#include <zlib.h>

#include <catch2/catch.hpp>
#include <cstdlib>

#include "lib/core/error.h"
#include "lib/data/images/image_dataset.h"
#include "lib/data/images/picture.h"
#include "tests/data/scratch.h"

using namespace comera::data;
using Catch::Contains;

namespace {

using Pixels = std::vector<std::uint8_t>;

std::string number(std::uint64_t value, int bytes = 4) {
  std::string text;
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) text += static_cast<char>(value >> shift & 255);
  return text;
}

std::string chunk(const std::string& name, const std::string& content) {
  const std::string summed = name + content;
  const auto sum = crc32(0, reinterpret_cast<const Bytef*>(summed.data()), static_cast<uInt>(summed.size()));
  return number(content.size()) + summed + number(sum);
}

struct Kind {
  int depth, colours;  // of the PNG's header: 0 gray, 2 colours, 3 palette, 4 gray with alpha, 6 colours with alpha
  std::string more;    // chunks before the pixels
  bool interlaced = false;
};

// `lines`: each begins with 0, no filter.
std::string png(std::uint64_t width, std::uint64_t height, const Kind& kind, const std::string& lines) {
  uLongf size = compressBound(lines.size());
  std::string packed(size, '\0');
  REQUIRE(compress(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(lines.data()),
                   lines.size()) == Z_OK);
  packed.resize(size);
  return "\x89PNG\r\n\x1a\n" +
         chunk("IHDR", number(width) + number(height) + number(static_cast<std::uint64_t>(kind.depth), 1) +
                           number(static_cast<std::uint64_t>(kind.colours), 1) + number(kind.interlaced ? 1 : 0, 3)) +
         kind.more + chunk("IDAT", packed) + chunk("IEND", "");
}

std::string line(std::initializer_list<int> bytes) {
  std::string text(1, '\0');
  for (const int byte : bytes) text += static_cast<char>(byte);
  return text;
}

Image decoded(const std::string& file) { return decode_picture(std::as_bytes(std::span(file)), "file"); }
Pixels pixels(const std::string& file) { return decoded(file).pixels; }

std::string palette(std::initializer_list<int> colours) { return chunk("PLTE", line(colours).substr(1)); }

// A block of EXIF with a second tag before the orientation.
std::string exif(int orientation, bool big_endian = true) {
  const auto value = static_cast<std::uint64_t>(orientation);
  std::string big = "MM" + number(42, 2) + number(8) + number(2, 2) + number(0x010f, 2) + number(2, 2) + number(1) +
                    number(0) + number(0x0112, 2) + number(3, 2) + number(1) + number(value, 2) + number(0, 2) +
                    number(0);
  if (big_endian) return big;
  using namespace std::string_literals;
  return "II\x2a\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0"s + static_cast<char>(orientation) + "\0\0\0\0\0\0\0"s;
}

std::string jpeg(const Image& image, int format, int samples) {
  const tjhandle encoder = tjInitCompress();
  unsigned char* out = nullptr;
  unsigned long size = 0;  // NOLINT(google-runtime-int): the type of the interface
  REQUIRE(tjCompress2(encoder, image.pixels.data(), static_cast<int>(image.width), 0, static_cast<int>(image.height),
                      format, &out, &size, samples, 100, 0) == 0);
  std::string text(reinterpret_cast<char*>(out), size);
  tjFree(out);
  tjDestroy(encoder);
  return text;
}

std::string with_segment(const std::string& file, int marker, const std::string& content) {
  return file.substr(0, 2) + "\xff" + static_cast<char>(marker) + number(content.size() + 2, 2) + content +
         file.substr(2);
}

}  // namespace

TEST_CASE("pictures: a PNG's gamma, primaries and colour profile do not change its values") {
  const std::vector<std::string> descriptions = {
      "",
      chunk("gAMA", number(100000)),
      chunk("gAMA", number(45455)),
      chunk("gAMA", number(220000)) + chunk("cHRM", number(31270) + number(32900) + number(70000) + number(30000) +
                                                        number(20000) + number(70000) + number(15000) + number(6000)),
      chunk("sRGB", number(0, 1)),
      chunk("iCCP", std::string("wide\0\0damaged", 13)),
      chunk("sBIT", number(0x030303, 3)) + chunk("bKGD", number(0x00ff00ff00ff, 6)),
  };
  for (const std::string& more : descriptions) {
    CHECK(pixels(png(3, 1, {8, 0, more}, line({10, 100, 200}))) == Pixels{10, 100, 200});
    CHECK(pixels(png(1, 2, {8, 2, more}, line({10, 100, 200}) + line({1, 2, 3}))) == Pixels{10, 100, 200, 1, 2, 3});
    CHECK(pixels(png(2, 1, {8, 3, more + palette({10, 100, 200, 5, 60, 7})}, line({1, 0}))) ==
          Pixels{5, 60, 7, 10, 100, 200});
    CHECK(pixels(png(1, 1, {8, 6, more}, line({10, 100, 200, 128}))) == Pixels{10, 100, 200});
    CHECK(pixels(png(1, 1, {8, 4, more}, line({100, 128}))) == Pixels{100});
    CHECK(pixels(png(1, 1, {16, 2, more}, line({10, 255, 100, 0, 200, 128}))) == Pixels{10, 100, 200});
  }
}

TEST_CASE("pictures: PNG of every depth and kind, without their alpha") {
  CHECK(pixels(png(9, 1, {1, 0, ""}, line({0b10110010, 0b10000000}))) == Pixels{255, 0, 255, 255, 0, 0, 255, 0, 255});
  CHECK(pixels(png(5, 1, {2, 0, ""}, line({0b00011011, 0b01000000}))) == Pixels{0, 85, 170, 255, 85});
  CHECK(pixels(png(3, 1, {4, 0, ""}, line({0x0f, 0x70}))) == Pixels{0, 255, 119});
  // Of 16 bits, the upper 8: they are not rounded, and values above 255 are not clipped.
  CHECK(pixels(png(4, 1, {16, 0, ""}, line({0, 255, 1, 0, 0x80, 0xff, 0xff, 0xff}))) == Pixels{0, 1, 128, 255});
  CHECK(pixels(png(1, 1, {16, 4, ""}, line({7, 255, 0, 0}))) == Pixels{7});
  CHECK(pixels(png(1, 1, {16, 6, ""}, line({7, 255, 8, 0, 9, 200, 0, 0}))) == Pixels{7, 8, 9});
  const std::string two = palette({1, 2, 3, 200, 100, 50});
  CHECK(pixels(png(2, 1, {1, 3, two}, line({0b01000000}))) == Pixels{1, 2, 3, 200, 100, 50});
  CHECK(pixels(png(2, 1, {2, 3, two}, line({0b01000000}))) == Pixels{200, 100, 50, 1, 2, 3});
  CHECK(pixels(png(3, 1, {4, 3, two}, line({0x10, 0x10}))) == Pixels{200, 100, 50, 1, 2, 3, 200, 100, 50});
  // Colours behind a transparent pixel stay, by a channel and by the chunk tRNS.
  CHECK(pixels(png(2, 1, {8, 6, ""}, line({9, 8, 7, 0, 6, 5, 4, 255}))) == Pixels{9, 8, 7, 6, 5, 4});
  CHECK(pixels(png(2, 1, {8, 4, ""}, line({90, 0, 80, 255}))) == Pixels{90, 80});
  CHECK(pixels(png(2, 1, {8, 3, two + chunk("tRNS", number(0, 1))}, line({0, 1}))) == Pixels{1, 2, 3, 200, 100, 50});
  CHECK(pixels(png(2, 1, {8, 0, chunk("tRNS", number(90, 2))}, line({90, 80}))) == Pixels{90, 80});
  CHECK(pixels(png(1, 1, {8, 2, chunk("tRNS", number(0x000900080007, 6))}, line({9, 8, 7}))) == Pixels{9, 8, 7});
  // Interlaced: the pixel at 0, 0, then that at 1, 0, then the second line.
  CHECK(pixels(png(2, 2, {8, 0, "", true}, line({10}) + line({20}) + line({30, 40}))) == Pixels{10, 20, 30, 40});
  CHECK(pixels(png(2, 2, {8, 3, two, true}, line({1}) + line({0}) + line({0, 1}))) ==
        Pixels{200, 100, 50, 1, 2, 3, 1, 2, 3, 200, 100, 50});
  CHECK_THROWS_WITH(decoded(png(2, 1, {8, 3, two}, line({1, 2}))), Contains("a pixel has colour 2 of a palette of 2"));
  CHECK_THROWS_WITH(decoded(png(2, 1, {8, 3, ""}, line({1, 0}))), Contains("is a damaged PNG"));
  CHECK_THROWS_WITH(decoded(png(2, 2, {8, 0, ""}, line({1, 0}))), Contains("is a damaged PNG"));
}

TEST_CASE("pictures: the EXIF orientation turns and mirrors the image") {
  // As Pillow's exif_transpose().
  const std::vector<Pixels> turned = {{1, 2, 3, 4, 5, 6}, {3, 2, 1, 6, 5, 4}, {6, 5, 4, 3, 2, 1}, {4, 5, 6, 1, 2, 3},
                                      {1, 4, 2, 5, 3, 6}, {4, 1, 5, 2, 6, 3}, {6, 3, 5, 2, 4, 1}, {3, 6, 2, 5, 1, 4}};
  const auto stored = [](const std::string& block) {
    return png(3, 2, {8, 0, chunk("eXIf", block)}, line({1, 2, 3}) + line({4, 5, 6}));
  };
  for (int orientation = 1; orientation <= 8; ++orientation)
    for (const bool big_endian : {false, true}) {
      const std::string file = stored(exif(orientation, big_endian));
      const Image image = decoded(file), header = picture_header(std::as_bytes(std::span(file)), "file");
      CHECK(image.pixels == turned[static_cast<std::size_t>(orientation - 1)]);
      CHECK(image.width == (orientation < 5 ? 3 : 2));
      CHECK((header.width == image.width && header.height == image.height && header.channels == 1));
    }
  // A block that says nothing, or lies, turns nothing.
  const std::string block = exif(3);
  for (const std::string& wrong : {exif(0), exif(9), std::string(), block.substr(0, 31), "XX" + block.substr(2),
                                   block.substr(0, 4) + number(0xffffffffU) + block.substr(8)})
    CHECK(pixels(stored(wrong)) == turned[0]);
  CHECK(pixels(png(1, 2, {8, 2, chunk("eXIf", exif(3))}, line({1, 2, 3}) + line({4, 5, 6}))) ==
        Pixels{4, 5, 6, 1, 2, 3});

  Image halves{16, 8, 1, {}};
  for (int i = 0; i < 128; ++i) halves.pixels.push_back(i % 16 < 8 ? 50 : 200);
  const std::string file = jpeg(halves, TJPF_GRAY, TJSAMP_GRAY), name("Exif\0\0", 6);
  const auto mean = [](const Image& image, std::int64_t place) {
    return image.pixels[static_cast<std::size_t>(place)];
  };
  for (const bool big_endian : {false, true}) {
    const std::string turning = with_segment(file, 0xe1, name + exif(6, big_endian));
    const Image image = decoded(with_segment(turning, 0xe0, "a segment in front"));
    REQUIRE((image.width == 8 && image.height == 16));
    CHECK((std::abs(mean(image, 3) - 50) <= 2 && std::abs(mean(image, 8 * 15 + 3) - 200) <= 2));
  }
  for (const auto& [marker, content] : {std::pair{0xe1, "Else\1\1" + exif(6)}, std::pair{0xe2, name + exif(6)}})
    CHECK(decoded(with_segment(file, marker, content)).width == 16);
}

TEST_CASE("pictures: JPEG in the colours of printing, as Pillow converts them") {
  Image inks{8, 8, 4, {}};
  for (int i = 0; i < 64; ++i) inks.pixels.insert(inks.pixels.end(), {200, 100, 50, 220});
  const std::string file = jpeg(inks, TJPF_CMYK, TJSAMP_444);
  CHECK(picture_header(std::as_bytes(std::span(file)), "file").channels == 3);
  const Image image = decoded(file);
  REQUIRE(image.pixels.size() == 192);
  // 220 - (255 - ink) * 220 / 255; a flat image keeps its colour within the rounding of the transform.
  for (std::size_t i = 0; i < 192; i += 3)
    CHECK((std::abs(image.pixels[i] - 173) <= 3 && std::abs(image.pixels[i + 1] - 86) <= 3 &&
           std::abs(image.pixels[i + 2] - 43) <= 3));
  CHECK_THROWS_WITH(decoded(file.substr(0, file.size() / 2)), Contains("is a damaged JPEG"));
}

TEST_CASE("image data: colours become gray before an image is resized") {
  const Scratch scratch;
  // Gray 198 and 162; the gray of the rounded mean of the colours is 181.
  const std::string path = scratch.write("a.png", png(2, 1, {8, 2, ""}, line({241, 194, 107, 48, 249, 14})));
  DataSpec spec;
  spec.task = Task::image;
  spec.files = {path};
  CHECK(ImageDataset::open(spec, image_frame(1, 1, 2))->image(0).pixels == Pixels{180});
}
