// Progress of SentencePiece's training. The library reports it only by lines on std::cerr, so these are read.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <streambuf>
#include <string>
#include <string_view>

#include "lib/core/terminal/task_progress.h"

namespace comera::data {

// Takes over std::cerr during its lifetime and turns the library's lines into tasks. Lines of errors pass through.
// Training needs minloglevel 0.
class SentencePieceProgress final : public std::streambuf {
 public:
  SentencePieceProgress(std::int64_t sentences, std::int64_t vocab_size);
  ~SentencePieceProgress() override;
  SentencePieceProgress(const SentencePieceProgress&) = delete;
  SentencePieceProgress& operator=(const SentencePieceProgress&) = delete;

  void sentence_read() { phase_->advance(); }

 private:
  int overflow(int character) override;
  void see(std::string_view line);
  void see_pass(std::string_view line);
  void begin(const char* what, std::int64_t of = 0);

  std::int64_t vocab_size_, alphabet_ = 0;
  bool learning_ = false;  // the last phase, with a known end, has begun
  TaskProgress task_;
  std::optional<TaskProgress> phase_;
  std::streambuf* before_;
  std::mutex mutex_;  // the library's threads may write, too
  std::string line_;
};

}  // namespace comera::data
