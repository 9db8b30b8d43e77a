// The model in a GGUF file of the llama architecture, as a Hugging Face folder would hold it.
#pragma once

#include <map>
#include <memory>

#include "lib/io/gguf/gguf.h"
#include "lib/io/json.h"
#include "lib/io/weight_file.h"

namespace comera::io {

// config.json of the model. InputError: another architecture, or a setting that such a folder cannot hold.
Json gguf_config(const GgufFile& file);

// InputError if the file has a vocabulary alone, or nothing.
void check_holds_tensors(const GgufFile& file);

// Names and layouts are those of `transformers`: llama.cpp stores the rows of q and k in pairs for its rotary
// embedding. Quantised tensors become fp32 on request, others keep their type.
class GgufWeights final : public WeightFile {
 public:
  // Divisors of frequencies are no weights (gguf_rope.h). InputError: another tensor that such a folder cannot hold.
  explicit GgufWeights(std::shared_ptr<const GgufFile> file);

  const std::string& path() const override { return file_->path(); }
  // The bytes of the dense file with the same tensors, so that ratios and budgets are those of the folder.
  std::uint64_t file_bytes() const override;
  std::vector<std::string> all_paths() const override { return file_->all_paths(); }
  const std::vector<StoredTensor>& tensors() const override { return tensors_; }
  const Metadata& metadata() const override { return metadata_; }
  StoredBytes bytes(const StoredTensor& tensor) const override;
  void read_strip(const StoredTensor& tensor, std::int64_t first, std::span<float> out) const override;
  void forget(const StoredTensor& tensor) const override;

  // A tensor of the file. `paired_heads`: its rows are in pairs in so many heads (gguf_names.h); 0: they are not.
  struct Source {
    const GgufTensor* tensor = nullptr;
    std::int64_t paired_heads = 0;
  };

 private:
  std::shared_ptr<const GgufFile> file_;
  std::map<std::string, Source> sources_;
  std::vector<StoredTensor> tensors_;
  Metadata metadata_;
};

}  // namespace comera::io
