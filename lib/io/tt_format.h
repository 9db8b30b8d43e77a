// Tensor trains in Hugging Face folders, as FORMAT.md specifies: named cores and rank diagonals, and a `comera` block
// in config.json.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/io/model_folder.h"

namespace comera::io {

inline constexpr int format_version = 1;
inline constexpr const char* metadata_version_key = "comera_format";
Metadata weights_metadata();  // metadata of our model.safetensors: {"format": "pt", "comera_format": "1"}

enum class ChainKind : std::uint8_t { tt, ttm };

// The description of a dense weight that is stored as a chain of cores.
struct ChainSpec {
  std::string name;  // of the dense weight, without ".weight"; `bare`: the full name, such as "in_proj_weight"
  ChainKind kind = ChainKind::tt;
  FileShape shape;  // of the dense weight in file order: linear [out, in], table [rows, columns]
  FileShape modes;  // tt: in modes then out modes; ttm: row modes then as many column modes
  // Cores + 1, first and last 1; if inner ranks are 0 (all or none), the chain is zero and has no tensors.
  FileShape ranks;
  FileShape initial_ranks;   // ranks at the start of the training, before any removal
  bool folded = false;       // rank diagonals are multiplied into the cores: no `.rank.` tensors
  std::size_t in_count = 0;  // tt: number of in modes; 0: half of the modes
  bool sorted = false;       // tt: the inputs are permuted before they are split into modes (`.order`)
  bool gauge = false;        // tt with one out mode: the last core has an identity block that is not stored (`.gauge`)
  bool conv1d = false;       // tt: the dense weight is [in, out] in its file (GPT-2's Conv1D)
  bool bare = false;
  std::int64_t exact = 0;  // ttm: number of exact rows, stored beside the chain (`.exact.ids`, `.exact.rows`)

  std::size_t cores() const { return kind == ChainKind::tt ? modes.size() : modes.size() / 2; }
  std::size_t middle() const {
    return in_count != 0 ? in_count : modes.size() / 2;
  }                                                                           // the bond between in and out modes
  std::int64_t in() const { return shape[conv1d ? 0 : 1]; }                   // tt
  std::int64_t out() const { return shape[conv1d ? 1 : 0]; }                  // tt
  bool empty() const;                                                         // a rank is 0
  FileShape core_shape(std::size_t k) const;                                  // as stored
  std::string weight_name() const { return bare ? name : name + ".weight"; }  // the dense tensor
  std::string core_name(std::size_t k) const;                                 // k < cores()
  std::string diagonal_name(std::size_t k) const;                             // between core k and core k + 1
  std::string order_name() const { return name + ".order"; }
  std::string gauge_name() const { return name + ".gauge"; }
  std::string exact_ids_name() const { return name + ".exact.ids"; }
  std::string exact_rows_name() const { return name + ".exact.rows"; }
};

// The `comera` block of config.json.
struct ComeraBlock {
  std::vector<ChainSpec> chains;
  std::optional<double> threshold;  // entries of a diagonal at or below it (negative ones too) count as zero
  std::string model;                // a JSON object of the architecture; "" if there is none
};

Json to_json(const ComeraBlock& block);
// nullopt if `config` has no such block. InputError for unknown keys, inconsistent values and newer versions.
std::optional<ComeraBlock> parse_comera_block(const Json& config, const std::string& file_name);
void check_chain(const ChainSpec& chain, const std::string& where);

// One weight of a model in any stored form.
struct TensorForm {
  std::string name;                       // the Hugging Face name of the dense tensor ("....query.weight")
  std::string kind;                       // linear, embedding, norm, bias, other
  std::string form;                       // dense, lowrank, tt, ttm
  FileShape shape;                        // dense, in file order
  FileShape modes, ranks, initial_ranks;  // empty for dense
  std::size_t in_count = 0;               // tt: number of in modes
  bool sorted = false, gauge = false;     // see ChainSpec
  std::int64_t exact = 0;                 // see ChainSpec
  std::int64_t parameters = 0, parameters_dense = 0, rank_entries = 0;
  std::uint64_t bytes = 0, bytes_dense = 0;  // `bytes` includes diagonals, order, gauge and exact rows
};

// Every weight of a folder, in the order of names, from headers and config only. InputError for missing cores or cores
// that do not fit together, a chain that is not in the block, or a dense weight beside its chain.
std::vector<TensorForm> describe(const ModelFolder& folder);
std::vector<TensorForm> describe(std::span<const ModelFolder::Entry> entries, const ComeraBlock& block,
                                 const std::string& place);

// The tensors of a chain, read and checked. Diagonals are multiplied into the core on their left (an entry D counts if
// D > `threshold`, as in kernels/tt_cores.h).
struct ChainTensors {
  std::vector<std::vector<float>> cores;  // shapes as core_shape(): with a gauge, the last one lacks the identity block
  std::vector<std::int32_t> order;        // [in] if sorted: row order[p] of W is row p of the chain
  std::vector<std::int32_t> gauge;        // [R] if gauge: column gauge[r] of the last core is the unit vector e_r
  std::vector<std::int32_t>
      exact_ids;  // [E], ascending: row exact_ids[e] of the table is row e of exact_rows; the cores are ignored there
  std::vector<float> exact_rows;  // [E, columns]
};
// Reads a tensor of `count` distinct I32 numbers in [0, limit). Anything else is an InputError.
std::vector<std::int32_t> distinct_indices(const ModelFolder& folder, const std::string& name, std::int64_t count,
                                           std::int64_t limit);
// The same in ascending order.
std::vector<std::int32_t> rising_indices(const ModelFolder& folder, const std::string& name, std::int64_t count,
                                         std::int64_t limit);
// InputError for a value that is not finite, an order that is no permutation, gauge columns that are duplicate or out
// of range, exact ids that do not ascend.
ChainTensors read_chain(const ModelFolder& folder, const ChainSpec& chain, std::optional<double> threshold);

// The full last core [R, out]: the identity's columns are inserted between the stored ones. `stored` is [R, out - R].
std::vector<float> restore_gauge(std::span<const float> stored, std::span<const std::int32_t> gauge, std::int64_t out);

// Reads every rank diagonal. A value that is not finite is an InputError.
void check_diagonals(const ModelFolder& folder, const ComeraBlock& block);

// out [columns, rows] = in [rows, columns] transposed. Files store linear weights as [out, in], memory as [in, out].
void transpose(const float* in, std::int64_t rows, std::int64_t columns, float* out);

}  // namespace comera::io
