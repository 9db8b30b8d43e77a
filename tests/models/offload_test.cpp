// Whole models whose values for the backward go to host memory: on the emulator, whose copies end as late as they may,
// and on the reference, which copies at once.
#include <catch2/catch.hpp>

#include "kernels/cuda/common/runtime.h"
#include "tests/models/trained.h"

using namespace comera;

namespace {

void check_equal(const models::ModelSpec& spec, const std::vector<std::string>& kept,
                 const std::vector<std::string>& offloaded, int parts) {
  for (const kernels::Backend* backend : {&kernels::cuda::table(), &kernels::reference_backend()}) {
    CAPTURE(backend->name, parts);
    const Trained exact = trained(*backend, spec, kept, parts), away = trained(*backend, spec, offloaded, parts);
    CHECK(exact.numbers == away.numbers);
    CHECK(away.bytes < exact.bytes);
  }
}

}  // namespace

TEST_CASE("offload: a step has the bytes of a step that keeps its values on the device, in less memory there") {
  for (const int parts : {1, 2}) {
    check_equal(small_decoder(models::Form::dense, false), {"keep"}, {"offload"}, parts);
    check_equal(small_decoder(models::Form::tt, true), {"keep"}, {"offload"}, parts);
    check_equal(small_encoder(false, models::Task::classify, models::Form::dense), {"keep"}, {"offload"}, parts);
  }
}

TEST_CASE("offload: it combines with recomputation, with sharing and with copies by name") {
  const models::ModelSpec spec = small_decoder(models::Form::dense, false);
  check_equal(spec, {"cheap"}, {"cheap", "offload"}, 1);
  check_equal(spec, {"share"}, {"share", "offload"}, 1);
  check_equal(spec, {"*mlp*=int8"}, {"offload", "*mlp*=int8"}, 1);
  const Trained block = trained(kernels::cuda::table(), spec, {"block"}, 1),
                away = trained(kernels::cuda::table(), spec, {"block", "offload"}, 1);
  CHECK(block.numbers == away.numbers);
}
