// Tensor trains in Hugging Face folders, as FORMAT.md specifies: named cores and rank diagonals, and a `comera` block
// in config.json.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/io/model_folder.h"
#include "lib/quant/grid.h"
#include "lib/tt/chain.h"

namespace comera::io {

class GgufFile;

inline constexpr int format_version = 2;  // the newest; FORMAT.md tells them apart
Metadata weights_metadata();              // of our model.safetensors: {"format": "pt", "comera_format": "1"}

// The description of a dense weight that is stored as a chain of cores.
struct ChainSpec {
  std::string name;  // of the dense weight, without ".weight"; `bare`: the full name, such as "in_proj_weight"
  FileShape shape;   // of the dense weight in file order: linear [out, in], table [rows, columns]
  // If inner ranks are 0 (all or none), the chain is zero and has no tensors. The inputs' permutation is the tensor
  // `.order`, the gauge's columns `.gauge`, exact rows `.exact.ids` and `.exact.rows`.
  tt::Layout layout;
  FileShape initial_ranks;  // ranks at the start of the training, before any removal
  bool folded = false;      // rank diagonals are multiplied into the cores: no `.rank.` tensors
  // tt of one in mode and one out mode: the activation between its two factors, "silu", "gelu" or "tanh"; "": none.
  // With one the weight is no matrix.
  std::string between = {};
  // A matrix on a grid of which the chain is a correction: the weight is the sum of both. In the file it is the tensor
  // `.base`, U8 [base_lines(), quant::line_bytes(base_numbers())].
  std::optional<quant::Grid> base = {};
  // The cores are numbers on this grid: each is one line of all its numbers in C order, in the file U8
  // [quant::line_bytes(numbers)]. Not with diagonals beside the cores, gauge and `between`.
  std::optional<quant::Grid> cores = {};
  StoredType dense_type = StoredType::F32;  // with a base, or cores on a grid: the type that the weight had
  bool conv1d = false;                      // tt: the dense weight is [in, out] in its file (GPT-2's Conv1D)
  bool bare = false;

  bool table() const { return layout.kind == tt::Kind::ttm; }
  std::int64_t rows() const { return shape[table() || conv1d ? 0 : 1]; }      // inputs, or rows of the table
  std::int64_t columns() const { return shape[table() || conv1d ? 1 : 0]; }   // outputs, or columns of the table
  std::int64_t base_lines() const { return table() ? rows() : columns(); }    // outputs, or rows of the table
  std::int64_t base_numbers() const { return table() ? columns() : rows(); }  // of a line
  std::string weight_name() const { return bare ? name : name + ".weight"; }  // the dense tensor
  std::string core_name(std::size_t k) const;                                 // k < layout.cores()
  std::string diagonal_name(std::size_t k) const;                             // between core k and core k + 1
  std::string base_name() const { return name + ".base"; }
  std::string order_name() const { return name + ".order"; }
  std::string gauge_name() const { return name + ".gauge"; }
  std::string exact_ids_name() const { return name + ".exact.ids"; }
  std::string exact_rows_name() const { return name + ".exact.rows"; }
};

// How text was read in the training of a model: options of `pretrain`, such as document-end, by name.
using Reading = std::map<std::string, std::string>;

// The `comera` block of config.json.
struct ComeraBlock {
  std::vector<ChainSpec> chains;
  std::optional<double> threshold;  // entries of a diagonal at or below it (negative ones too) count as zero
  std::string model;                // a JSON object of the architecture; "" if there is none
  Reading reading = {};             // of the run that the folder was made of
};

Json to_json(const ComeraBlock& block);
// nullopt if `config` has no such block. InputError for unknown keys, inconsistent values, newer versions, and numbers
// of 3 bits in their order of version 1.
std::optional<ComeraBlock> parse_comera_block(const Json& config, const std::string& file_name);
void check_chain(const ChainSpec& chain, const std::string& where);

// One weight of a model in any stored form.
struct TensorForm {
  std::string name;         // the Hugging Face name of the dense tensor ("....query.weight")
  std::string kind;         // linear, embedding, norm, bias, other
  std::string form;         // dense, or form_name()
  FileShape shape;          // dense, in file order
  tt::Layout layout;        // of a chain; else without modes
  FileShape initial_ranks;  // of a chain
  // The weight or its cores are numbers on a grid. With a base, the parameters are those of the dense weight and of a
  // correction.
  bool on_grid = false;
  std::int64_t parameters = 0, parameters_dense = 0, rank_entries = 0;
  std::uint64_t bytes = 0, bytes_dense = 0;  // `bytes` includes diagonals, order, gauge and exact rows
};

// "lowrank", "tt" or "ttm"; "lowrank+silu" with an activation between the factors.
std::string form_name(const tt::Layout& layout, const std::string& between);
// The same; with a base "q4_0", or "q4_0+lowrank" if there is a correction. Cores on a grid add its name:
// "lowrank:q8_0".
std::string form_name(const ChainSpec& chain);

// Every weight of a folder, in the order of names, from headers and config only. InputError for missing cores or cores
// that do not fit together, a chain that is not in the block, or a dense weight beside its chain.
std::vector<TensorForm> describe(const ModelFolder& folder);
std::vector<TensorForm> describe(std::span<const ModelFolder::Entry> entries, const ComeraBlock& block,
                                 const std::string& place);

// Every tensor of a GGUF file, in the order of names. `form` is the number format of a quantised tensor.
std::vector<TensorForm> describe(const GgufFile& file);

// Reads a tensor of `count` distinct I32 numbers in [0, limit). Anything else is an InputError.
std::vector<std::int32_t> distinct_indices(const ModelFolder& folder, const std::string& name, std::int64_t count,
                                           std::int64_t limit);
// The same in ascending order.
std::vector<std::int32_t> rising_indices(const ModelFolder& folder, const std::string& name, std::int64_t count,
                                         std::int64_t limit);
// Reads and checks the tensors of a chain. Diagonals are multiplied into the core on their left (an entry D counts if
// D > `threshold`, as in kernels/tt_cores.h). InputError for a value that is not finite, an order that is no
// permutation, gauge columns that are duplicate or out of range, exact ids that do not ascend, and for a weight with an
// activation between its factors, which is no matrix.
tt::FloatChain read_chain(const ModelFolder& folder, const ChainSpec& chain, std::optional<double> threshold);

// The type of the dense weight: as described, else that of the first core; F32 of a zero matrix.
StoredType dense_type_of(const ModelFolder& folder, const ChainSpec& chain);
// Core k as floats, in the shape of Layout::core_shape(). InputError for a value that is not finite.
std::vector<float> read_core(const ModelFolder& folder, const ChainSpec& chain, std::size_t k);
// The numbers on the grid, as read_matrix() gives them. `chain` has a base.
tt::FloatMatrix read_base(const ModelFolder& folder, const ChainSpec& chain);
// The whole weight: [in x out], or the rows of a table. Errors as of read_chain().
tt::FloatMatrix read_matrix(const ModelFolder& folder, const ChainSpec& chain, std::optional<double> threshold);

// Reads every rank diagonal. A value that is not finite is an InputError.
void check_diagonals(const ModelFolder& folder, const ComeraBlock& block);

// out [columns, rows] = in [rows, columns] transposed. Files store linear weights as [out, in], memory as [in, out].
void transpose(const float* in, std::int64_t rows, std::int64_t columns, float* out);

}  // namespace comera::io
