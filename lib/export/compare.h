// Compares the outputs of an exported graph with those of the model.
#pragma once

#include <functional>

#include "lib/export/evaluator/evaluator.h"
#include "lib/export/graph.h"

namespace comera::exporting {

// One batch of random tokens: ids [batch, sequence]. The first lengths[b] tokens of row b are not padding.
struct RandomTokens {
  std::int64_t sequences = 0, length = 0;
  std::vector<std::int32_t> ids, types, lengths;
};
RandomTokens random_tokens(std::int64_t sequences, std::int64_t length, std::int64_t vocabulary, std::int64_t types,
                           std::uint64_t seed);
// input_ids, attention_mask and token_type_ids, for the inputs that the graph has.
Arrays graph_inputs(const onnx::ModelProto& model, const RandomTokens& tokens);

// The outputs of the model, and the same values from the graph: in double, and from several runs in float.
struct Answer {
  std::vector<double> model, graph;
  std::vector<std::vector<double>> graph_singles;
};

// The bound: a float forward may differ from the double reference by at most four times as much as the worst of the
// other float forwards of the same weights, which are runs of the graph. Where one rounding dominates, as in small
// classifiers, the error of one run is small by chance in one of seven; a difference above the bound is therefore
// measured again with more runs, under random rounding (lib/export/evaluator/evaluator.h). A small sample may show no
// error at all. So the error of the reference counts as at least one rounding per product of the forward, summed as
// independent errors: 2^-24 sqrt(products) magnitude. Weights in half precision are rounded 2^13 times as coarsely
// (2^-11 against 2^-24), and the bound grows by this factor.
void add_batch(Difference& difference, const Answer& answer);
void finish(Difference& difference, const onnx::ModelProto& model, WeightType type);
// The same for a forward with `products` matrix products. `coarser`: ratio of the rounding of the weights to that of
// float weights.
void finish(Difference& difference, std::int64_t products, double coarser);

}  // namespace comera::exporting
