#include "lib/compress/calibration_text.h"

#include <algorithm>

#include "lib/core/error.h"
#include "lib/data/byte_stream.h"
#include "lib/train/step.h"

namespace comera::compress {
namespace {

constexpr std::int64_t batch_tokens = 2048;
constexpr std::int64_t held_out_every = 4;  // of the sequences
constexpr std::size_t shortest = 4;         // tokens, [CLS] among them; shorter lines are passed over

struct Sequence {
  data::Ids ids;
  bool held = false;
};

// Sequences of like length together, so that little is padded; fitted and held-out ones never in one batch.
std::vector<TextBatch> batches_of(std::vector<Sequence> sequences, const models::Spec& spec) {
  std::stable_sort(sequences.begin(), sequences.end(),
                   [](const Sequence& a, const Sequence& b) { return a.held != b.held ? b.held : a.ids.size() < b.ids.size(); });
  std::vector<TextBatch> batches;
  for (std::size_t first = 0; first < sequences.size();) {
    std::size_t last = first;
    std::int64_t length = 8;
    while (last < sequences.size() && sequences[last].held == sequences[first].held) {
      const std::int64_t padded = std::max<std::int64_t>(length, (static_cast<std::int64_t>(sequences[last].ids.size()) + 7) / 8 * 8);
      if (last > first && padded * static_cast<std::int64_t>(last - first + 1) > batch_tokens) break;
      length = padded;
      ++last;
    }
    const auto rows = static_cast<std::int64_t>(last - first);
    length = std::min(length, spec.positions);
    TextBatch& made = batches.emplace_back(TextBatch{train::planning_batch(spec.task, rows, length, 0.15), sequences[first].held});
    auto ids = made.batch["input_ids"].as<std::int32_t>();
    std::fill(ids.begin(), ids.end(), static_cast<std::int32_t>(spec.pad));
    for (std::int64_t b = 0; b < rows; ++b) {
      const data::Ids& row = sequences[first + static_cast<std::size_t>(b)].ids;
      std::copy(row.begin(), row.end(), ids.begin() + b * length);
      made.batch["lengths"].as<std::int32_t>()[static_cast<std::size_t>(b)] = static_cast<std::int32_t>(row.size());
      made.batch["samples"].as<std::int64_t>()[static_cast<std::size_t>(b)] = b;
    }
    if (made.batch.has("position_ids"))
      for (std::int64_t k = 0; k < rows * length; ++k)
        made.batch["position_ids"].as<std::int32_t>()[static_cast<std::size_t>(k)] = static_cast<std::int32_t>(k % length);
    first = last;
  }
  return batches;
}

std::vector<Sequence> read_sequences(const std::vector<std::string>& files, const data::Tokenizer& tokenizer, const TextAmount& amount,
                                     std::int64_t length) {
  const data::Specials& specials = tokenizer.specials();
  std::vector<Sequence> sequences;
  std::int64_t tokens = 0, fitted = 0, passed_over = 0;
  const auto more = [&] { return amount.all > 0 ? tokens < amount.all : fitted < amount.fitted; };
  for (const std::string& file : files) {
    data::LineReader reader(file);
    for (std::string_view line; more() && reader.next(line);) {
      Sequence sequence;
      if (specials.cls >= 0) sequence.ids.push_back(specials.cls);
      tokenizer.encode(line, sequence.ids);
      if (sequence.ids.size() < shortest) {
        ++passed_over;
        continue;
      }
      const bool ends = specials.sep >= 0 && specials.mask >= 0;  // BERT closes a text, a language model goes on
      sequence.ids.resize(std::min(sequence.ids.size(), static_cast<std::size_t>(length - ends)));
      if (ends) sequence.ids.push_back(specials.sep);
      sequence.held = static_cast<std::int64_t>(sequences.size()) % held_out_every == held_out_every - 1;
      tokens += static_cast<std::int64_t>(sequence.ids.size());
      if (!sequence.held) fitted += static_cast<std::int64_t>(sequence.ids.size());
      sequences.push_back(std::move(sequence));
    }
  }
  if (static_cast<std::int64_t>(sequences.size()) < held_out_every)
    fail_input("[tensorize] --calibrate: {} holds {} lines of {} tokens or more{}, and {} shorter ones, which do not count; {} or more are needed",
               files.front(), sequences.size(), shortest, specials.cls >= 0 ? " (with [CLS])" : "", passed_over, held_out_every);
  return sequences;
}

}  // namespace

std::span<const std::int32_t> TextBatch::lengths() const { return batch["lengths"].as<const std::int32_t>(); }

std::vector<TextBatch> read_calibration_text(const std::vector<std::string>& files, const data::Tokenizer& tokenizer, const TextAmount& amount,
                                             std::int64_t length, const models::Spec& spec) {
  return batches_of(read_sequences(files, tokenizer, amount, length), spec);
}

}  // namespace comera::compress
