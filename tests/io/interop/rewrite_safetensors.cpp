// rewrite_safetensors IN OUT [TYPE]: copies a file with our reader and writer. TYPE converts floating tensors to it.
#include <cstdio>

#include "lib/core/error.h"
#include "lib/io/safetensors.h"

using namespace comera;
using namespace comera::io;

namespace {

StoredType type_named(const std::string& name) {
  for (const StoredType type : {StoredType::F64, StoredType::F32, StoredType::F16, StoredType::BF16})
    if (name == name_of(type)) return type;
  fail_input("unknown type {}", name);
}

void rewrite(const SafetensorsFile& file, const std::string& to, const std::string& type) {
  std::vector<TensorToWrite> tensors;
  for (const StoredTensor& tensor : file.tensors()) tensors.push_back({tensor.name, tensor.type, tensor.shape});
  if (!type.empty())
    for (TensorToWrite& tensor : tensors)
      if (is_floating(tensor.type)) tensor.type = type_named(type);
  write_safetensors(to, tensors, file.metadata(), [&](const TensorToWrite& tensor, TensorSink& sink) {
    const StoredTensor& source = *file.find(tensor.name);
    if (is_floating(source.type) && !type.empty()) return sink.floats(file.read_floats(tensor.name));
    sink.bytes(file.bytes(source).data(), source.bytes());
  });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  try {
    rewrite(SafetensorsFile(argv[1]), argv[2], argc > 3 ? argv[3] : "");
  } catch (const InputError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
  return 0;
}
