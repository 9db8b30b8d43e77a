#include "lib/engine/generate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lib/core/error.h"
#include "lib/core/process.h"
#include "lib/core/terminal/stop.h"
#include "lib/data/collate.h"
#include "lib/data/random.h"
#include "lib/engine/answer.h"

namespace comera::engine {
namespace {

// Ids by descending probability, with weights exp((logit - largest) / temperature) that are not normalised.
struct Ranked {
  std::vector<std::int32_t> ids;
  std::vector<double> weights;
};

Ranked rank(std::span<const double> logits, double temperature) {
  Ranked ranked;
  ranked.ids.resize(logits.size());
  std::iota(ranked.ids.begin(), ranked.ids.end(), 0);
  std::stable_sort(ranked.ids.begin(), ranked.ids.end(),
                   [&](std::int32_t a, std::int32_t b) { return logits[a] > logits[b]; });
  const double largest = logits[ranked.ids.front()];
  for (const std::int32_t id : ranked.ids) ranked.weights.push_back(std::exp((logits[id] - largest) / temperature));
  return ranked;
}

// Uniform in [0, 1).
double draw(std::uint64_t number, std::int64_t position, std::uint64_t seed) {
  const kernels::PhiloxBlock block =
      data::Random(seed, 0, data::Purpose::generate).draw(number, static_cast<std::uint32_t>(position));
  const std::uint64_t bits = std::uint64_t{block.word[0]} << 32 | block.word[1];
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

std::span<std::int32_t> row(data::Batch& batch, const char* name, std::int64_t length) {
  return batch.add(name, DType::i32, {1, length}).as<std::int32_t>();
}

}  // namespace

std::int32_t choose(std::span<const double> logits, std::uint64_t number, std::int64_t position,
                    const GenerateOptions& options) {
  if (options.temperature <= 0)
    return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  const Ranked ranked = rank(logits, options.temperature);
  const double all = std::accumulate(ranked.weights.begin(), ranked.weights.end(), 0.0);
  std::size_t count = 0;
  double nucleus = 0;
  while (count < ranked.weights.size() && (count == 0 || nucleus < options.top_p * all))
    nucleus += ranked.weights[count++];
  double left = draw(number, position, options.seed) * nucleus;
  for (std::size_t i = 0; i < count; ++i)
    if ((left -= ranked.weights[i]) < 0) return ranked.ids[i];
  return ranked.ids[count - 1];
}

void fill_generation_batch(data::Batch& batch, std::span<const std::int32_t> ids, std::int64_t begin,
                           std::int64_t capacity) {
  const auto fresh = ids.subspan(static_cast<std::size_t>(begin));
  const auto count = static_cast<std::int64_t>(fresh.size());
  const std::int64_t length = count == 1 ? 1 : data::round_up_length(count);
  batch.sequences = 1;
  batch.length = length;
  batch.tokens = count;
  const auto tokens = row(batch, "input_ids", length), positions = row(batch, "position_ids", length),
             ends = row(batch, "key_end", length);
  batch.add("lengths", DType::i32, {1}).as<std::int32_t>()[0] = static_cast<std::int32_t>(count);
  batch.add("samples", DType::i64, {1}).as<std::int64_t>()[0] = 0;
  batch.add("logit_rows", DType::i32, {1}).as<std::int32_t>()[0] = static_cast<std::int32_t>(count - 1);
  for (std::int64_t t = 0; t < length; ++t) {
    const auto at = static_cast<std::size_t>(t);
    const bool real = t < count;
    tokens[at] = real ? fresh[at] : 0;
    positions[at] = real ? static_cast<std::int32_t>(begin + t) : 0;
    ends[at] = real ? positions[at] + 1 : 0;
  }
  if (capacity == 0) return;
  const auto rows = row(batch, "cache_rows", length);
  for (std::int64_t t = 0; t < length; ++t)
    rows[static_cast<std::size_t>(t)] = t < count ? static_cast<std::int32_t>(begin + t) : -1;
}

Generated generate(Engine& engine, const data::Ids& prompt, std::uint64_t number, const GenerateOptions& options,
                   const std::function<void(std::int32_t)>& each) {
  const auto known = static_cast<std::int64_t>(prompt.size());
  if (known >= options.positions)
    fail_input("[predict] the prompt has {} tokens and the model knows {} positions; shorten it", known,
               options.positions);
  const std::int64_t capacity = std::min(options.positions, known + options.max_tokens);
  if (options.cache) engine.open_cache(1, capacity);
  data::Ids ids = prompt;
  Generated result;
  data::Batch batch;
  double start = wall_seconds();
  for (std::int64_t read = 0; static_cast<std::int64_t>(ids.size()) < capacity;) {
    check_stop();
    fill_generation_batch(batch, ids, options.cache ? read : 0, options.cache ? capacity : 0);
    const Scores scores = options.cache ? engine.decode(batch) : engine.evaluate(batch);
    check_answer(scores);
    read = static_cast<std::int64_t>(ids.size());
    const std::int32_t next = choose(scores.logits, number, read, options);
    if (read == known) result.prompt_seconds = wall_seconds() - start, start = wall_seconds();
    result.ended = std::find(options.ends.begin(), options.ends.end(), next) != options.ends.end();
    if (result.ended) break;
    ids.push_back(next);
    if (each) each(next);
  }
  result.seconds = wall_seconds() - start;
  result.ids.assign(ids.begin() + known, ids.end());
  return result;
}

}  // namespace comera::engine
