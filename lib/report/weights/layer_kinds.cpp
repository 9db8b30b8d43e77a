#include "lib/report/weights/layer_kinds.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "lib/core/join.h"

namespace comera::report {
namespace {

constexpr std::array<const char*, 4> names = {"tables", "attention layers", "feed-forward layers",
                                              "other linear layers"};

struct Count {
  std::int64_t cut = 0, of = 0;
};

// Detects the kind by the weight names of common architectures.
std::size_t kind_of(const compress::LayerOutcome& layer) {
  if (layer.table) return 0;
  const auto has = [&](const char* word) { return layer.name.find(word) != std::string::npos; };
  if (has("attn") || has("attention")) return 1;
  return has("mlp") || has("intermediate") || has("ffn") || has("feed_forward") || has("output.dense") ? 2 : 3;
}

std::array<Count, names.size()> counts_of(const compress::Result& result) {
  std::array<Count, names.size()> counts;
  for (const compress::LayerOutcome& layer : result.layers) {
    Count& count = counts[kind_of(layer)];
    count.cut += layer.chain.has_value();
    ++count.of;
  }
  return counts;
}

}  // namespace

std::string kinds_cut(const compress::Result& result) {
  const auto counts = counts_of(result);
  std::vector<std::string> words;
  for (std::size_t k = 0; k < names.size(); ++k)
    if (counts[k].of > 0) words.push_back(fmt::format("{} of {} {}", counts[k].cut, counts[k].of, names[k]));
  return join(words, ", ");
}

Json kinds_json(const compress::Result& result) {
  const auto counts = counts_of(result);
  Json json = Json::object();
  for (std::size_t k = 0; k < names.size(); ++k)
    if (counts[k].of > 0) json[names[k]] = {{"cut", counts[k].cut}, {"of", counts[k].of}};
  return json;
}

}  // namespace comera::report
