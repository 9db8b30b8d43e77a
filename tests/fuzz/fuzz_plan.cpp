// Reads any bytes as a plan of tensorize and as a --layer rule. Either an error with a message, or a plan that survives
// writing and whose chains are complete.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "lib/compress/plan/plan_file.h"
#include "lib/core/error.h"

using namespace comera;
using namespace comera::compress;

namespace {

std::vector<LayerJob> jobs() {
  using io::StoredType;
  static const std::vector<Candidate> all{{"up", "up.weight", false, false, StoredType::F16, {32, 16}},
                                          {"down", "down.weight", false, false, StoredType::F32, {16, 32}},
                                          {"conv", "conv.weight", false, true, StoredType::BF16, {24, 48}},
                                          {"words", "words.weight", true, false, StoredType::F32, {100, 16}},
                                          {"wide", "wide.weight", true, false, StoredType::F32, {1 << 20, 4096}}};
  std::vector<LayerJob> jobs;
  for (const Candidate& candidate : all) jobs.push_back({.number = jobs.size(), .candidate = candidate});
  return jobs;
}

void read_plan(const std::string& text) {
  std::vector<LayerJob> layers = jobs(), again = jobs();
  const io::Json written = plan_file(layers, 0, read_plan_file(text, "input", layers));
  if (plan_file(again, 0, read_plan_file(io::json_text(written), "written", again)) != written) std::abort();
  for (const LayerJob& job : layers) {
    const LayerPlan& plan = job.sizes[0].plan;
    if (planned_bytes(plan, job.candidate) == 0) std::abort();
    if (plan.form != PlannedForm::keep_dense) io::check_chain(chain_of(plan, job.candidate), "plan");
  }
}

template <class Read>
void try_to(Read&& read) {
  try {
    read();
  } catch (const InputError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try_to([&] { read_plan(text); });
  try_to([&] { parse_layer_rule(text); });
  return 0;
}
