#include "lib/data/tokenizer/tokenizer_train.h"

#include <sentencepiece_trainer.h>

#include <algorithm>
#include <queue>
#include <unordered_map>

#include "lib/core/error.h"
#include "lib/data/files/files.h"
#include "lib/data/files/text_reader.h"
#include "lib/data/random.h"
#include "lib/data/tokenizer/sentencepiece_progress.h"

namespace comera::data {
namespace {

// The library skips longer sentences.
constexpr std::size_t longest_sentence = 4000;

struct Draw {
  std::uint64_t draw, index;
  auto operator<=>(const Draw&) const = default;
};

// Calls `take` with every text that is not blank, and its draw.
void for_each_draw(const SampleSpec& spec, const std::vector<std::string>& files,
                   const std::function<void(Draw, std::string_view)>& take) {
  const Random random(spec.seed, 0, Purpose::sample);
  std::uint64_t index = 0;
  for (const std::string& file : files) {
    TextReader reader(file, {spec.format, spec.columns, !spec.columns.empty(), "", longest_part});
    Reading reading(file);
    for (Row row; reader.next(row); reading.at(reader.lines()))
      for (const std::string_view text : row.text) {
        if (is_blank(text)) continue;
        const kernels::PhiloxBlock block = random.draw(index);
        take({std::uint64_t{block.word[0]} << 32 | block.word[1], index}, text);
        ++index;
      }
  }
}

// The highest of the lowest `limit` draws.
Draw last_draw(const SampleSpec& spec, const std::vector<std::string>& files, std::size_t limit) {
  std::priority_queue<Draw> kept;
  std::uint64_t all = 0;
  for_each_draw(spec, files, [&](Draw draw, std::string_view) {
    ++all;
    if (kept.size() < limit || draw < kept.top()) kept.push(draw);
    if (kept.size() > limit) kept.pop();
  });
  return all <= limit ? Draw{UINT64_MAX, UINT64_MAX} : kept.top();
}

// Cuts long texts at blanks, or at a character if there is no blank.
std::vector<std::string> sentences_of(std::span<const std::string> texts) {
  std::vector<std::string> sentences;
  for (std::string_view rest : texts) {
    while (rest.size() > longest_sentence) {
      std::size_t end = rest.rfind(' ', longest_sentence);
      if (end == std::string_view::npos || end == 0)
        for (end = longest_sentence; end > 1 && (static_cast<unsigned char>(rest[end]) & 0xC0) == 0x80;) --end;
      sentences.emplace_back(rest.substr(0, end));
      rest.remove_prefix(end);
    }
    sentences.emplace_back(rest);
  }
  return sentences;
}

class Sentences final : public sentencepiece::SentenceIterator {
 public:
  Sentences(const std::vector<std::string>& sentences, SentencePieceProgress& progress)
      : sentences_(sentences), progress_(progress) {}
  bool done() const override { return at_ == sentences_.size(); }
  void Next() override {
    ++at_;
    progress_.sentence_read();
  }
  const std::string& value() const override { return sentences_[at_]; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  const std::vector<std::string>& sentences_;
  SentencePieceProgress& progress_;
  std::size_t at_ = 0;
};

}  // namespace

std::int64_t for_each_sampled_text(const SampleSpec& spec, const TakeText& take) {
  const std::vector<std::string> files = resolve_files(spec.files);
  const auto limit = static_cast<std::size_t>(spec.lines);
  const Draw last = limit > 0 ? last_draw(spec, files, limit) : Draw{UINT64_MAX, UINT64_MAX};
  std::int64_t taken = 0;
  for_each_draw(spec, files, [&](Draw draw, std::string_view text) {
    if (draw > last) return;
    take(text);
    ++taken;
  });
  if (taken == 0) fail_input("[tokenizer] {}: holds no text to learn from", spec.files.front());
  return taken;
}

std::vector<std::string> sample_texts(const SampleSpec& spec) {
  std::vector<std::string> texts;
  for_each_sampled_text(spec, [&](std::string_view text) { texts.emplace_back(text); });
  return texts;
}

std::string train_wordpiece(std::span<const std::string> texts, const TrainTokenizerOptions& options) {
  return train_wordpiece(
      [&](const TakeText& take) {
        for (const std::string& text : texts) take(text);
      },
      options);
}

std::string train_sentencepiece(std::span<const std::string> texts, const TrainTokenizerOptions& options) {
  if (options.model != "unigram" && options.model != "bpe")
    fail_input("[tokenizer] SentencePiece models are 'unigram' or 'bpe', not '{}'", options.model);
  const std::vector<std::string> sentences = sentences_of(texts);
  const bool decoder = options.frame == TextFrame::decoder;
  // The number of threads is fixed, because it determines how sums are split.
  const std::unordered_map<std::string, std::string> arguments = {
      {"model_type", options.model},
      {"vocab_size", std::to_string(options.vocab_size)},
      {"normalization_rule_name", options.letter_case == LetterCase::uncased ? "nmt_nfkc_cf" : "nmt_nfkc"},
      {"control_symbols", decoder ? "" : "[CLS],[SEP],[MASK]"},
      {"pad_id", "0"},
      {"unk_id", "1"},
      {"bos_id", decoder ? "2" : "-1"},
      {"eos_id", decoder ? "3" : "-1"},
      {"hard_vocab_limit", options.model == "unigram" ? "false" : "true"},
      {"num_threads", "4"},
      {"minloglevel", "0"},
  };
  SentencePieceProgress progress(std::ssize(sentences), options.vocab_size);
  Sentences iterator(sentences, progress);
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train(arguments, &iterator, &model);
  if (std::string_view(status.message()).find("smaller than required_chars") != std::string_view::npos)
    fail_input(
        "[tokenizer] the {} texts hold more different characters than a vocabulary of {} pieces has room for; use a "
        "larger --vocab-size",
        texts.size(), options.vocab_size);
  if (!status.ok())
    fail_input("[tokenizer] no SentencePiece model of {} pieces can be learned from these {} texts: {}",
               options.vocab_size, texts.size(), status.message());
  return model;
}

}  // namespace comera::data
