#include "lib/data/images/orientation.h"

#include <algorithm>
#include <string_view>

namespace comera::data {
namespace {

constexpr int as_stored = 1;
constexpr std::size_t tag = 0x0112;

// Numbers of a block, in its order of bytes; 0 behind its end.
class Numbers {
 public:
  Numbers(std::string_view text, bool big_endian) : text_(text), big_endian_(big_endian) {}

  std::size_t at(std::size_t place, std::size_t bytes) const {
    if (place > text_.size() || bytes > text_.size() - place) return 0;
    std::size_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i)
      value = value << 8 | static_cast<unsigned char>(text_[place + (big_endian_ ? i : bytes - 1 - i)]);
    return value;
  }

 private:
  std::string_view text_;
  bool big_endian_;
};

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// `block`: a TIFF header and its directories (TIFF 6.0, section 2).
int orientation_of(std::string_view block) {
  if (!block.starts_with("MM") && !block.starts_with("II")) return as_stored;
  const Numbers numbers(block, block.starts_with("MM"));
  if (numbers.at(2, 2) != 42) return as_stored;
  const std::size_t directory = numbers.at(4, 4), entries = numbers.at(directory, 2);
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t entry = directory + 2 + 12 * i;
    if (entry >= block.size()) break;
    if (numbers.at(entry, 2) != tag) continue;
    const std::size_t type = numbers.at(entry + 2, 2), bytes = type == 3 ? 2 : type == 4 ? 4 : 1;  // short, long, byte
    const std::size_t value = numbers.at(entry + 8, bytes);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : as_stored;
  }
  return as_stored;
}

}  // namespace

int jpeg_orientation(std::span<const std::byte> bytes) {
  constexpr std::size_t scan = 0xda, application_1 = 0xe1;
  constexpr std::string_view name("Exif\0\0", 6);
  const std::string_view text = text_of(bytes);
  const Numbers numbers(text, true);
  for (std::size_t place = 2; numbers.at(place, 1) == 0xff;) {
    const std::size_t marker = numbers.at(place + 1, 1), length = numbers.at(place + 2, 2);
    if (marker == 0xff) {  // a byte that fills
      ++place;
      continue;
    }
    if (marker == scan || length < 2) break;
    const std::string_view content = text.substr(std::min(text.size(), place + 4), length - 2);
    if (marker == application_1 && content.starts_with(name)) return orientation_of(content.substr(name.size()));
    place += 2 + length;
  }
  return as_stored;
}

int png_orientation(std::span<const std::byte> bytes) {
  constexpr std::size_t signature = 8, around = 12;  // length, name and checksum of a chunk
  const std::string_view text = text_of(bytes);
  const Numbers numbers(text, true);
  for (std::size_t place = signature; place < text.size() && text.size() - place >= around;) {
    const std::size_t length = numbers.at(place, 4);
    if (text.substr(place + 4, 4) == "eXIf") return orientation_of(text.substr(place + 8, length));
    place += around + length;
  }
  return as_stored;
}

Image upright(Image image, int orientation) {
  if (orientation == as_stored) return image;
  const bool sideways = turns_sideways(orientation),
             from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8,
             from_below = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  Image result{sideways ? image.height : image.width, sideways ? image.width : image.height, image.channels, {}};
  result.pixels.resize(image.pixels.size());
  auto out = result.pixels.begin();
  for (std::int64_t y = 0; y < result.height; ++y)
    for (std::int64_t x = 0; x < result.width; ++x) {
      const std::int64_t across = sideways ? y : x, down = sideways ? x : y,
                         column = from_right ? image.width - 1 - across : across,
                         line = from_below ? image.height - 1 - down : down;
      out = std::copy_n(image.pixels.begin() + (line * image.width + column) * image.channels, image.channels, out);
    }
  return result;
}

}  // namespace comera::data
