// The orientation of a picture by its EXIF block: how a viewer turns and mirrors the stored pixels.
#pragma once

#include <cstddef>
#include <span>

#include "lib/data/images/image.h"

namespace comera::data {

// 1 (as stored) to 8, by the tag Orientation (EXIF 2.32, section 4.6.4) of the first block "Exif" of a JPEG file or of
// the chunk eXIf of a PNG file. 1 without such a block, and for a block that is damaged or has another value.
int jpeg_orientation(std::span<const std::byte> bytes);
int png_orientation(std::span<const std::byte> bytes);

constexpr bool turns_sideways(int orientation) { return orientation >= 5; }  // width and height change places

// The image as a viewer shows it.
Image upright(Image image, int orientation);

}  // namespace comera::data
