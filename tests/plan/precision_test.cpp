#include "lib/plan/precision.h"

#include <catch2/catch.hpp>

#include "kernels/host/cpu_backend.h"
#include "lib/core/error.h"

using namespace comera;

namespace {

const kernels::CudaDevice old_gpu{"an old GPU", std::uint64_t{8} << 30, 7, 5},
    new_gpu{"a new GPU", std::uint64_t{80} << 30, 9, 0};

plan::Machine machine() { return {&kernels::reference_backend(), DType::f32, nullptr}; }

}  // namespace

TEST_CASE("a machine computes in the requested number format") {
  plan::Machine on_card = machine();
  plan::set_precision(on_card, "bf16", &new_gpu);
  CHECK(on_card.dtype == DType::bf16);
  CHECK_FALSE(on_card.context().tf32);
  plan::set_precision(on_card, "fp8", &new_gpu);
  CHECK(on_card.dtype == DType::bf16);
  CHECK(on_card.context().fp8);
  plan::set_precision(on_card, "tf32", &new_gpu);
  CHECK_FALSE(on_card.context().fp8);
  CHECK(on_card.dtype == DType::f32);
  CHECK(on_card.context().tf32);
  plan::set_precision(on_card, "fp32", &old_gpu);
  CHECK(on_card.dtype == DType::f32);
  CHECK_FALSE(on_card.tf32);
  plan::Machine host = machine();
  plan::set_precision(host, "fp32", nullptr);
  CHECK(host.dtype == DType::f32);
}

TEST_CASE("the CPU computes in bf16 with the instruction sets that have it") {
  CHECK(plan::cpu_computes("fp32", "v3"));
  CHECK(plan::cpu_computes("bf16", "v4bf16"));
  CHECK(plan::cpu_computes("bf16", "v4amx"));
  CHECK_FALSE(plan::cpu_computes("bf16", "v4"));
  CHECK_FALSE(plan::cpu_computes("fp8", "v4bf16"));
  CHECK_FALSE(plan::cpu_computes("fp8", "v4amx"));
  for (const char* isa : kernels::cpu_isas) {
    const char* error = nullptr;
    const kernels::Backend* cpu = kernels::cpu_backend(isa, &error);
    if (!cpu) {
      WARN("SKIPPED: cpu " << isa << ": " << error);
      continue;
    }
    plan::Machine host{cpu, DType::f32, nullptr};
    if (plan::cpu_computes("bf16", isa)) {
      plan::set_precision(host, "bf16", nullptr);
      CHECK(host.dtype == DType::bf16);
    } else {
      CHECK_THROWS_WITH(plan::set_precision(host, "bf16", nullptr),
                        Catch::Contains("--device cpu computes in fp32 with " + std::string(isa)));
    }
  }
}

TEST_CASE("an unsupported number format is refused in one sentence") {
  plan::Machine any = machine();
  CHECK_THROWS_WITH(plan::set_precision(any, "tf32", nullptr),
                    Catch::Contains("needs a GPU: --device reference computes in fp32; add --device cuda"));
  CHECK_THROWS_WITH(plan::set_precision(any, "bf16", nullptr),
                    Catch::Contains("needs a GPU or the CPU's instruction set v4bf16 (AVX512-BF16)"));
  for (const char* name : {"bf16", "tf32"}) {
    CHECK_THROWS_WITH(plan::set_precision(any, name, &old_gpu),
                      Catch::Contains("an old GPU of compute capability 7.5 lacks it") &&
                          Catch::Contains("8.0 or newer") && Catch::Contains("--dtype fp32"));
  }
  const kernels::CudaDevice ampere{"an Ampere GPU", std::uint64_t{40} << 30, 8, 6};
  CHECK_THROWS_WITH(plan::set_precision(any, "fp8", &ampere),
                    Catch::Contains("--dtype fp8: an Ampere GPU of compute capability 8.6 lacks it") &&
                        Catch::Contains("8.9 or newer"));
  CHECK_THROWS_WITH(plan::set_precision(any, "fp8", nullptr), Catch::Contains("needs a GPU"));
  CHECK_THROWS_AS(plan::set_precision(any, "fp4", &new_gpu), InputError);
  CHECK_THROWS_WITH(plan::set_precision(any, "fp4", &new_gpu), Catch::Contains("want one of fp32, tf32, bf16, fp8"));
  CHECK(any.dtype == DType::f32);
}
