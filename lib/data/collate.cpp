#include "lib/data/collate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "lib/data/random.h"

namespace comera::data {
namespace {

// Draws one of the pieces that are not special, uniformly: the draw indexes the remaining ids.
std::int32_t random_piece(std::uint32_t draw, const Tokenizer& tokenizer) {
  const Specials& s = tokenizer.specials();
  std::array<std::int32_t, 5> special = {s.pad, s.unknown, s.cls, s.sep, s.mask};
  std::sort(special.begin(), special.end());
  const auto end = std::unique(special.begin(), special.end());
  const auto begin = std::find_if(special.begin(), end, [](std::int32_t id) { return id >= 0; });
  const auto others = static_cast<std::uint64_t>(std::max<std::int64_t>(1, tokenizer.vocab_size() - (end - begin)));
  auto id = static_cast<std::int32_t>(draw * others >> 32);
  for (auto it = begin; it != end; ++it) id += id >= *it;
  return static_cast<std::int32_t>(std::min<std::int64_t>(id, tokenizer.vocab_size() - 1));
}

// Sequences of one text each, [CLS] to [SEP]: first all first texts, then all second ones. Each has its own sample
// number.
std::vector<Sequence> apart(std::span<const Sequence> pairs) {
  std::vector<Sequence> texts(pairs.begin(), pairs.end());
  for (Sequence& text : texts) text.length = text.second, text.sample *= 2;
  for (const Sequence& pair : pairs) {
    Sequence& text = texts.emplace_back(pair);
    text.begin += static_cast<std::size_t>(pair.second);
    text.length = text.second = pair.length - pair.second;
    text.sample = 2 * pair.sample + 1;
  }
  return texts;
}

void fill_partners(Batch& batch) {
  batch.counted = batch.sequences / 2;
  const auto partners = batch.add("partners", DType::i32, {batch.counted}).as<std::int32_t>();
  std::iota(partners.begin(), partners.end(), 0);
}

void fill_rows(const Window& window, std::span<const Sequence> sequences, std::int32_t pad, Batch& batch) {
  const std::int64_t length = batch.length;
  const auto ids = batch.add("input_ids", DType::i32, {batch.sequences, length}).as<std::int32_t>();
  const auto types = batch.add("token_type_ids", DType::i32, {batch.sequences, length}).as<std::int32_t>();
  const auto lengths = batch.add("lengths", DType::i32, {batch.sequences}).as<std::int32_t>();
  const auto samples = batch.add("samples", DType::i64, {batch.sequences}).as<std::int64_t>();
  std::fill(ids.begin(), ids.end(), pad);
  std::fill(types.begin(), types.end(), 0);
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const Sequence& sequence = sequences[i];
    const std::size_t row = i * static_cast<std::size_t>(length);
    std::copy_n(window.ids.begin() + static_cast<std::ptrdiff_t>(sequence.begin), sequence.length,
                ids.begin() + static_cast<std::ptrdiff_t>(row));
    std::fill_n(types.begin() + static_cast<std::ptrdiff_t>(row) + sequence.second, sequence.length - sequence.second,
                1);
    lengths[i] = sequence.length;
    samples[i] = sequence.sample;
    batch.tokens += sequence.length;
  }
}

void fill_labels(std::span<const Sequence> sequences, Batch& batch) {
  const auto labels = batch.add("labels", DType::i32, {batch.sequences}).as<std::int32_t>();
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    labels[i] = sequences[i].label;
    batch.counted += labels[i] >= 0;
  }
}

void fill_scores(std::span<const Sequence> sequences, Batch& batch) {
  const auto scores = batch.add("scores", DType::f32, {batch.sequences}).as<float>();
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    scores[i] = sequences[i].score;
    batch.counted += !std::isnan(scores[i]);
  }
}

void fill_label_sets(const Table& table, std::span<const Sequence> sequences, Batch& batch) {
  const auto labels = static_cast<std::int64_t>(table.labels().size());
  const auto sets = batch.add("label_sets", DType::i32, {batch.sequences * labels}).as<std::int32_t>();
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const bool known = sequences[i].label >= 0;
    const auto row = sets.subspan(i * static_cast<std::size_t>(labels), static_cast<std::size_t>(labels));
    std::fill(row.begin(), row.end(), known ? 0 : -1);
    if (!known) continue;
    for (const std::int32_t label : table.label_set(sequences[i].label)) row[static_cast<std::size_t>(label)] = 1;
    batch.counted += labels;
  }
}

void fill_tags(const Window& window, std::span<const Sequence> sequences, Batch& batch) {
  const auto labels = batch.add("word_labels", DType::i32, {batch.sequences, batch.length}).as<std::int32_t>();
  std::fill(labels.begin(), labels.end(), -1);
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const auto from = window.tags.begin() + static_cast<std::ptrdiff_t>(sequences[i].begin);
    std::copy_n(from, sequences[i].length,
                labels.begin() + static_cast<std::ptrdiff_t>(i) * static_cast<std::ptrdiff_t>(batch.length));
  }
  batch.counted = std::count_if(labels.begin(), labels.end(), [](std::int32_t label) { return label >= 0; });
}

void fill_masks(std::span<const Sequence> sequences, const Tokenizer& tokenizer, const MaskRule& rule, Batch& batch) {
  const std::int64_t capacity = masked_capacity(batch.sequences, batch.length, rule.probability);
  const auto index = batch.add("masked_index", DType::i32, {capacity}).as<std::int32_t>();
  const auto target = batch.add("masked_targets", DType::i32, {capacity}).as<std::int32_t>();
  const auto ids = batch["input_ids"].as<std::int32_t>();
  std::fill(index.begin(), index.end(), -1);
  std::fill(target.begin(), target.end(), -1);
  std::vector<std::int32_t> positions, targets;
  std::size_t used = 0;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const std::size_t row = i * static_cast<std::size_t>(batch.length);
    mask_tokens(ids.subspan(row, static_cast<std::size_t>(sequences[i].length)), sequences[i].sample, tokenizer, rule,
                positions, targets);
    for (std::size_t j = 0; j < positions.size(); ++j, ++used) {
      index[used] = static_cast<std::int32_t>(row) + positions[j];
      target[used] = targets[j];
    }
  }
  batch.counted = static_cast<std::int64_t>(used);
}

// Fills for every token its successor in the same document and the position at which that document begins.
void fill_causal(const Window& window, std::span<const Sequence> sequences, Batch& batch) {
  const std::int64_t length = batch.length;
  const auto targets = batch.add("targets", DType::i32, {batch.sequences, length}).as<std::int32_t>();
  const auto begins = batch.add("key_begin", DType::i32, {batch.sequences, length}).as<std::int32_t>();
  const auto positions = batch.add("position_ids", DType::i32, {batch.sequences, length}).as<std::int32_t>();
  for (const auto& all : {targets, begins, positions})
    std::fill(all.begin(), all.end(), all.data() == targets.data() ? -1 : 0);
  std::size_t row = 0;
  for (const Sequence& sequence : sequences) {
    auto document = std::upper_bound(window.documents.begin(), window.documents.end(), sequence.begin) - 1;
    for (std::int32_t t = 0; t < sequence.length; ++t) {
      const std::size_t at = sequence.begin + static_cast<std::size_t>(t);
      if (document + 1 != window.documents.end() && *(document + 1) == at) ++document;
      const std::size_t k = row + static_cast<std::size_t>(t);
      begins[k] = static_cast<std::int32_t>(*document - sequence.begin);
      positions[k] = t - begins[k];
      const bool ends = document + 1 != window.documents.end() && *(document + 1) == at + 1;
      const bool counts = window.answers.empty() || t + 1 == sequence.length || window.answers[at + 1] != 0;
      const std::int32_t follows = t + 1 == sequence.length ? sequence.next : ends ? -1 : window.ids[at + 1];
      targets[k] = t >= sequence.counted_from && counts ? follows : -1;
      batch.counted += targets[k] >= 0;
    }
    row += static_cast<std::size_t>(length);
  }
}

// A token that may be masked, with its random numbers.
struct Candidate {
  std::uint64_t draw;
  std::int32_t position;
  std::uint32_t change, piece;
};

bool by_position(const Candidate& a, const Candidate& b) { return a.position < b.position; }
bool by_draw(const Candidate& a, const Candidate& b) { return a.draw != b.draw ? a.draw < b.draw : by_position(a, b); }

// Keeps the `count` candidates with the smallest draws.
void choose_tokens(std::size_t count, std::vector<Candidate>& candidates) {
  const auto end = candidates.begin() + static_cast<std::ptrdiff_t>(count);
  if (count < candidates.size()) std::nth_element(candidates.begin(), end, candidates.end(), by_draw);
  candidates.erase(end, candidates.end());
  std::sort(candidates.begin(), candidates.end(), by_position);
}

// Keeps whole words, in the order of the draws of their first tokens, as long as they fit into `count`. If none does,
// the first one is cut.
void choose_words(std::span<const std::int32_t> ids, const std::vector<bool>& goes_on, std::size_t count,
                  std::vector<Candidate>& candidates) {
  struct Word {
    Candidate first;
    std::size_t begin, size;
  };
  std::vector<Word> words;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& one = candidates[i];
    const bool follows = i > 0 && candidates[i - 1].position + 1 == one.position;
    if (follows && goes_on[static_cast<std::size_t>(ids[static_cast<std::size_t>(one.position)])])
      ++words.back().size;
    else
      words.push_back({one, i, 1});
  }
  std::sort(words.begin(), words.end(), [](const Word& a, const Word& b) { return by_draw(a.first, b.first); });
  std::vector<Candidate> chosen;
  const auto take = [&](const Word& word, std::size_t most) {
    const auto from = candidates.begin() + static_cast<std::ptrdiff_t>(word.begin);
    chosen.insert(chosen.end(), from, from + static_cast<std::ptrdiff_t>(std::min(most, word.size)));
  };
  for (const Word& word : words)
    if (chosen.size() + word.size <= count) take(word, word.size);
  if (chosen.empty() && !words.empty()) take(words.front(), count);
  std::sort(chosen.begin(), chosen.end(), by_position);
  candidates = std::move(chosen);
}

// The contents of the batch that the task adds to the tokens.
void fill_targets(const Window& window, std::span<const Sequence> sequences, const Tokenizer& tokenizer,
                  const MaskRule& rule, Batch& batch) {
  switch (window.task) {
    case Task::clm: return fill_causal(window, sequences, batch);
    case Task::mlm: return fill_masks(sequences, tokenizer, rule, batch);
    case Task::regression: return fill_scores(sequences, batch);
    case Task::multilabel: return fill_label_sets(*window.table, sequences, batch);
    case Task::tag: return fill_tags(window, sequences, batch);
    case Task::pairs: return fill_partners(batch);
    default: return fill_labels(sequences, batch);
  }
}

void collate_texts(const Window& window, std::span<const Sequence> sequences, const Tokenizer& tokenizer,
                   const MaskRule& rule, Batch& batch) {
  batch.sequences = static_cast<std::int64_t>(sequences.size());
  batch.length = batch.tokens = batch.counted = 0;
  if (sequences.empty()) return;
  for (const Sequence& sequence : sequences) batch.length = std::max(batch.length, round_up_length(sequence.length));
  fill_rows(window, sequences, std::max(0, tokenizer.specials().pad), batch);
  fill_targets(window, sequences, tokenizer, rule, batch);
}

}  // namespace

void mask_tokens(std::span<std::int32_t> ids, std::int64_t sample, const Tokenizer& tokenizer, const MaskRule& rule,
                 std::vector<std::int32_t>& positions, std::vector<std::int32_t>& targets) {
  const Random random(rule.seed, 0, Purpose::mask);
  std::vector<Candidate> candidates;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (tokenizer.specials().contains(ids[i])) continue;
    const kernels::PhiloxBlock draw = random.draw(static_cast<std::uint64_t>(sample), static_cast<std::uint32_t>(i));
    candidates.push_back(
        {std::uint64_t{draw.word[0]} << 32 | draw.word[1], static_cast<std::int32_t>(i), draw.word[2], draw.word[3]});
  }
  const auto wanted = static_cast<std::size_t>(rule.probability * static_cast<double>(candidates.size()) + 0.5);
  const std::size_t count = std::min(candidates.size(), std::max<std::size_t>(1, wanted));
  rule.goes_on ? choose_words(ids, *rule.goes_on, count, candidates) : choose_tokens(count, candidates);

  constexpr double range = 4294967296.0;
  positions.clear();
  targets.clear();
  for (const Candidate& chosen : candidates) {
    std::int32_t& id = ids[static_cast<std::size_t>(chosen.position)];
    positions.push_back(chosen.position);
    targets.push_back(id);
    if (chosen.change < 0.8 * range)
      id = tokenizer.specials().mask;
    else if (chosen.change < 0.9 * range)
      id = random_piece(chosen.piece, tokenizer);
  }
}

void collate(const Window& window, std::span<const Sequence> sequences, const Tokenizer& tokenizer,
             const MaskRule& rule, Batch& batch) {
  if (window.task == Task::pairs) {
    const std::vector<Sequence> texts = apart(sequences);
    collate_texts(window, texts, tokenizer, rule, batch);
  } else {
    collate_texts(window, sequences, tokenizer, rule, batch);
  }
}

}  // namespace comera::data
