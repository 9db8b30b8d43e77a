// LoRA adapters of PEFT: a folder with adapter_config.json and adapter_model.safetensors, merged into the dense weights
// of a model while they are read.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lib/io/adapter/lora_config.h"
#include "lib/io/safetensors.h"

namespace comera::io {

class ModelFolder;

class LoraAdapter {
 public:
  // The factors of a weight W: W + scale B A for W [out, in], or its transpose for W [in, out] (GPT-2's Conv1D,
  // tables).
  struct Part {
    const StoredTensor *a = nullptr, *b = nullptr;  // A [R, in], B [out, R]
    double scale = 0;
    bool turned = false;
  };

  // InputError: no such adapter, settings that are not read, factors without their partner or of a shape that does not
  // fit, and a module that the model does not hold as a dense weight.
  LoraAdapter(std::string folder, const ModelFolder& model);

  const std::string& folder() const { return folder_; }
  std::string config_path() const { return join_path(folder_, "adapter_config.json"); }
  const std::string& weights_path() const { return weights_.path(); }
  const Part* find(const std::string& tensor) const;  // of a weight; null if the adapter leaves it as it is
  std::size_t size() const { return parts_.size(); }

  // Adds the change of the rows from `first` on. `rows` has whole rows of the weight, and `columns` each. Products are
  // summed in double and rounded once, so a row does not depend on the rows read with it.
  void add(const std::string& tensor, std::int64_t first, std::int64_t columns, std::span<float> rows) const;

 private:
  struct Factors {
    std::string tensor;
    std::int64_t rank = 0;
    std::vector<float> left, right;  // the change of the weight in its file: left [rows, R] times right [R, columns]
  };
  void pair_up(const ModelFolder& model);
  void check(const std::string& tensor, const Part& part, const ModelFolder& model) const;
  std::vector<float> factor(const StoredTensor& tensor, double scale, bool turned) const;
  std::shared_ptr<const Factors> factors_of(const std::string& tensor) const;

  std::string folder_;
  SafetensorsFile weights_;
  LoraConfig config_;
  std::map<std::string, Part> parts_;  // by the name of the weight
  mutable std::mutex lock_;
  mutable std::shared_ptr<const Factors> last_;  // weights are read in strips
};

// The file with the adapter merged in. Sums are rounded to the type of the weight.
class AdaptedWeights final : public WeightFile {
 public:
  AdaptedWeights(std::unique_ptr<const WeightFile> file, std::shared_ptr<const LoraAdapter> adapter)
      : file_(std::move(file)), adapter_(std::move(adapter)) {}

  const std::string& path() const override { return file_->path(); }
  std::uint64_t file_bytes() const override { return file_->file_bytes(); }
  std::vector<std::string> all_paths() const override;
  const std::vector<StoredTensor>& tensors() const override { return file_->tensors(); }
  const Metadata& metadata() const override { return file_->metadata(); }
  StoredBytes bytes(const StoredTensor& tensor) const override;
  void read_strip(const StoredTensor& tensor, std::int64_t first, std::span<float> out) const override;
  void forget(const StoredTensor& tensor) const override { file_->forget(tensor); }

 private:
  std::unique_ptr<const WeightFile> file_;
  std::shared_ptr<const LoraAdapter> adapter_;
};

}  // namespace comera::io
