// Reads any bytes as a PNG or JPEG. Either an error with a message, or as many pixels as the header says.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "lib/core/error.h"
#include "lib/data/images/orientation.h"
#include "lib/data/images/picture.h"

using namespace comera;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  for (const int orientation : {data::jpeg_orientation(bytes), data::png_orientation(bytes)})
    if (orientation < 1 || orientation > 8) std::abort();
  try {
    const std::string name = "input";
    const data::Image header = data::picture_header(bytes, name);
    if (header.width < 1 || header.height < 1 || header.width > data::most_pixels / header.height) std::abort();
    if (header.width * header.height > 1 << 16) return 0;  // such images take the time of many inputs
    const data::Image image = data::decode_picture(bytes, name);
    if (image.width != header.width || image.height != header.height || image.channels != header.channels ||
        static_cast<std::int64_t>(image.pixels.size()) != image.width * image.height * image.channels)
      std::abort();
  } catch (const InputError&) {
  }
  return 0;
}
