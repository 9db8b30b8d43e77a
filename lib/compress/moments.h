// What calibration text says about the inputs of linear layers and the rows of tables; the pipeline's side of it, where
// it does not matter how the text is run through the model.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lib/tt/matrix.h"

namespace comera::compress {

// What a sequence of calibration text is for: weights are fitted to it; form, shrinkage and damping are chosen by it;
// or it only tells how good all that was.
enum class TextPart : std::uint8_t { fitted, choosing, judging };

constexpr std::int64_t tokens_per_input = 10;  // that a layer's moments want
// Fitted tokens where nothing else is said: for every input of the widest layer, and no fewer than for one of 1,536
// inputs.
constexpr std::int64_t enough_tokens(std::int64_t widest) { return tokens_per_input * (widest > 1536 ? widest : 1536); }

// Facts about the measurement, for report and certificate.
struct MomentsInfo {
  std::vector<std::string> files;
  std::string hash;                          // of the files' contents
  std::int64_t tokens = 0, held_tokens = 0;  // fitted, choosing
  bool sequential = false;         // the inputs of a layer were those that the compressed layers before it give
  std::int64_t judged_tokens = 0;  // judging; 0 in certificates of versions whose choices saw what judged them

  std::int64_t& part(TextPart part) {
    return part == TextPart::fitted ? tokens : part == TextPart::choosing ? held_tokens : judged_tokens;
  }
  std::int64_t all_tokens() const { return tokens + held_tokens + judged_tokens; }
};

// Layers that read the same input x. Where weights were replaced, one that adds to a residual stream r is wanted to
// give y = x₀ W + r₀ - r, with x₀ and r₀ of the model as it came.
struct MomentGroup {
  struct Sums {
    tt::Matrix moment;    // sum of xᵀ x over tokens, [in x in]
    tt::Matrix products;  // of xᵀ y, [in x out]
  };

  std::vector<std::string> layers;  // without ".weight"
  Sums fit, held, judged;           // of the tokens that are fitted, that choose and that judge

  Sums& part(TextPart part) { return part == TextPart::fitted ? fit : part == TextPart::choosing ? held : judged; }

  bool moved() const { return !fit.products.values.empty() && !held.products.values.empty(); }
};

// The part of a model that is measured: weights are replaced block by block, and the inputs of the first block depend
// on tables alone.
enum class Part : std::uint8_t { all, first, later };

struct Visit {
  bool follows = false;  // weights are replaced on the way, so the model runs again for every block
  Part part = Part::all;
  std::function<bool(const std::string& layer)> wants =
      {};                   // groups that hold none of these are passed over; empty: none is
  std::int64_t tokens = 0;  // fitted ones, evenly from all of them; 0: all
};

class InputMoments {
 public:
  virtual ~InputMoments() = default;
  virtual MomentsInfo info() const = 0;
  // Counts of look-ups of each row of this table by text that does not judge, plus one; empty if the model has no such
  // table.
  virtual std::vector<double> row_weights(const std::string& table) = 0;
  // The same of the text that judges, without the one.
  virtual std::vector<double> judged_row_weights(const std::string& table) = 0;
  // Every group that is wanted once, in the order in which the model runs.
  virtual void visit(const Visit& visit, const std::function<void(const MomentGroup& group)>& each) = 0;
  // From here on the model computes with this weight, [in x out] or [rows x columns]: groups that come later see its
  // effect.
  virtual void replace(const std::string& layer, const tt::Matrix& weight) = 0;
  // How far the model's output moves when this weight alone is replaced: ||y' - y||² / ||y||² over some held-out text.
  // Nothing where the model has no such weight or no output to look at. The weight is as before afterwards.
  virtual std::optional<double> effect(const std::string& layer, const tt::Matrix& weight) = 0;
  // Puts the model's own weights back.
  virtual void restore() = 0;
};

}  // namespace comera::compress
