// Converts stdin to stdout, line by line: `tokenize_lines encode|offsets|decode TOKENIZER [cased|uncased]`. `offsets`
// writes ID:BEGIN:END in bytes. Prints its speed on stderr.
#include <chrono>
#include <cstdio>
#include <iostream>
#include <sstream>

#include "lib/data/tokenizer/pipeline/pipeline.h"

using namespace comera::data;

int main(int argc, char** argv) {
  if (argc < 3) return 2;
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
