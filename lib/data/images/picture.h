// PNG and JPEG files, by libpng and libjpeg-turbo.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "lib/data/images/image.h"

namespace comera::data {

// More pixels are refused by the header, before memory is allocated for them.
constexpr std::int64_t most_pixels = std::int64_t{1} << 26;

// Width, height and channels by the header; no pixels. The first bytes determine the kind, not the name. Input errors
// name the file: another kind, a damaged header, too many pixels, no end.
Image picture_header(std::span<const std::byte> bytes, const std::string& name);
// The whole image, 8 bits per channel. Transparency is left out. An image that is truncated or damaged is an input
// error.
Image decode_picture(std::span<const std::byte> bytes, const std::string& name);

}  // namespace comera::data
