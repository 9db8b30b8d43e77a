// Weights and moments as safetensors. Names are the parameters' own (lib/io/FORMAT.md); linear weights are [out, in] in
// files.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/io/safetensors.h"
#include "lib/train/weights.h"

namespace comera::train {

// Files that a run goes on from keep every bit; files for others have each parameter's stored type.
enum class FileTypes : std::uint8_t { memory, stored };

// Whole-file bytes of what save_weights() would write, from shapes alone.
std::uint64_t weights_file_bytes(const Model& model, FileTypes types = FileTypes::memory);

// RunError where a number is too large for its stored type.
void save_weights(const std::string& path, const Weights& weights, FileTypes types = FileTypes::memory);
void save_weights(const Folder& folder, const std::string& name, const Weights& weights, FileTypes types);
// `path`: a file, or a folder with model.safetensors or shards. Every parameter must be there with its shape, under its
// name or an alias; where several are there they must agree. InputError naming file and tensor; chains must be as
// config.json describes them (io::describe()). Tensors that the model has no place for are named in a message. A chain
// that is stored with a gauge fills one without.
struct LoadOptions {
  std::function<bool(const Parameter&)> fresh;     // keeps what it has, whatever the file holds
  std::function<bool(const Parameter&)> may_miss;  // keeps what it has where the file lacks it
  // Names that begin with the first are looked for with the second in its place.
  std::string model_prefix = {}, file_prefix = {};
};
// Gives the names of the parameters that kept what they had.
std::vector<std::string> load_weights(const std::string& path, Weights& weights, const LoadOptions& options = {});

// A model's file, read parameter by parameter; nothing of it stays in memory.
class StoredWeights {
 public:
  explicit StoredWeights(const std::string& path);  // as load_weights()
  ~StoredWeights();
  // In the orientation of memory. InputError as by load_weights().
  void read(const Parameter& parameter, std::span<float> numbers) const;

 private:
  struct Opened;
  std::unique_ptr<Opened> opened_;
};

// What load_weights() refuses for names, shapes and types, before a number is read or memory is taken for one: what a
// configuration claims is told with its bytes.
void check_weights(const std::string& path, const Model& model, const LoadOptions& options = {});

// The types that a model's file has, by tensor, and the one that most of its bytes have.
struct StoredTypes {
  std::map<std::string, DType> by_name = {};
  DType others = DType::f32;
};
StoredTypes stored_types(const std::string& path);
// Models of the factory whose parameters are handed on in these types; rank diagonals, which a threshold judges, stay
// as in memory. `naming`: how names in the file differ.
layers::ModelFactory storing(layers::ModelFactory base, StoredTypes types, const LoadOptions& naming = {});

// "moment1.<name>" and "moment2.<name>", in the orientation of memory.
void save_moments(const Folder& folder, const std::string& name, const Weights& weights);
void load_moments(const std::string& path, Weights& weights);

}  // namespace comera::train
