// PNG and JPEG files, by libpng and libjpeg-turbo.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "lib/data/images/image.h"

namespace comera::data {

// More pixels are refused by the header, before memory is allocated for them.
constexpr std::int64_t most_pixels = std::int64_t{1} << 26;

// Width, height and channels as a viewer shows the picture; no pixels. The first bytes determine the kind, not the
// name. Input errors name the file: another kind, a damaged header, too many pixels, no end.
Image picture_header(std::span<const std::byte> bytes, const std::string& name);
// The whole image, 8 bits per channel, as Pillow's exif_transpose() and convert("RGB") or convert("L") give it: turned
// by its EXIF orientation, without transparency, gamma and colour profile. Of 16 bits the upper 8 are taken. An image
// that is truncated or damaged is an input error.
Image decode_picture(std::span<const std::byte> bytes, const std::string& name);

}  // namespace comera::data
