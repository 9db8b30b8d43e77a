#include "lib/data/tokenizer/sentencepiece_progress.h"

#include <charconv>
#include <cmath>
#include <iostream>

namespace comera::data {
namespace {

// The number after `key`, if the line has it.
std::optional<std::int64_t> number_after(std::string_view line, std::string_view key) {
  const std::size_t at = line.find(key);
  std::int64_t number = 0;
  if (at == std::string_view::npos) return std::nullopt;
  const char* begin = line.data() + at + key.size();
  if (std::from_chars(begin, line.data() + line.size(), number).ec != std::errc()) return std::nullopt;
  return number;
}

// At most so many passes follow one of the unigram trainer that left `size` pieces: two per round, and each round keeps
// 3/4 of the pieces or fewer, until 1.1 times the vocabulary is left (TrainerSpec: num_sub_iterations,
// shrinking_factor).
std::int64_t passes_left(std::int64_t size, std::int64_t vocab_size) {
  const double excess = static_cast<double>(size) / (1.1 * static_cast<double>(vocab_size));
  return 1 + (excess > 1 ? 2 * std::llround(std::ceil(std::log(excess) / std::log(4.0 / 3))) : 0);
}

}  // namespace

SentencePieceProgress::SentencePieceProgress(std::int64_t sentences, std::int64_t vocab_size)
    : vocab_size_(vocab_size), task_("learning pieces"), before_(std::cerr.rdbuf(this)) {
  begin("reading sentences", sentences);
}

SentencePieceProgress::~SentencePieceProgress() { std::cerr.rdbuf(before_); }

int SentencePieceProgress::overflow(int character) {
  if (character == traits_type::eof()) return traits_type::not_eof(character);
  const std::lock_guard lock(mutex_);
  line_ += static_cast<char>(character);
  if (character == '\n') see(line_), line_.clear();
  return character;
}

void SentencePieceProgress::begin(const char* what, std::int64_t of) {
  phase_.reset();  // before the next one begins: the innermost task is shown
  phase_.emplace(what, of);
}

void SentencePieceProgress::see(std::string_view line) {
  const auto has = [&](std::string_view text) { return line.find(text) != std::string_view::npos; };
  const bool in_source = has(".cc(");  // others are lines of the settings
  if (in_source && !has("LOG(INFO)") && !has("LOG(WARNING)"))
    before_->sputn(line.data(), static_cast<std::streamsize>(line.size()));
  if (const auto size = number_after(line, "Alphabet size=")) alphabet_ = *size;
  // The library reports no number of its work in these phases.
  if (has("Normalizing sentences")) begin("normalising sentences");
  if (has("Making suffix array")) begin("indexing substrings");
  if (has("Extracting frequent sub strings")) begin("counting substrings");
  if (has("EM sub_iter=")) see_pass(line);
  if (!has("Added: freq=")) return;
  if (!learning_) begin("merging pieces", vocab_size_), learning_ = true;
  phase_->done(alphabet_ + number_after(line, " size=").value_or(0));
}

void SentencePieceProgress::see_pass(std::string_view line) {
  if (learning_) return phase_->advance();
  begin("passes over sentences", passes_left(number_after(line, " size=").value_or(0), vocab_size_));
  learning_ = true;
}

}  // namespace comera::data
