// Reference of kernels/adamw8.h. The state is stored in float and bytes, so every type computes in float.
#pragma once

#include <algorithm>
#include <cmath>

#include "kernels/adamw8.h"
#include "kernels/reference/scalar.h"

namespace comera::kernels::reference {

inline constexpr CodeBook first_book = make_code_book(true), second_book = make_code_book(false);

template <class T>
void update_block(const Adamw8Tensor& t, const AdamwFactors& f, std::int64_t block) {
  const std::int64_t begin = block * adamw8_block, count = std::min(adamw8_block, t.count - begin);
  std::vector<Moments> moments;
  float largest1 = 0, largest2 = 0;
  for (std::int64_t i = begin; i < begin + count; ++i) {
    // Memory of zeros has code 0 and a largest value of 0.
    const Moments old{first_book.value[t.codes1[i]] * t.largest1[block],
                      second_book.value[t.codes2[i]] * t.largest2[block]};
    const auto gradient = static_cast<float>(real_part(in<T>(t.gradient)[i]));
    const Moments now = new_moments(f, old, gradient);
    largest1 = std::max(largest1, std::abs(now.first)), largest2 = std::max(largest2, now.second);
    T& value = out<T>(t.value)[i];
    value = T(static_cast<double>(new_value(f, now, static_cast<float>(real_part(value)))));
    moments.push_back(now);
  }
  t.largest1[block] = largest1, t.largest2[block] = largest2;
  for (std::int64_t i = 0; i < count; ++i) {
    const Moments& now = moments[static_cast<std::size_t>(i)];
    t.codes1[begin + i] = code_of(first_book.middle, now.first, largest1, true);
    t.codes2[begin + i] = code_of(second_book.middle, now.second, largest2, false);
  }
}

template <class T>
void compute(const Adamw8& a) {
  if (a.scalars->finite == 0) return;
  for (int i = 0; i < a.count; ++i) {
    const AdamwFactors factors(*a.tensors[i].scalars, a.scalars->gradient_scale);
    for (std::int64_t block = 0; block < adamw8_blocks(a.tensors[i].count); ++block)
      update_block<T>(a.tensors[i], factors, block);
  }
}

}  // namespace comera::kernels::reference
