// Reads any bytes as the tokenizer_config.json beside a vocab.txt. Either an error with a message, or a tokenizer that
// encodes a text.
#include <stdlib.h>

#include <cstdint>
#include <string>

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/data/tokenizer/tokenizer.h"

using namespace comera;

namespace {

// A folder with a vocabulary, removed when the program ends.
struct ScratchFolder {
  std::string path;
  ScratchFolder() {
    char name[] = "/tmp/comera-fuzz-XXXXXX";
    path = ::mkdtemp(name);
    write_file_atomic(join_path(path, "vocab.txt"), "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##b\nhello\n");
  }
  ~ScratchFolder() { remove_tree(path); }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ScratchFolder folder;
  FileWriter writer(join_path(folder.path, "tokenizer_config.json"));
  writer.write(data, size);
  writer.close();
  try {
    const auto tokenizer = data::load_tokenizer(folder.path, data::LetterCase::automatic);
    tokenizer->decode(tokenizer->encode("Hello ab \xc3\xa9"), true);
  } catch (const InputError&) {
  }
  return 0;
}
