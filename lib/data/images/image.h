// An image in memory, and its copy at another size.
#pragma once

#include <cstdint>
#include <vector>

namespace comera::data {

struct Image {
  std::int64_t width = 0, height = 0, channels = 0;  // channels: 1 (gray) or 3 (red, green, blue)
  std::vector<std::uint8_t> pixels;                  // [height, width, channels]
};

// Gray from colours by the weights of ITU-R BT.601 (.299, .587, .114), or three equal colours from gray.
Image with_channels(Image image, std::int64_t channels);

// The image at another size, its aspect not kept. Along each axis, a pixel is the mean of the source under a triangle
// whose half width is one pixel of the coarser of the two grids, so that a smaller image has no aliases.
Image resized(Image image, std::int64_t width, std::int64_t height);

}  // namespace comera::data
