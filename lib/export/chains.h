// Reads the weights of a folder for graphs: dense, as two factors, or core by core, from any stored form.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "lib/core/terminal/task_progress.h"
#include "lib/io/tt_format.h"
#include "lib/tt/chain.h"

namespace comera::exporting {

using Sizes = tt::Sizes;
using Matrix = tt::FloatMatrix;

// A chain of a model folder under the name of its weight, without ".weight". The rank diagonals are folded into the
// cores; masked entries are zero.
struct StoredChain {
  std::string name;
  std::int64_t rows = 0, columns = 0;  // of the weight: inputs and outputs, or rows and columns of a table
  tt::FloatChain numbers;

  const tt::Layout& layout() const { return numbers.layout; }
  bool table() const { return layout().kind == tt::Kind::ttm; }
  std::int64_t rank() const { return layout().ranks[layout().middle()]; }  // between left and right factor
};

// Names of weights that a file gets in another form than the folder has.
struct OtherForms {
  std::set<std::string> widened;   // 2 and 3 bits, stored in 4 with the same numbers
  std::set<std::string> floating;  // cores on a grid, stored as floating-point numbers
  std::set<std::string> dense;     // chains and numbers on grids, multiplied out
};

// Reads the weights of a model folder by their Hugging Face names.
class WeightReader {
 public:
  // `task`: counts the bytes that are read, if given. `others`: gets the names of the weights that linear() and table()
  // multiply out, and of those that the caller widens.
  explicit WeightReader(const io::ModelFolder& folder, TaskProgress* task = nullptr, OtherForms* others = nullptr);
  // Reads the folder as if these weights were chains. Only shapes are available: cores and matrices have no numbers.
  WeightReader(const io::ModelFolder& folder, const std::vector<io::ChainSpec>& planned, OtherForms* others = nullptr);

  const io::ModelFolder& folder() const { return folder_; }
  const io::ComeraBlock& block() const { return block_; }
  // Null if the weight is dense, or becomes dense because a graph has no form for it: numbers on a grid. `name` is
  // without ".weight".
  const io::ChainSpec* chain_spec(const std::string& name) const;
  // The description of a weight on a grid, and its lines as stored; null: it is none.
  const io::ChainSpec* grid_spec(const std::string& name) const;
  std::span<const std::byte> base_bytes(const io::ChainSpec& spec) const;
  void note_widened(const io::ChainSpec& spec) const;
  StoredChain chain(const io::ChainSpec& spec) const;
  // A dense tensor as stored in the file.
  std::vector<float> tensor(const std::string& name, const Sizes& shape) const;
  bool has_tensor(const std::string& name) const { return folder_.find(name) != nullptr; }
  // [in, out] of a linear weight in any form, or [rows, columns] of a table.
  Matrix linear(const std::string& name, std::int64_t in, std::int64_t out, bool conv1d = false) const;
  Matrix table(const std::string& name, std::int64_t rows, std::int64_t columns) const;
  // A weight of the folder that is stored as a chain, multiplied out: in the order of its dense tensor, and the type
  // that this tensor gets.
  Matrix as_stored(const io::ChainSpec& spec) const;
  io::StoredType dense_type(const io::ChainSpec& spec) const;

 private:
  void number_chains();
  const io::ChainSpec* stored_spec(const std::string& name) const;  // null if the weight is stored dense
  Matrix whole(const io::ChainSpec& spec) const;
  Matrix shape_of(const std::string& name, std::int64_t rows, std::int64_t columns) const;
  void count(const std::string& tensor) const;

  const io::ModelFolder& folder_;
  io::ComeraBlock block_;
  std::map<std::string, std::size_t> numbers_;  // of the chains in block_, by name
  TaskProgress* task_ = nullptr;
  OtherForms* others_ = nullptr;
  bool shapes_alone_ = false;
};

}  // namespace comera::exporting
