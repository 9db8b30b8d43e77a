// A temporary folder, and the small tokenizer that the tests share.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "lib/data/tokenizer/tokenizer.h"

namespace comera::data {

class Scratch {
 public:
  Scratch() {
    std::string name = (std::filesystem::temp_directory_path() / "comera_data_XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~Scratch() { std::filesystem::remove_all(folder_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
    return path(name);
  }

 private:
  std::string folder_;
};

// [PAD] 0, [UNK] 1, [CLS] 2, [SEP] 3, [MASK] 4, a..z 5..30, ##a..##z 31..56: a word of n letters has n tokens.
inline std::shared_ptr<const Tokenizer> letters() {
  std::string vocab = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (char c = 'a'; c <= 'z'; ++c) vocab += std::string(1, c) + "\n";
  for (char c = 'a'; c <= 'z'; ++c) vocab += std::string("##") + c + "\n";
  return parse_wordpiece(vocab, "letters");
}

}  // namespace comera::data
