// A row of the input of a norm from its output (kernels/norm_output.h).
#pragma once

#include "kernels/cpu/common/element.h"
#include "kernels/cpu/common/workspace.h"
#include "kernels/norm_output.h"

namespace comera::kernels::COMERA_CPU {

// inverse[j] = 1 / gain[j].
inline void invert_gain(const NormRestore& a, float* inverse) {
  sweep(0, a.columns,
        [&](std::int64_t i, auto lanes) { store(inverse + i, set(1.0f) / load(f32(a.gain) + i, lanes), lanes); });
}

// s may be y. The quotient is a product with an approximate inverse and one correction, which rounds as a division
// does; divisions would take as long as the memory traffic of the row.
inline void restore_input(const NormRestore& a, const float* inverse, std::int64_t row, const Element* y, Element* s) {
  const F rstd = set(f32(a.rstd)[row]), deviation = set(1 / f32(a.rstd)[row]);
  const F mean = set(a.mean ? f32(a.mean)[row] : 0.0f);
  sweep(0, a.columns, [&](std::int64_t i, auto lanes) {
    F centred = load(y + i, lanes);
    if (a.shift) centred = centred - load(f32(a.shift) + i, lanes);
    const F divisor = load(f32(a.gain) + i, lanes) * rstd, near = load(inverse + i, lanes) * deviation;
    const F quotient = centred * near;
    store(s + i, fma(fnma(quotient, divisor, centred), near, quotient) + mean, lanes);
  });
  const std::int64_t picked = picked_columns(a.columns);
  for (std::int64_t c = 0; c < picked; ++c) s[a.places[c]] = elements(a.values)[row * picked + c];
}

}  // namespace comera::kernels::COMERA_CPU
