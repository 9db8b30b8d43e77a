#include "lib/data/images/image.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "lib/core/error.h"

namespace comera::data {
namespace {

// Weights are numbers of 22 bits behind the point, so that equal sums round as in Pillow.
constexpr int weight_bits = 22;

std::int32_t fixed(double weight) { return static_cast<std::int32_t>(std::lround(weight * (1 << weight_bits))); }
std::uint8_t rounded(std::int32_t sum) {
  return static_cast<std::uint8_t>(std::clamp((sum + (1 << (weight_bits - 1))) >> weight_bits, 0, 255));
}

// The pixels of the source that one pixel reads.
struct Window {
  std::int64_t first = 0;
  std::vector<std::int32_t> weights;  // their sum is 1, but for rounding
};

double reach_of(Resampling by) { return by == Resampling::bilinear ? 1 : 2; }

// The weight at a distance below the filter's reach.
double weight_at(Resampling by, double x) {
  if (by == Resampling::bilinear) return std::max(0.0, 1 - x);
  constexpr double a = -0.5;
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

std::vector<Window> windows_of(std::int64_t from, std::int64_t to, Resampling by) {
  const double scale = static_cast<double>(from) / static_cast<double>(to), unit = std::max(scale, 1.0),
               reach = reach_of(by) * unit;
  std::vector<Window> windows(static_cast<std::size_t>(to));
  std::vector<double> weights;
  for (std::int64_t i = 0; i < to; ++i) {
    Window& window = windows[static_cast<std::size_t>(i)];
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    window.first = std::max<std::int64_t>(0, static_cast<std::int64_t>(centre - reach + 0.5));
    const std::int64_t end = std::min(from, static_cast<std::int64_t>(centre + reach + 0.5));
    double sum = 0;
    weights.clear();
    for (std::int64_t k = window.first; k < end; ++k) {
      weights.push_back(weight_at(by, std::abs(static_cast<double>(k) + 0.5 - centre) / unit));
      sum += weights.back();
    }
    for (const double weight : weights) window.weights.push_back(fixed(weight / sum));
  }
  return windows;
}

// Resizes the middle axis of [outer, from, inner].
std::vector<std::uint8_t> along(const std::vector<std::uint8_t>& source, std::int64_t outer, std::int64_t from,
                                std::int64_t to, std::int64_t inner, Resampling by) {
  const std::vector<Window> windows = windows_of(from, to, by);
  std::vector<std::uint8_t> result(static_cast<std::size_t>(outer * to * inner));
  std::vector<std::int32_t> sums(static_cast<std::size_t>(inner));
  for (std::int64_t o = 0; o < outer; ++o)
    for (std::int64_t i = 0; i < to; ++i) {
      const Window& window = windows[static_cast<std::size_t>(i)];
      std::fill(sums.begin(), sums.end(), 0);
      for (std::size_t k = 0; k < window.weights.size(); ++k) {
        const std::uint8_t* row = source.data() + (o * from + window.first + static_cast<std::int64_t>(k)) * inner;
        for (std::size_t n = 0; n < sums.size(); ++n) sums[n] += window.weights[k] * row[n];
      }
      std::transform(sums.begin(), sums.end(), result.begin() + (o * to + i) * inner, rounded);
    }
  return result;
}

}  // namespace

Image with_channels(Image image, std::int64_t channels) {
  if (image.channels == channels) return image;
  const std::int64_t count = image.width * image.height;
  Image result{image.width, image.height, channels,
               std::vector<std::uint8_t>(static_cast<std::size_t>(count * channels))};
  for (std::int64_t i = 0; i < count; ++i) {
    if (channels == 1) {
      const std::uint8_t* from = image.pixels.data() + 3 * i;
      result.pixels[static_cast<std::size_t>(i)] =
          static_cast<std::uint8_t>((19595 * from[0] + 38470 * from[1] + 7471 * from[2] + 32768) >> 16);
    } else {
      std::fill_n(result.pixels.begin() + 3 * i, 3, image.pixels[static_cast<std::size_t>(i)]);
    }
  }
  return result;
}

Image resized(Image image, std::int64_t width, std::int64_t height, Resampling by) {
  COMERA_CHECK(image.width > 0 && image.height > 0 && width > 0 && height > 0);
  if (image.width != width) {
    image.pixels = along(image.pixels, image.height, image.width, width, image.channels, by);
    image.width = width;
  }
  if (image.height != height) {
    image.pixels = along(image.pixels, 1, image.height, height, image.width * image.channels, by);
    image.height = height;
  }
  return image;
}

Image centre_of(const Image& image, std::int64_t side) {
  COMERA_CHECK(side <= image.width && side <= image.height);
  Image result{side, side, image.channels, {}};
  const std::int64_t left = (image.width - side) / 2, top = (image.height - side) / 2;
  for (std::int64_t y = 0; y < side; ++y) {
    const auto line = image.pixels.begin() + ((top + y) * image.width + left) * image.channels;
    result.pixels.insert(result.pixels.end(), line, line + side * image.channels);
  }
  return result;
}

}  // namespace comera::data
