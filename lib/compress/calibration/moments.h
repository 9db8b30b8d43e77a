// Statistics of calibration text for linear layers and tables, as the compression pipeline uses them. The
// implementation runs the text through the model.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/tt/chain.h"
#include "lib/tt/kept_matrix.h"

namespace comera::compress {

// The purpose of a sequence of calibration text. fitted: weights are fitted to it. choosing: it selects form, shrinkage
// and damping. judging: it only measures the result.
enum class TextPart : std::uint8_t { fitted, choosing, judging };

constexpr std::int64_t tokens_per_input = 10;  // fitted tokens per input dimension that a layer's moments need
// The default number of fitted tokens: tokens_per_input for each input of the widest layer, counting at least 1,536
// inputs.
constexpr std::int64_t enough_tokens(std::int64_t widest) { return tokens_per_input * (widest > 1536 ? widest : 1536); }

// Facts about the measurement, for report and certificate.
struct MomentsInfo {
  std::vector<std::string> files;
  std::string hash;                          // of the contents of the files
  std::int64_t tokens = 0, held_tokens = 0;  // fitted, choosing
  bool sequential = false;                   // the inputs of a layer came from the compressed layers before it
  // Judging tokens; 0 in certificates of older versions, where the judging text also took part in choices.
  std::int64_t judged_tokens = 0;
  // In sums of fitted and choosing tokens. Judging tokens are never clipped, but an output error is relative to a
  // target that comes from the other sums. True for certificates without the field: their version clipped by default.
  bool clips_tokens = true;
  std::string sequences = {};  // hash of the tokens; certificates do not have it

  std::int64_t& part(TextPart part) {
    return part == TextPart::fitted ? tokens : part == TextPart::choosing ? held_tokens : judged_tokens;
  }
  std::int64_t all_tokens() const { return tokens + held_tokens + judged_tokens; }
};

// Layers that read the same input x. If weights were replaced, the target output of a layer that adds to a residual
// stream r is y = x₀ W + r₀ - r, with x₀ and r₀ of the dense model. If tokens are clipped, x and y of a token with a
// long stream have a factor below 1, except in `judged`.
struct MomentGroup {
  struct Sums {
    tt::KeptMatrix moment;    // sum of xᵀ x over tokens, [in x in]
    tt::KeptMatrix products;  // sum of xᵀ y, [in x out]
  };

  std::vector<std::string> layers;  // without ".weight"
  Sums fit, held, judged;           // sums over fitted, choosing and judging tokens
  std::size_t size = 0;             // number of the compressed model that was measured

  Sums& part(TextPart part) { return part == TextPart::fitted ? fit : part == TextPart::choosing ? held : judged; }

  bool moved() const { return !fit.products.empty() && !held.products.empty(); }
};

// The part of a model that is measured. Weights are replaced block by block, and the inputs of the first block depend
// only on tables.
enum class Part : std::uint8_t { all, first, later };

struct Visit {
  bool follows = false;  // weights are replaced during the visit, so the model runs again for every block
  Part part = Part::all;
  // Groups without any such layer are skipped at this size; empty: no group is skipped.
  std::function<bool(const std::string& layer, std::size_t size)> wants = {};
  std::int64_t tokens = 0;  // fitted tokens, evenly from all of them; 0: all
  // Number of compressed models with replaced weights of their own. The dense model runs once for all of them.
  std::size_t sizes = 1;
  // Called after the last group of a block at a size.
  std::function<void(std::size_t block, std::size_t size)> after_block = {};
};

class BlockFlows;  // lib/compress/calibration/block_flows.h

class InputMoments {
 public:
  virtual ~InputMoments() = default;
  virtual MomentsInfo info() const = 0;
  // Look-ups of each row of this table by fitted and choosing text, plus one. Empty if the model has no such table.
  virtual std::vector<double> row_weights(const std::string& table) = 0;
  // Look-ups of each row by judging text, without the added one.
  virtual std::vector<double> judged_row_weights(const std::string& table) = 0;
  // Calls `each` for every wanted group, once per size: block by block in the order in which the model runs, in every
  // block size by size. Groups of one size that are measured together come together. Weights that are replaced in
  // `each` have no effect on these.
  virtual void visit_together(const Visit& visit,
                              const std::function<void(std::span<const MomentGroup> groups)>& each) = 0;
  // The same, group by group.
  void visit(const Visit& visit, const std::function<void(const MomentGroup& group)>& each) {
    visit_together(visit,
                   [&](std::span<const MomentGroup> groups) { std::for_each(groups.begin(), groups.end(), each); });
  }
  // From this call on, the model of this size computes with this weight, [in x out] or [rows x columns]. Later groups
  // of this size include its effect.
  virtual void replace(const std::string& layer, const tt::Matrix& weight, std::size_t size = 0) = 0;
  // The same for a linear layer with a weight left right. The model multiplies by both factors if that is faster.
  virtual void replace(const std::string& layer, const tt::Pair& factors, std::size_t size = 0) = 0;
  // The same for a vector, a bias or the gain or shift of a norm, by the name of its tensor.
  virtual void replace_vector(const std::string& tensor, std::span<const float> numbers, std::size_t size = 0) = 0;
  // The inputs and outputs of whole blocks; null: they are not known.
  virtual BlockFlows* flows() { return nullptr; }
  // The change of the model's output on some held-out text when only this weight is replaced: the divergence of the
  // next-word distributions of a decoder, ||y' - y||² / ||y||² of other outputs. Nothing if the model has no such
  // weight or no suitable output. Restores the weight afterwards.
  virtual std::optional<double> effect(const std::string& layer, const tt::Matrix& weight) = 0;
  // Restores the model's own weights at all sizes.
  virtual void restore() = 0;
};

}  // namespace comera::compress
