// The table of cases, by stem. Each function is defined in the test file of its stem.
#pragma once

#include <string>
#include <vector>

#include "tests/kernels/harness.h"

namespace comera::kernels::test {

std::vector<Case> attention_cases();
std::vector<Case> cast_cases();
std::vector<Case> cross_entropy_cases();
std::vector<Case> distillation_cases();
std::vector<Case> elementwise_cases();
std::vector<Case> embedding_cases();
std::vector<Case> exact_rows_cases();
std::vector<Case> linear_cases();
std::vector<Case> norm_cases();
std::vector<Case> optimizer_cases();
std::vector<Case> pooling_cases();
std::vector<Case> rank_objective_cases();
std::vector<Case> rotary_cases();
std::vector<Case> tt_cores_cases();
std::vector<Case> tt_linear_cases();

inline const char* name_of(Activation activation) {
  switch (activation) {
    case Activation::none: return "none";
    case Activation::gelu: return "gelu";
    case Activation::silu: return "silu";
    case Activation::tanh: return "tanh";
  }
  return "";
}

}  // namespace comera::kernels::test
