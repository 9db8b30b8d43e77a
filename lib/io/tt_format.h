// Tensor trains in Hugging Face folders, as FORMAT.md says: cores and rank diagonals by name, and a `comera` block in
// config.json.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/io/model_folder.h"

namespace comera::io {

inline constexpr int format_version = 1;
inline constexpr const char* metadata_version_key = "comera_format";
Metadata weights_metadata();  // what model.safetensors of ours carries: {"format": "pt", "comera_format": "1"}

enum class ChainKind : std::uint8_t { tt, ttm };

// A dense weight that is stored as a chain of cores.
struct ChainSpec {
  std::string
      name;  // of the dense weight, without ".weight"; `bare`: its name is all of this, as that of "in_proj_weight"
  ChainKind kind = ChainKind::tt;
  FileShape shape;  // of the dense weight in file order: linear [out, in], table [rows, columns]
  FileShape modes;  // tt: in modes then out modes; ttm: row modes then as many column modes
  FileShape ranks;  // cores + 1, first and last 1; an inner 0 (then all are): the chain is zero and has no tensors
  FileShape initial_ranks;   // as the model started; what "ranks" was before anything was removed
  bool folded = false;       // rank diagonals are multiplied into the cores: there are no `.rank.` tensors
  std::size_t in_count = 0;  // tt: how many of the modes are in modes; 0: half of them
  bool sorted = false;       // tt: the inputs were permuted before they were split into modes: `.order`
  bool gauge = false;        // tt with one out mode: the last core holds an identity block that is not stored: `.gauge`
  bool conv1d = false;       // tt: the dense weight is [in, out] in its file (GPT-2's Conv1D)
  bool bare = false;
  std::int64_t exact = 0;  // ttm: rows that stand beside the chain as they are: `.exact.ids`, `.exact.rows`

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
  std::optional<double> threshold;  // entries of a diagonal at or below it, negative ones too, count as zero
  std::string model;                // an object that belongs to the architecture, as JSON; "" where there is none
};

Json to_json(const ComeraBlock& block);
// nullopt where `config` has no such block. Unknown keys, values that contradict each other and newer versions are
// InputErrors.
std::optional<ComeraBlock> parse_comera_block(const Json& config, const std::string& file_name);
void check_chain(const ChainSpec& chain, const std::string& where);

// One weight of a model, whatever it is stored as.
struct TensorForm {
  std::string name;                       // the Hugging Face name of the dense tensor ("....query.weight")
  std::string kind;                       // linear, embedding, norm, bias, other
  std::string form;                       // dense, lowrank, tt, ttm
  FileShape shape;                        // dense, in file order
  FileShape modes, ranks, initial_ranks;  // empty where dense
  std::size_t in_count = 0;               // tt: how many of the modes are in modes
  bool sorted = false, gauge = false;     // see ChainSpec
  std::int64_t exact = 0;                 // see ChainSpec
  std::int64_t parameters = 0, parameters_dense = 0, rank_entries = 0;
  std::uint64_t bytes = 0, bytes_dense = 0;  // diagonals, order, gauge and exact rows included in `bytes`
};

// Every weight of a folder from headers and config alone, in the order of their names. InputError: cores that do not
// chain or are missing, a chain the block does not know, a dense weight beside its chain.
std::vector<TensorForm> describe(const ModelFolder& folder);
std::vector<TensorForm> describe(std::span<const ModelFolder::Entry> entries, const ComeraBlock& block,
                                 const std::string& place);

// The tensors of a chain, read and checked. Diagonals are multiplied into the core on their left (an entry D counts
// where D > `threshold`, as in kernels/tt_cores.h).
struct ChainTensors {
  std::vector<std::vector<float>> cores;  // as core_shape() says: a gauge's identity block is not in the last one
  std::vector<std::int32_t> order;        // [in] where sorted: row order[p] of W is row p of the chain
  std::vector<std::int32_t> gauge;        // [R] where gauge: column gauge[r] of the last core is the unit vector e_r
  std::vector<std::int32_t>
      exact_ids;  // [E], rising: row exact_ids[e] of the table is row e of exact_rows, whatever the cores give
  std::vector<float> exact_rows;  // [E, columns]
};
// The tensor of that name: `count` different numbers in [0, limit), I32; anything else is an InputError.
std::vector<std::int32_t> distinct_indices(const ModelFolder& folder, const std::string& name, std::int64_t count,
                                           std::int64_t limit);
// The same in rising order.
std::vector<std::int32_t> rising_indices(const ModelFolder& folder, const std::string& name, std::int64_t count,
                                         std::int64_t limit);
// InputError: a value that is not finite, an order that is no permutation, gauge columns that repeat or do not exist,
// exact ids that do not rise.
ChainTensors read_chain(const ModelFolder& folder, const ChainSpec& chain, std::optional<double> threshold);

// The last core [R, out] in full: the identity's columns put back between the stored ones. `stored` is [R, out - R].
std::vector<float> restore_gauge(std::span<const float> stored, std::span<const std::int32_t> gauge, std::int64_t out);

// Reads every rank diagonal; one that is not finite is an InputError.
void check_diagonals(const ModelFolder& folder, const ComeraBlock& block);

// out [columns, rows] = in [rows, columns] transposed: files hold linear weights [out, in], memory holds [in, out].
void transpose(const float* in, std::int64_t rows, std::int64_t columns, float* out);

}  // namespace comera::io
