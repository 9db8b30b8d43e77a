#include "lib/compress/calibration/calibration_text.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "lib/core/error.h"
#include "lib/core/hash.h"
#include "lib/core/terminal/stop.h"
#include "lib/core/terminal/task_progress.h"
#include "lib/data/files/text_reader.h"
#include "models/planning.h"

namespace comera::compress {
namespace {

// One sequence in four is held out; these alternate between choosing and judging.
constexpr std::int64_t held_out_every = 4;
constexpr std::size_t fewest = 2 * held_out_every;  // sequences: the smallest number that fills every part
constexpr std::size_t shortest = 4;                 // tokens including [CLS]; shorter lines are skipped

std::int64_t rounded_length(const Sequence& sequence) {
  return (std::max<std::int64_t>(std::ssize(sequence.ids), 1) + 7) / 8 * 8;
}

data::Batch padded(const std::vector<Sequence>& sequences, std::span<const std::size_t> places, std::int64_t length,
                   const models::Spec& spec) {
  const auto rows = std::ssize(places);
  data::Batch batch = models::planning_batch(spec, rows, length, 0.15);
  auto ids = batch["input_ids"].as<std::int32_t>();
  std::fill(ids.begin(), ids.end(), static_cast<std::int32_t>(spec.pad));
  for (std::int64_t b = 0; b < rows; ++b) {
    const data::Ids& row = sequences[places[static_cast<std::size_t>(b)]].ids;
    std::copy(row.begin(), row.end(), ids.begin() + b * length);
    batch["lengths"].as<std::int32_t>()[static_cast<std::size_t>(b)] = static_cast<std::int32_t>(row.size());
    batch["samples"].as<std::int64_t>()[static_cast<std::size_t>(b)] = b;
  }
  if (batch.has("position_ids"))
    for (std::int64_t k = 0; k < rows * length; ++k)
      batch["position_ids"].as<std::int32_t>()[static_cast<std::size_t>(k)] = static_cast<std::int32_t>(k % length);
  return batch;
}

TextPart part_of(std::size_t index) {
  if (index % held_out_every != held_out_every - 1) return TextPart::fitted;
  return index / held_out_every % 2 == 0 ? TextPart::choosing : TextPart::judging;
}

}  // namespace

std::vector<TextBatch> batches_of(const std::vector<Sequence>& sequences, const models::Spec& spec,
                                  std::int64_t most_tokens) {
  std::vector<std::size_t> order(sequences.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto key = [&](std::size_t place) { return std::pair(sequences[place].part, sequences[place].ids.size()); };
  std::ranges::stable_sort(order, {}, key);
  std::vector<TextBatch> batches;
  for (std::size_t first = 0; first < order.size();) {
    const TextPart part = sequences[order[first]].part;
    std::size_t last = first;
    std::int64_t length = 8;
    while (last < order.size() && sequences[order[last]].part == part) {
      const std::int64_t longest = std::max(length, rounded_length(sequences[order[last]]));
      if (last > first && longest * static_cast<std::int64_t>(last - first + 1) > most_tokens) break;
      length = longest;
      ++last;
    }
    const std::span<const std::size_t> places = std::span<const std::size_t>(order).subspan(first, last - first);
    batches.push_back(
        {padded(sequences, places, std::min(length, spec.positions), spec), part, {places.begin(), places.end()}});
    first = last;
  }
  return batches;
}

std::string hash_of_tokens(const std::vector<Sequence>& sequences) {
  Hasher hasher;
  for (const Sequence& sequence : sequences) {
    const std::int64_t of_sequence[] = {static_cast<std::int64_t>(sequence.part), std::ssize(sequence.ids)};
    hasher.update(of_sequence, sizeof of_sequence);
    hasher.update(sequence.ids.data(), sequence.ids.size() * sizeof sequence.ids[0]);
  }
  return hasher.hex();
}

std::vector<Sequence> some_of(const std::vector<Sequence>& sequences, TextPart part, std::int64_t tokens) {
  std::int64_t all = 0, taken = 0, passed = 0;
  for (const Sequence& sequence : sequences)
    if (sequence.part == part) all += std::ssize(sequence.ids);
  std::vector<Sequence> some;
  for (const Sequence& sequence : sequences) {
    if (sequence.part != part) continue;
    passed += std::ssize(sequence.ids);
    if (taken * all >= tokens * passed) continue;
    some.push_back(sequence);
    taken += std::ssize(sequence.ids);
  }
  return some;
}

std::optional<data::Ids> sequence_of(std::string_view line, const data::Tokenizer& tokenizer, std::int64_t length) {
  const data::Specials& specials = tokenizer.specials();
  data::Ids ids;
  if (specials.cls >= 0) ids.push_back(specials.cls);
  tokenizer.encode_start(line, static_cast<std::size_t>(length), ids);
  if (ids.size() < shortest) return std::nullopt;
  // BERT ends a text with [SEP]; a causal language model does not
  const bool ends = specials.sep >= 0 && specials.mask >= 0;
  ids.resize(std::min(ids.size(), static_cast<std::size_t>(length - ends)));
  if (ends) ids.push_back(specials.sep);
  return ids;
}

// The start of a conversation by the template, which holds all special pieces.
std::optional<data::Ids> conversation_ids(std::string_view messages, const TextPlaces& places,
                                          const data::Tokenizer& tokenizer, std::int64_t length) {
  const std::string place = places.option + " " + places.files.front();
  const data::Conversation conversation = places.chat->conversation(data::parse_messages(messages, place));
  data::Ids ids = data::encode_conversation(conversation, tokenizer).ids;
  if (ids.size() < shortest) return std::nullopt;
  ids.resize(std::min(ids.size(), static_cast<std::size_t>(length)));
  return ids;
}

std::vector<Sequence> read_sequences(const TextPlaces& places, const data::Tokenizer& tokenizer,
                                     const TextAmount& amount, std::int64_t length) {
  std::vector<Sequence> sequences;
  std::int64_t tokens = 0, fitted = 0, passed_over = 0;
  TaskProgress task("reading tokens of text", amount.all == INT64_MAX ? 0
                                              : amount.all > 0        ? amount.all
                                                                      : amount.fitted);
  const auto more = [&] { return amount.all > 0 ? tokens < amount.all : fitted < amount.fitted; };
  const auto take = [&](std::string_view text) {
    check_stop();
    std::optional<data::Ids> ids =
        places.chat ? conversation_ids(text, places, tokenizer, length) : sequence_of(text, tokenizer, length);
    if (!ids) return void(++passed_over);
    const TextPart part = part_of(sequences.size());
    tokens += std::ssize(*ids);
    if (part == TextPart::fitted) fitted += std::ssize(*ids);
    task.done(amount.all > 0 ? tokens : fitted);
    sequences.push_back({std::move(*ids), part});
  };
  for (const std::string& file : places.files) {
    data::TextRequest request{places.format, places.columns, !places.columns.empty(), "", data::longest_part};
    request.conversations = places.chat != nullptr;
    data::TextReader reader(file, request);
    const std::size_t texts = reader.is_table() ? std::max<std::size_t>(places.columns.size(), 1) : 1;
    for (data::Row row; more() && reader.next(row);)
      for (std::size_t i = 0; i < texts && more(); ++i) take(row.text[i]);
  }
  if (sequences.size() < fewest)
    fail_input(
        "{}: {} holds {} lines of {} tokens or more{}, and {} shorter ones, which do not count; {} or more are needed",
        places.option, places.files.front(), sequences.size(), shortest,
        tokenizer.specials().cls >= 0 ? " (with [CLS])" : "", passed_over, fewest);
  return sequences;
}

std::int64_t widest_input(const models::ModelSpec& spec) {
  std::int64_t widest = 0;
  for (const models::WeightSite& site : models::weight_sites(spec))
    if (!site.table) widest = std::max(widest, site.columns);
  return widest;
}

std::span<const std::int32_t> TextBatch::lengths() const { return batch["lengths"].as<const std::int32_t>(); }

}  // namespace comera::compress
