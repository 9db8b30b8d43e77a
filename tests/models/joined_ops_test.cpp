// Ops that compute or restore what they read where they read it: a backend without them has the same bytes, by the ops
// that they join.
#include "kernels/host/cpu_backend.h"
#include "tests/models/trained.h"

using namespace comera;

namespace {

kernels::Backend without_joined_ops(const kernels::Backend& backend) {
  kernels::Backend apart = backend;
  apart.tt_output_product.run = nullptr, apart.code_product.run = nullptr;
  apart.norm_output_backward.run = nullptr, apart.coded_attention_backward.run = nullptr;
  return apart;
}

}  // namespace

TEST_CASE("joined ops: a step has the bytes of a step by the ops that they join") {
  const models::ModelSpec specs[] = {small_decoder(models::Form::tt, true), small_decoder(models::Form::dense, false),
                                     small_encoder(true, models::Task::mlm, models::Form::tt)};
  const auto check = [&](const kernels::Backend& backend) {
    const kernels::Backend apart = without_joined_ops(backend);
    for (const models::ModelSpec& spec : specs)
      for (const auto& words : {std::vector<std::string>{"share"},
                                {"share", "int8"},
                                {"share", "int4"},
                                {"cheap", "int8-stochastic"},
                                {"cheap", "bf16"},
                                {"cheap", "*attention*=int8"}}) {
        CAPTURE(backend.variant, words.front(), words.back());
        CHECK(trained(backend, spec, words, 1).numbers == trained(apart, spec, words, 1).numbers);
      }
  };
  check(kernels::reference_backend());
  for (const char* isa : {"v3", "v4"})
    if (kernels::cpu_supports(isa)) {
      const char* error = nullptr;
      check(*kernels::cpu_backend(isa, &error));
    }
}
