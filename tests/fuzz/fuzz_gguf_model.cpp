// Reads any bytes as a GGUF file with a model: configuration, tokenizer and weights. Each is either an error with a
// message, or whole.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "lib/core/error.h"
#include "lib/io/gguf/gguf_model.h"
#include "lib/io/gguf/gguf_tokenizer.h"
#include "tests/fuzz/scratch_file.h"

using namespace comera;

namespace {

template <class Read>
void attempt(Read&& read) {
  try {
    read();
  } catch (const InputError&) {
  }
}

void read_weights(const std::shared_ptr<const io::GgufFile>& file) {
  const io::GgufWeights weights(file);
  for (const io::StoredTensor& tensor : weights.tensors()) {
    std::vector<float> strip(static_cast<std::size_t>(tensor.elements()));
    weights.read_strip(tensor, 0, strip);
    weights.bytes(tensor);
    weights.forget(tensor);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ScratchFile scratch;
  scratch.fill(data, size);
  attempt([&] {
    const auto file = std::make_shared<const io::GgufFile>(scratch.path());
    attempt([&] {
      if (!io::gguf_config(*file).is_object()) std::abort();
    });
    attempt([&] {
      if (io::gguf_tokenizer_files(*file).tokenizer.empty()) std::abort();
    });
    attempt([&] { read_weights(file); });
  });
  return 0;
}
