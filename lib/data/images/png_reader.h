// PNG files by libpng: the values that the file stores.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "lib/data/images/image.h"

namespace comera::data {

// Gamma, colour profile and transparency of the file are not applied: chunks that only describe the picture are
// skipped, and alpha is left out. A palette becomes its colours, gray of 1, 2 and 4 bits is scaled to 0 to 255, and of
// 16 bits the upper 8 are taken. A damaged file is an input error with its name.
class PngReader {
 public:
  static constexpr std::string_view end = "IEND";

  PngReader(std::span<const std::byte> bytes, const std::string& name);

  const Image& header() const { return header_; }  // no pixels
  Image read();                                    // once

 private:
  struct State;
  void read_header();
  void read_lines(Image& image);
  Image with_palette(const Image& indices) const;
  template <class Call>
  void guarded(const Call& call);

  const std::string& name_;
  std::shared_ptr<State> state_;
  Image header_;
  bool indexed_ = false;  // pixels are places in a palette
};

}  // namespace comera::data
