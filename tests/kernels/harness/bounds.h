// The largest error of an answer as a share of its bound. Bounds are derived for separate multiplications and additions
// and for functions of the C library; a GPU has others. So for a GPU every share is printed: a wrong result exceeds its
// bound by orders of magnitude, a bound that is a little too small does not. COMERA_BOUNDS=1 prints those of the
// emulator too.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace comera::kernels::test {

inline void print_share(double share, const std::string& op, const std::string& column, const std::string& name) {
  if (column == "cuda gpu" || std::getenv("COMERA_BOUNDS"))
    std::printf("bound %.3f %s %s: %s\n", share, op.c_str(), column.c_str(), name.c_str());
}

class Bounds {
 public:
  void add(double error, double bound) {
    const double share = error == 0 ? 0 : error / bound;
    largest_ = std::isnan(share) || std::isnan(largest_) ? NAN : std::max(largest_, share);
  }
  double largest() const { return largest_; }

  // True if all errors are within their bounds.
  bool hold(const std::string& op, const std::string& column, const std::string& name) const {
    print_share(largest_, op, column, name);
    return largest_ <= 1;
  }

 private:
  double largest_ = 0;
};

}  // namespace comera::kernels::test
