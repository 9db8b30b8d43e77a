// Elements of the harness's tensors in their representations: poison, conversion, comparison.
#pragma once

#include <string>

#include "tests/kernels/harness/harness.h"

namespace comera::kernels::test {

std::size_t element_bytes(Content kind, Representation representation);
void set_poison(void* element, Content kind, Representation representation);
void set_element(void* element, Content kind, Representation representation, double value);

Buffer to_tracked(const Tensor& tensor, const Buffer& f32);
void from_tracked(const Tensor& tensor, const Buffer& tracked, Buffer& f32);
bool same_bytes(const Buffer& a, const Buffer& b);

// The element with the largest error relative to its bound. A fraction above 1 is a failure; `text` describes it.
struct Difference {
  double fraction = 0;
  std::int64_t index = 0;
  std::string text;
};
Difference largest_difference(const Tensor& tensor, const Buffer& got, const Buffer& before, const Buffer& tracked);

}  // namespace comera::kernels::test
