// Matrices on a grid: rounding to the nearest level, and GPTQ.
#pragma once

#include <cstddef>
#include <vector>

#include "lib/quant/grid.h"
#include "lib/tt/kept_matrix.h"

namespace comera::quant {

// A matrix on a grid. The lines of a linear weight [in x out] are its outputs, each with `in` numbers. The lines of a
// table are its rows.
struct Quantised {
  Grid grid = Grid::q8_0;
  std::int64_t lines = 0, numbers = 0;  // numbers: of a line
  std::vector<std::byte> bytes = {};    // lines x line_bytes()
};

// Address of the group whose first number is number `first` of a line.
std::byte* group_in(Quantised& matrix, std::int64_t line, std::int64_t first);

// Every number to its nearest level under the best step of its group.
Quantised round_linear(const tt::Matrix& weight, Grid grid);  // [in x out]
Quantised round_table(const tt::Matrix& table, Grid grid);    // [rows x columns]

// GPTQ (Frantar et al. 2023) for y = x W with S = sum of x xᵀ: inputs are rounded one after the other, and the error of
// each is made up for by the inputs that follow. Then `sweeps` passes of coordinate descent (Behdin et al. 2023): each
// number goes to the best level and each step to its best scale while all others stay. Both reduce
// tr((W - Q)ᵀ H (W - Q)), H = S + damping mean(diag S) I; a sweep never raises it.
struct FitOptions {
  int sweeps = 4;
  double damping = 0.01;
};
class LinearFit {
 public:
  // Keeps the damped moment and its factor where the moment is kept, for any number of weights that read these inputs.
  // One of them is in memory at a time.
  explicit LinearFit(const tt::KeptMatrix& moment, const FitOptions& options = {});
  Quantised fit(const tt::Matrix& weight, Grid grid) const;

 private:
  tt::KeptMatrix h_, root_;
  int sweeps_;
};
Quantised fit_linear(const tt::Matrix& weight, const tt::KeptMatrix& moment, Grid grid, const FitOptions& options = {});

tt::Matrix expand_linear(const Quantised& weight);  // [in x out]
tt::Matrix expand_table(const Quantised& table);    // [rows x columns]
Quantised lines_of(const Quantised& all, std::int64_t first, std::int64_t count);

}  // namespace comera::quant
