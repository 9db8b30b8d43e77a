// Reads any bytes as a plan of tensorize and as a --layer rule. Either an error with a message, or a plan that survives
// writing and whose chains are complete.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "lib/compress/plan.h"
#include "lib/core/error.h"

using namespace comera;
using namespace comera::compress;

namespace {

const std::vector<Candidate>& candidates() {
  using io::StoredType;
  static const std::vector<Candidate> all{{"up", "up.weight", false, false, StoredType::F16, {32, 16}},
                                          {"down", "down.weight", false, false, StoredType::F32, {16, 32}},
                                          {"conv", "conv.weight", false, true, StoredType::BF16, {24, 48}},
                                          {"words", "words.weight", true, false, StoredType::F32, {100, 16}},
                                          {"wide", "wide.weight", true, false, StoredType::F32, {1 << 20, 4096}}};
  return all;
}

void read_plan(const std::string& text) {
  const Plan plan = parse_plan(text, "input", candidates());
  const io::Json written = to_json(plan, candidates());
  if (to_json(parse_plan(io::json_text(written), "written", candidates()), candidates()) != written) std::abort();
  for (std::size_t i = 0; i < plan.layers.size(); ++i) {
    if (planned_bytes(plan.layers[i], candidates()[i]) == 0) std::abort();
    if (plan.layers[i].form != PlannedForm::keep_dense)
      io::check_chain(chain_of(plan.layers[i], candidates()[i]), "plan");
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
