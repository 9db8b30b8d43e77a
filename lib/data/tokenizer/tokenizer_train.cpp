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

struct Drawn {
  std::uint64_t draw, index;
  std::string text;
  bool operator<(const Drawn& other) const { return draw != other.draw ? draw < other.draw : index < other.index; }
};

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

std::vector<std::string> sample_texts(const SampleSpec& spec) {
  const Random random(spec.seed, 0, Purpose::sample);
  const auto limit = spec.lines > 0 ? static_cast<std::size_t>(spec.lines) : SIZE_MAX;
  std::priority_queue<Drawn> kept;  // the smallest draws, the largest of them on top
  std::uint64_t index = 0;
  const auto take = [&](std::string_view text) {
    if (is_blank(text)) return;
    const kernels::PhiloxBlock block = random.draw(index);
    const std::uint64_t draw = std::uint64_t{block.word[0]} << 32 | block.word[1];
    if (kept.size() < limit || draw < kept.top().draw) kept.push({draw, index, std::string(text)});
    if (kept.size() > limit) kept.pop();
    ++index;
  };
  const std::vector<std::string> files = resolve_files(spec.files);
  const bool in_vain = names_in_vain(files, spec.format, spec.columns);
  for (const std::string& file : files) {
    TextReader reader(file, {spec.format, spec.columns, in_vain, "", longest_part});
    Reading reading(file);
    for (Row row; reader.next(row); reading.at(reader.lines()))
      for (const std::string_view text : row.text) take(text);
  }
  if (kept.empty()) fail_input("[tokenizer] {}: holds no text to learn from", spec.files.front());
  std::vector<Drawn> drawn;
  for (; !kept.empty(); kept.pop()) drawn.push_back(kept.top());
  std::sort(drawn.begin(), drawn.end(), [](const Drawn& a, const Drawn& b) { return a.index < b.index; });
  std::vector<std::string> texts;
  for (Drawn& one : drawn) texts.push_back(std::move(one.text));
  return texts;
}

std::string train_sentencepiece(std::span<const std::string> texts, const TrainTokenizerOptions& options) {
  if (options.model != "unigram" && options.model != "bpe")
    fail_input("[tokenizer] SentencePiece models are 'unigram' or 'bpe', not '{}'", options.model);
  const std::vector<std::string> sentences = sentences_of(texts);
  // The number of threads is fixed, because it determines how sums are split.
  const std::unordered_map<std::string, std::string> arguments = {
      {"model_type", options.model},
      {"vocab_size", std::to_string(options.vocab_size)},
      {"normalization_rule_name", options.letter_case == LetterCase::uncased ? "nmt_nfkc_cf" : "nmt_nfkc"},
      {"control_symbols", "[CLS],[SEP],[MASK]"},
      {"pad_id", "0"},
      {"unk_id", "1"},
      {"bos_id", "-1"},
      {"eos_id", "-1"},
      {"hard_vocab_limit", options.model == "unigram" ? "false" : "true"},
      {"num_threads", "4"},
      {"minloglevel", "0"},
  };
  SentencePieceProgress progress(std::ssize(sentences), options.vocab_size);
  Sentences iterator(sentences, progress);
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train(arguments, &iterator, &model);
  if (!status.ok())
    fail_input("[tokenizer] no SentencePiece model of {} pieces can be learned from these {} texts: {}",
               options.vocab_size, texts.size(), status.message());
  return model;
}

}  // namespace comera::data
