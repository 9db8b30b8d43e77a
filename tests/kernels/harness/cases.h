// Parts of the cases of several stems.
#pragma once

#include "tests/kernels/harness/harness.h"

namespace comera::kernels::test {

inline const char* name_of(Activation activation) {
  switch (activation) {
    case Activation::none: return "none";
    case Activation::gelu: return "gelu";
    case Activation::silu: return "silu";
    case Activation::tanh: return "tanh";
    case Activation::gelu_tanh: return "gelu_tanh";
    case Activation::relu: return "relu";
  }
  return "";
}

}  // namespace comera::kernels::test
