// Compares the outputs of an exported graph with those of the model.
#pragma once

#include <functional>

#include "lib/export/evaluator.h"
#include "lib/export/graph.h"

namespace comera::exporting {

// One batch of random tokens: ids [batch, sequence] where the first lengths[b] of each row count.
struct RandomTokens {
  std::int64_t sequences = 0, length = 0;
  std::vector<std::int32_t> ids, types, lengths;
};
RandomTokens random_tokens(std::int64_t sequences, std::int64_t length, std::int64_t vocabulary, std::int64_t types,
                           std::uint64_t seed);
// input_ids, attention_mask and token_type_ids for a graph that has inputs of these names.
Arrays graph_inputs(const onnx::ModelProto& model, const RandomTokens& tokens);

// The outputs of the model, and the way to find (or to compute) the same numbers in the graph's outputs.
struct Answer {
  std::vector<double> model, graph, graph_single;
};

// The bound: a float forward may lie four times as far from the double reference as another float forward of the same
// weights does; here the other one is the graph in float. Small samples may by chance show no error, so the reference's
// error counts as at least one rounding per product on the way, summed as independent ones: 2^-24 sqrt(products)
// magnitude. Weights in half precision are rounded 2^13 times as coarsely (2^-11 against 2^-24), and the bound grows by
// that.
void add_batch(Difference& difference, const Answer& answer);
void finish(Difference& difference, const onnx::ModelProto& model, WeightType type);
// The same where `products` matrices are multiplied on the way; `coarser`: how many times as coarsely as float weights
// are rounded.
void finish(Difference& difference, std::int64_t products, double coarser);

}  // namespace comera::exporting
