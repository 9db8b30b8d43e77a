// An image in memory, and its copy at another size.
#pragma once

#include <cstdint>
#include <vector>

namespace comera::data {

struct Image {
  std::int64_t width = 0, height = 0, channels = 0;  // channels: 1 (gray) or 3 (red, green, blue)
  std::vector<std::uint8_t> pixels;                  // [height, width, channels]
};

// Gray from colours by the weights of ITU-R BT.601 (.299, .587, .114) in units of 1/65536, as Pillow has them, or three
// equal colours from gray.
Image with_channels(Image image, std::int64_t channels);

// Pillow's filters, with its numbers.
enum class Resampling : std::uint8_t { bilinear = 2, bicubic = 3 };

// The image at another size, its aspect not kept, as Pillow's resize: the width first, as before Pillow 13, which
// begins with the height of tall images. Along each axis, a pixel is a weighted mean of the source. The weights are a
// triangle whose half width is one pixel of the coarser of the two grids, so that a smaller image has no aliases, or
// Keys' cubic (1981, with a = -1/2), whose half width is two such pixels.
Image resized(Image image, std::int64_t width, std::int64_t height, Resampling by = Resampling::bilinear);

// The square in the centre; if an odd number of lines or columns is left out, one more at the bottom or right than at
// the top or left.
Image centre_of(const Image& image, std::int64_t side);

}  // namespace comera::data
