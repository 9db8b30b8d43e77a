// Reads the weights of a folder for graphs: dense, as two factors, or core by core, from any stored form.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/io/tt_format.h"

namespace comera::exporting {

using Sizes = std::vector<std::int64_t>;

// A matrix in row-major order.
struct Matrix {
  std::int64_t rows = 0, columns = 0;
  std::vector<float> values;
};
Matrix multiply(const Matrix& a, const Matrix& b);  // summed in double
Matrix transposed(const Matrix& a);

// A chain in memory. The rank diagonals are folded into the cores; masked entries are zero.
struct Chain {
  std::string name;
  bool table = false;
  std::int64_t rows = 0, columns = 0;  // linear: in, out; table: rows, columns
  Sizes left_modes, right_modes;       // linear: in modes, out modes; table: row modes, column modes
  Sizes ranks;                         // cores + 1; if all inner ranks are 0, the weight is zero
  std::vector<std::vector<float>> cores;
  std::vector<std::int32_t> order;  // linear: row order[p] of the weight is row p of the chain; empty: no permutation
  // Linear: output column gauge[r] of the right factor is the unit vector r; empty: no gauge.
  std::vector<std::int32_t> gauge;
  // Table: row exact_ids[e] is row e of exact_rows and replaces the value of the cores; rising.
  std::vector<std::int32_t> exact_ids;
  Matrix exact_rows;  // [E, columns]

  bool empty() const;
  std::size_t middle() const;                       // the bond between left and right factor
  std::int64_t core_elements(std::size_t k) const;  // as stored, without a gauge's identity block
};

// The position of each output column of a gauged chain in [identity | last core].
std::vector<std::int32_t> gauge_columns(const Chain& chain);
// The position of each row of a sorted weight in the chain: the inverse of `order`.
std::vector<std::int32_t> chain_rows(const Chain& chain);

// y = x left right. Rows are in the weight's own order.
struct Factors {
  Matrix left, right;  // [in, R], [R, out]
};
Factors factors_of(const Chain& chain);  // linear, not empty

// Row i of a table is left[i / right_rows] (as [left columns, R]) times right[i % right_rows] (as [R, right columns]).
struct TableHalves {
  std::int64_t left_rows = 0, left_columns = 0, rank = 0, right_rows = 0, right_columns = 0;
  Matrix left, right;  // [left_rows, left_columns R], [right_rows, R right_columns]
};
TableHalves halves_of(const Chain& chain);  // a table, not empty
Matrix dense_table(const Chain& chain);     // includes exact rows; the other rows are zero if the chain is empty

// Reads the weights of a model folder by their Hugging Face names.
class WeightReader {
 public:
  explicit WeightReader(const io::ModelFolder& folder);
  // Reads the folder as if these weights were chains. Only shapes are available; all lists of numbers are empty.
  WeightReader(const io::ModelFolder& folder, const std::vector<io::ChainSpec>& planned);

  const io::ModelFolder& folder() const { return folder_; }
  const io::ComeraBlock& block() const { return block_; }
  // Null if the weight is dense. `name` is without ".weight".
  const io::ChainSpec* chain_spec(const std::string& name) const;
  Chain chain(const io::ChainSpec& spec) const;
  // A dense tensor as stored in the file.
  std::vector<float> tensor(const std::string& name, const Sizes& shape) const;
  bool has_tensor(const std::string& name) const { return folder_.find(name) != nullptr; }
  // [in, out] of a linear weight in any form, or [rows, columns] of a table.
  Matrix linear(const std::string& name, std::int64_t in, std::int64_t out) const;
  Matrix table(const std::string& name, std::int64_t rows, std::int64_t columns) const;

 private:
  const io::ModelFolder& folder_;
  io::ComeraBlock block_;
  bool shapes_alone_ = false;
};

}  // namespace comera::exporting
