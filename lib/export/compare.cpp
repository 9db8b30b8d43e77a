#include "lib/export/compare.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace comera::exporting {

RandomTokens random_tokens(std::int64_t sequences, std::int64_t length, std::int64_t vocabulary, std::int64_t types,
                           std::uint64_t seed) {
  RandomTokens tokens{sequences, length, {}, {}, {}};
  std::mt19937_64 random(seed);
  const auto below = [&](std::int64_t limit) {
    return static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(limit));
  };
  for (std::int64_t b = 0; b < sequences; ++b)
    tokens.lengths.push_back(b == 0 ? static_cast<std::int32_t>(length) : 1 + below(length));
  for (std::int64_t k = 0; k < sequences * length; ++k) {
    tokens.ids.push_back(below(vocabulary));
    tokens.types.push_back(below(std::max<std::int64_t>(types, 1)));
  }
  return tokens;
}

Arrays graph_inputs(const onnx::ModelProto& model, const RandomTokens& tokens) {
  Arrays inputs;
  const std::vector<std::int64_t> dims{tokens.sequences, tokens.length};
  for (const onnx::ValueInfoProto& input : model.graph().input()) {
    Array array{dims, false, {}, {}};
    if (input.name() == "attention_mask")
      for (std::int64_t k = 0; k < tokens.sequences * tokens.length; ++k)
        array.integers.push_back(k % tokens.length < tokens.lengths[static_cast<std::size_t>(k / tokens.length)]);
    else if (input.name() == "position_ids")
      for (std::int64_t k = 0; k < tokens.sequences * tokens.length; ++k) array.integers.push_back(k % tokens.length);
    else
      array.integers.assign((input.name() == "input_ids" ? tokens.ids : tokens.types).begin(),
                            (input.name() == "input_ids" ? tokens.ids : tokens.types).end());
    inputs[input.name()] = std::move(array);
  }
  return inputs;
}

void add_batch(Difference& difference, const Answer& answer) {
  // A NaN must not count as a small difference.
  const auto larger = [](double most, double value) { return std::isnan(value) || value > most ? value : most; };
  for (std::size_t i = 0; i < answer.model.size(); ++i) {
    difference.largest = larger(difference.largest, std::fabs(answer.model[i] - answer.graph[i]));
    for (const std::vector<double>& single : answer.graph_singles)
      difference.single_error = larger(difference.single_error, std::fabs(single[i] - answer.graph[i]));
    difference.magnitude = larger(difference.magnitude, std::fabs(answer.graph[i]));
  }
  difference.values += static_cast<std::int64_t>(answer.model.size());
}

void finish(Difference& difference, const onnx::ModelProto& model, WeightType type) {
  const auto& nodes = model.graph().node();
  const auto products = std::count_if(nodes.begin(), nodes.end(),
                                      [](const onnx::NodeProto& node) { return node.op_type().starts_with("MatMul"); });
  finish(difference, products, type == WeightType::f16 ? 0x1p13 : 1.0);
}

void finish(Difference& difference, std::int64_t products, double coarser) {
  const double least = 0x1p-24 * std::sqrt(static_cast<double>(products)) * difference.magnitude;
  difference.bound = 4 * std::max(difference.single_error, least) * coarser;
}

}  // namespace comera::exporting
