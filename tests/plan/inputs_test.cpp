#include "lib/plan/inputs.h"

#include <catch2/catch.hpp>
#include <cstring>

using namespace comera;

TEST_CASE("inputs are bound to host memory or to an aligned copy with equal bytes for equal data") {
  std::vector<std::int32_t> ids{3, 1, 2}, none;
  float scores[2] = {0.5F, -1};
  plan::Tensor bound_ids, bound_scores, bound_none;
  plan::Inputs inputs;
  inputs.add(ids, bound_ids);
  inputs.add(TensorView{scores, DType::f32, {2, 1}}, bound_scores);
  inputs.add(none, bound_none);
  CHECK(bound_none.empty());
  CHECK(bound_ids.data == plan::unbound);
  CHECK(bound_scores.shape == Shape{2, 1});
  CHECK(inputs.bytes() == 2 * plan::alignment);
  inputs.bind_to_host();
  CHECK(bound_ids.data == ids.data());
  CHECK(bound_scores.data == scores);
  std::vector<std::byte> copy(inputs.bytes(), std::byte{0xff}), again(inputs.bytes(), std::byte{0xaa});
  inputs.copy(copy.data()), inputs.copy(again.data());
  CHECK(copy == again);
  inputs.bind_to_copy(copy.data());
  CHECK(bound_ids.data == copy.data());
  CHECK(bound_scores.data == copy.data() + plan::alignment);
  CHECK(static_cast<const std::int32_t*>(bound_ids.data)[2] == 2);
  CHECK(static_cast<const float*>(bound_scores.data)[1] == -1);
  inputs.clear();
  CHECK(inputs.bytes() == 0);
}
