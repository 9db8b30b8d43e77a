// Converts stdin to stdout, line by line: `tokenize_lines encode|offsets|decode TOKENIZER [cased|uncased]`. `offsets`
// writes ID:BEGIN:END in bytes. Prints its speed on stderr. `tokenize_lines train KIND SIZE FOLDER` learns from stdin.
#include <chrono>
#include <cstdio>
#include <iostream>
#include <sstream>

#include "lib/core/files/file.h"
#include "lib/data/tokenizer/pipeline/pipeline.h"
#include "lib/data/tokenizer/training/tokenizer_files.h"

using namespace comera::data;

namespace {

// KIND: wordpiece, wordpiece-cased, bpe, bpe-decoder, unigram.
int train(const std::string& kind, std::int64_t size, const std::string& folder) {
  std::vector<std::string> texts;
  for (std::string line; std::getline(std::cin, line);)
    if (!line.empty()) texts.push_back(line);
  TrainTokenizerOptions options;
  options.vocab_size = size;
  if (kind.ends_with("-cased")) options.letter_case = LetterCase::cased;
  if (kind.ends_with("-decoder")) options.frame = TextFrame::decoder;
  const comera::Folder made = comera::Folder::made(folder);
  if (kind.starts_with("wordpiece")) {
    const std::string vocab = train_wordpiece(texts, options);
    parse_wordpiece(vocab, kind, options.letter_case)->save(made);
    comera::write_file_atomic(made, "tokenizer.json", wordpiece_tokenizer_json(vocab, options.letter_case));
    return 0;
  }
  const TextSource source = [&](const TakeText& take) {
    for (const std::string& text : texts) take(text);
  };
  const std::string json = kind.starts_with("bpe")
                               ? train_bpe(source, options)
                               : unigram_tokenizer_json(train_sentencepiece(texts, options), options.frame);
  Pipeline({json, trained_tokenizer_config(options.frame), ""}, kind).save(made);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  if (argc == 5 && std::string(argv[1]) == "train") return train(argv[2], std::stol(argv[3]), argv[4]);
  const std::string letter_case = argc > 3 ? argv[3] : "";
  const auto tokenizer = load_tokenizer(argv[2], letter_case == "cased"     ? LetterCase::cased
                                                 : letter_case == "uncased" ? LetterCase::uncased
                                                                            : LetterCase::automatic);
  std::ostringstream all;
  all << std::cin.rdbuf();
  const std::string text = all.str();
  const bool encode = std::string(argv[1]) == "encode", offsets = std::string(argv[1]) == "offsets";
  const auto* pipeline = dynamic_cast<const Pipeline*>(tokenizer.get());
  if (offsets && !pipeline) return 2;

  const auto start = std::chrono::steady_clock::now();
  std::string out;
  Ids ids;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    ids.clear();
    if (offsets) {
      std::vector<Span> spans;
      pipeline->encode(line, ids, spans);
      for (std::size_t i = 0; i < ids.size(); ++i)
        out += fmt::format("{}{}:{}:{}", i ? " " : "", ids[i], spans[i].begin, spans[i].end);
    } else if (encode) {
      tokenizer->encode(line, ids);
      for (std::size_t i = 0; i < ids.size(); ++i) (out += i ? " " : "") += std::to_string(ids[i]);
    } else {
      std::istringstream numbers(line);
      for (std::int32_t id = 0; numbers >> id;) ids.push_back(id);
      std::string decoded = tokenizer->decode(ids);
      for (char& c : decoded) c = c == '\n' ? ' ' : c;
      out += decoded;
    }
    out += '\n';
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::fprintf(stderr, "%.1f MB/s\n", static_cast<double>(text.size()) / 1e6 / seconds.count());
  std::fwrite(out.data(), 1, out.size(), stdout);
}
