// Reads and writes weights and the optimiser's state as safetensors. Names are the parameter names (lib/io/FORMAT.md).
// Linear weights are [out, in] in files.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/engine/weights.h"
#include "lib/io/safetensors.h"

namespace comera::engine {

// Files to resume a run from keep every bit. Exported files have the stored type of each parameter.
enum class FileTypes : std::uint8_t { memory, stored };

// Size in bytes of the file that save_weights() would write, from shapes alone.
std::uint64_t weights_file_bytes(const Model& model, FileTypes types = FileTypes::memory);

// Throws RunError if a number is too large for its stored type.
void save_weights(const std::string& path, const Weights& weights, FileTypes types = FileTypes::memory);
void save_weights(const Folder& folder, const std::string& name, const Weights& weights, FileTypes types);
// `path`: a file, or a folder with model.safetensors or shards. Every parameter must exist with its shape, under its
// name or an alias; if several exist, they must agree. Chains must match config.json (io::describe()). Throws
// InputError with the names of file and tensor. A warning names tensors without a place in the model. A chain that is
// stored with a gauge can fill one without.
struct LoadOptions {
  std::function<bool(const Parameter&)> fresh;     // keeps its value, whatever the file contains
  std::function<bool(const Parameter&)> may_miss;  // keeps its value if the file lacks it
  // Names that begin with model_prefix are looked up in the file with file_prefix instead.
  std::string model_prefix = {}, file_prefix = {};
  std::string adapter = {};  // a PEFT LoRA folder that is merged into the dense weights; "": none
};
// Returns the names of the parameters that kept their values.
std::vector<std::string> load_weights(const std::string& path, Weights& weights, const LoadOptions& options = {});

// A model's file, read parameter by parameter. The contents are not kept in memory.
class StoredWeights {
 public:
  explicit StoredWeights(const std::string& path, const std::string& adapter = "");  // as load_weights()
  ~StoredWeights();
  // In the orientation of memory. Throws InputError as load_weights() does.
  void read(const Parameter& parameter, std::span<float> numbers) const;
  // The tensor that holds the parameter. Errors as of read().
  std::string tensor_of(const Parameter& parameter) const;

 private:
  struct Opened;
  std::unique_ptr<Opened> opened_;
};

// Makes the checks of load_weights() for names, shapes and types, before numbers are read or memory is allocated for
// them. So a configuration cannot claim more than the bytes of its file hold.
void check_weights(const std::string& path, const Model& model, const LoadOptions& options = {});

// The types of the tensors in a model's file, by name, and the type of most of its bytes.
struct StoredTypes {
  std::map<std::string, DType> by_name = {};
  DType others = DType::f32;
};
StoredTypes stored_types(const std::string& path);
// Models of the factory whose parameters are exported in these types. Rank diagonals, which are compared with a
// threshold, keep their type in memory. `naming`: differences between names in the file and in the model.
layers::ModelFactory storing(layers::ModelFactory base, StoredTypes types, const LoadOptions& naming = {});

// The optimiser's state as "<state>.<parameter>", in the orientation of memory.
void save_state(const Folder& folder, const std::string& name, const Weights& weights);
void load_state(const std::string& path, Weights& weights);

}  // namespace comera::engine
