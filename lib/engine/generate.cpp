#include "lib/engine/generate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "lib/core/error.h"
#include "lib/core/process.h"
#include "lib/core/terminal/stop.h"
#include "lib/data/collate.h"
#include "lib/data/random.h"
#include "lib/engine/answer.h"

namespace comera::engine {
namespace {

// Ids by descending probability, with weights exp((logit - largest) / temperature) that are not normalised. Most draws
// need a few of tens of thousands, so a heap orders them as they are taken.
class Ranking {
 public:
  struct Entry {
    std::int32_t id;
    double weight;
  };

  Ranking(std::span<const double> logits, double temperature) : later_{logits}, ids_(logits.size()) {
    std::iota(ids_.begin(), ids_.end(), 0);
    const double largest = *std::max_element(logits.begin(), logits.end());
    for (const double logit : logits) weights_.push_back(std::exp((logit - largest) / temperature));
    std::make_heap(ids_.begin(), ids_.end(), later_);
  }

  double total() const { return std::accumulate(weights_.begin(), weights_.end(), 0.0); }

  // Entry i of the order; i < number of logits. Orders up to there.
  Entry operator[](std::size_t i) {
    for (; ordered_ <= i; ++ordered_) std::pop_heap(ids_.begin(), ids_.end() - static_cast<long>(ordered_), later_);
    const std::int32_t id = ids_[ids_.size() - 1 - i];
    return {id, weights_[static_cast<std::size_t>(id)]};
  }

 private:
  // Equal logits in the order of their ids.
  struct Later {
    std::span<const double> logits;
    bool operator()(std::int32_t a, std::int32_t b) const {
      const double left = logits[static_cast<std::size_t>(a)], right = logits[static_cast<std::size_t>(b)];
      return left < right || (left == right && a > b);
    }
  };

  Later later_;
  std::vector<double> weights_;
  std::vector<std::int32_t> ids_;  // a heap, then the ids taken from it, last first
  std::size_t ordered_ = 0;
};

// The first of the largest numbers; none is NaN. std::max_element compares each number with the result of the
// comparison before, which takes a fifth of a token's time with a small model.
std::size_t first_largest(std::span<const double> numbers) {
  std::array<double, 8> best;
  best.fill(-std::numeric_limits<double>::infinity());
  std::size_t i = 0;
  for (; i + best.size() <= numbers.size(); i += best.size())
    for (std::size_t k = 0; k < best.size(); ++k) best[k] = numbers[i + k] > best[k] ? numbers[i + k] : best[k];
  for (; i < numbers.size(); ++i) best[0] = std::max(best[0], numbers[i]);
  const double largest = *std::max_element(best.begin(), best.end());
  return static_cast<std::size_t>(std::find(numbers.begin(), numbers.end(), largest) - numbers.begin());
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
  if (options.temperature <= 0) return static_cast<std::int32_t>(first_largest(logits));
  Ranking ranking(logits, options.temperature);
  const double all = ranking.total();
  std::size_t count = options.top_p < 1 ? 0 : logits.size();
  double nucleus = count == 0 ? 0 : all;
  while (count < logits.size() && (count == 0 || nucleus < options.top_p * all)) nucleus += ranking[count++].weight;
  double left = draw(number, position, options.seed) * nucleus;
  for (std::size_t i = 0; i < count; ++i)
    if ((left -= ranking[i].weight) < 0) return ranking[i].id;
  return ranking[count - 1].id;
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
