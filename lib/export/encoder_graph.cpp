#include "lib/export/encoder_graph.h"

#include <array>
#include <cmath>
#include <limits>

#include "kernels/pooling.h"
#include "lib/layers/relative_bias.h"

namespace comera::exporting {
namespace {

using models::EncoderNames;
using models::EncoderSpec;

// The nodes of the blocks and heads that read text, and those of the blocks alone for images.
class EncoderGraph {
 public:
  EncoderGraph(GraphBuild& build, const EncoderSpec& spec)
      : build_(build), graph_(build.graph), spec_(spec), names_(spec) {}

  void run() {
    const std::vector<Dim> tokens{"batch_size", "sequence_length"};
    ids_ = graph_.input("input_ids", onnx::TensorProto::INT64, tokens);
    mask_ = graph_.input("attention_mask", onnx::TensorProto::INT64, tokens);
    if (spec_.types > 1) types_ = graph_.input("token_type_ids", onnx::TensorProto::INT64, tokens);
    additive_ = additive_mask();
    if (spec_.family == models::EncoderFamily::mpnet) additive_ = graph_.node("Add", {additive_, relative_bias()});
    if (is_modern(spec_)) make_near();
    head(blocks(embeddings()));
  }

  // Every token sees every other one.
  Name blocks(Name x) {
    for (std::int64_t i = 0; i < spec_.layers; ++i) x = spec_.pre_norm ? pre_norm_block(i, x) : post_norm_block(i, x);
    return spec_.pre_norm ? norm(names_.final_norm, x) : x;
  }

  void classify_first(const Name& x) {
    const std::int64_t outputs = spec_.outputs();
    graph_.output(linear(build_, names_.classifier, pool(kernels::Pooling::first, x), spec_.hidden, outputs), "logits",
                  {"batch_size", outputs});
  }

 private:
  // 0 for a token, the lowest float for padding: [batch, 1, 1, sequence].
  Name additive_mask() {
    const Graph::Scope scope(graph_, "mask");
    const Name mask = graph_.node("Cast", {graph_.node("Unsqueeze", {mask_, graph_.integers({1, 2})})},
                                  {{"to", std::int64_t{onnx::TensorProto::FLOAT}}});
    const Name hidden = graph_.node("Sub", {graph_.scalar(1.0F), mask});
    return graph_.node("Mul", {hidden, graph_.scalar(std::numeric_limits<float>::lowest())});
  }

  // 0 .. sequence - 1.
  Name token_numbers() {
    const Name length =
        graph_.node("Gather", {graph_.node("Shape", {ids_}), graph_.integer(1)}, {{"axis", std::int64_t{0}}});
    return graph_.node("Range", {graph_.integer(0), length, graph_.integer(1)});
  }

  // [heads, sequence, sequence], by query and key.
  Name relative_bias() {
    const Graph::Scope scope(graph_, names_.relative_bias);
    std::vector<std::int32_t> rows;
    for (std::int64_t distance = 1 - spec_.positions; distance < spec_.positions; ++distance)
      rows.push_back(layers::RelativeBias::row_of(distance));
    const std::int64_t count = layers::RelativeBias::rows;
    const Name table = graph_.weight(names_.relative_bias + ".weight", {count, spec_.heads},
                                     build_.weights.table(names_.relative_bias, count, spec_.heads).values);
    const Name token = token_numbers();
    const Name query = graph_.node("Sub", {token, graph_.integer(spec_.positions - 1)});
    const Name distance = graph_.node("Sub", {graph_.node("Unsqueeze", {token, graph_.integers({0})}),
                                              graph_.node("Unsqueeze", {query, graph_.integers({1})})});
    const Name row = graph_.node("Gather", {graph_.indices("relative_bias.rows", rows), distance});
    return graph_.transpose(graph_.node("Gather", {table, row}), {2, 0, 1});
  }

  Name embeddings() {
    Name sum = lookup(build_, names_.word, ids_, spec_.vocabulary, spec_.hidden);
    if (spec_.types > 1)
      sum = graph_.node("Add", {sum, lookup(build_, names_.type, types_, spec_.types, spec_.hidden)});
    else if (spec_.types == 1)
      sum = graph_.node("Add", {sum, only_type()});
    if (has_positions(spec_)) sum = graph_.node("Add", {sum, positions()});
    return norm(names_.embedding_norm, sum);
  }

  // The row of the only type, [1, hidden].
  Name only_type() {
    const Graph::Scope scope(graph_, names_.type);
    const Matrix table = build_.weights.table(names_.type, 1, spec_.hidden);
    return graph_.weight(names_.type + ".weight", {1, spec_.hidden}, table.values);
  }

  // Rows of the position table. BERT numbers the places of a row: [sequence, hidden]. RoBERTa numbers the tokens of a
  // row, wherever its padding is: [batch, sequence, hidden].
  Name positions() {
    const Graph::Scope scope(graph_, names_.position);
    const std::int64_t offset = first_position(spec_);
    const Matrix table = build_.weights.table(names_.position, spec_.positions + offset, spec_.hidden);
    const Name weight = graph_.weight(names_.position + ".weight", {table.rows, table.columns}, table.values);
    if (offset > 0) {
      const Name numbers = graph_.node("Mul", {graph_.node("CumSum", {mask_, graph_.integer(1)}), mask_});
      // The reshape leaves a length that shape inference does not know, as the slice below does. With a known one, ONNX
      // Runtime 1.32 fuses sums and norms to an operator that makes the forward a tenth slower on a CPU.
      const Name rows = graph_.reshape(graph_.node("Add", {numbers, graph_.integer(offset - 1)}), {0, -1});
      return graph_.node("Gather", {weight, rows});
    }
    const Name length =
        graph_.node("Gather", {graph_.node("Shape", {ids_}), graph_.integers({1})}, {{"axis", std::int64_t{0}}});
    return graph_.node("Slice", {weight, graph_.integers({0}), length, graph_.integers({0})});
  }

  Name norm(const std::string& name, const Name& x) { return layer_norm(build_, name, x, spec_.hidden, spec_.epsilon); }

  Name post_norm_block(std::int64_t index, const Name& x) {
    const Name middle = norm(names_.layer(index, names_.middle_norm), graph_.node("Add", {attention(index, x), x}));
    return norm(names_.layer(index, names_.output_norm), graph_.node("Add", {feed_forward(index, middle), middle}));
  }

  Name pre_norm_block(std::int64_t index, const Name& x) {
    const Name normed = norms_input(spec_, index) ? norm(names_.layer(index, names_.output_norm), x) : x;
    const Name middle = graph_.node("Add", {attention(index, normed), x});
    return graph_.node("Add", {feed_forward(index, norm(names_.layer(index, names_.middle_norm), middle)), middle});
  }

  // ModernBERT: the angles of both kinds of layers, and the mask of layers with a window.
  void make_near() {
    const Graph::Scope scope(graph_, "rotary");
    const Name token = token_numbers();
    bool used[2] = {};
    for (std::int64_t i = 0; i < spec_.layers; ++i) used[has_window(spec_, i)] = true;
    for (const bool near : {false, true}) {
      if (!used[near]) continue;
      kernels::RotaryAngles angles;
      angles.theta = near ? spec_.modern.near_theta : spec_.modern.theta;
      rotary_[near] = rotary_nodes(graph_, near ? "rotary.near_frequencies" : "rotary.frequencies",
                                   graph_.node("Unsqueeze", {token, graph_.integers({0, 2, 3})}), angles,
                                   spec_.hidden / spec_.heads);
    }
    if (!used[true]) return;
    const Name row = graph_.node("Unsqueeze", {token, graph_.integers({0})}),
               column = graph_.node("Unsqueeze", {token, graph_.integers({1})});
    const auto near = [&](const Name& first, const Name& second) {
      return graph_.node("LessOrEqual", {graph_.node("Sub", {first, second}), graph_.integer(spec_.modern.reach)});
    };
    const Name seen = graph_.node("And", {near(row, column), near(column, row)});
    near_ = graph_.node("Where", {seen, additive_, graph_.scalar(std::numeric_limits<float>::lowest())});
  }

  // q, k or v as [batch, sequence, heads, size].
  Name split(const Name& x) { return graph_.reshape(x, {0, 0, spec_.heads, spec_.hidden / spec_.heads}); }

  // q, k and v of a block.
  std::array<Name, 3> projections(std::int64_t index, const Name& x) {
    const std::int64_t width = spec_.hidden;
    const auto project = [&](const char* part) { return linear(build_, names_.layer(index, part), x, width, width); };
    if (!names_.qkv) return {split(project(names_.query)), split(project(names_.key)), split(project(names_.value))};
    const Name qkv = linear(build_, names_.layer(index, names_.qkv), x, width, 3 * width);
    const Graph::Scope scope(graph_, names_.layer(index, names_.attention));
    const RotaryNodes& by = rotary_[has_window(spec_, index)];
    std::array<Name, 3> parts;
    for (std::int64_t i = 0; i < 3; ++i)
      parts[static_cast<std::size_t>(i)] = split(columns_of(graph_, qkv, 3, i * width, (i + 1) * width));
    for (const std::size_t i : {0, 1}) parts[i] = rotate(graph_, by, parts[i], width / spec_.heads);
    return parts;
  }

  Name attention(std::int64_t index, const Name& x) {
    const auto [query, key, value] = projections(index, x);
    Name mixed;
    {
      const Graph::Scope scope(graph_, names_.layer(index, names_.attention));
      const std::int64_t size = spec_.hidden / spec_.heads;
      const Name scores =
          graph_.node("MatMul", {graph_.transpose(query, {0, 2, 1, 3}), graph_.transpose(key, {0, 2, 3, 1})});
      const Name scaled = graph_.node("Div", {scores, graph_.scalar(std::sqrt(static_cast<float>(size)))});
      const Name& mask = has_window(spec_, index) ? near_ : additive_;
      const Name masked = mask.empty() ? scaled : graph_.node("Add", {scaled, mask});
      const Name shares = graph_.node("Softmax", {masked}, {{"axis", std::int64_t{-1}}});
      const Name sums = graph_.node("MatMul", {shares, graph_.transpose(value, {0, 2, 1, 3})});
      mixed = graph_.reshape(graph_.transpose(sums, {0, 2, 1, 3}), {0, 0, spec_.hidden});
    }
    return linear(build_, names_.layer(index, names_.attention_output), mixed, spec_.hidden, spec_.hidden);
  }

  Name feed_forward(std::int64_t index, const Name& x) {
    const std::int64_t width = spec_.intermediate;
    const bool gated = is_modern(spec_);
    const Name up = linear(build_, names_.layer(index, names_.up), x, spec_.hidden, gated ? 2 * width : width);
    Name wide;
    {
      const Graph::Scope scope(graph_, names_.layer(index, "activation"));
      wide = gelu(graph_, gated ? columns_of(graph_, up, 3, 0, width) : up);
      if (gated) wide = graph_.node("Mul", {wide, columns_of(graph_, up, 3, width, 2 * width)});
    }
    return linear(build_, names_.layer(index, names_.down), wide, spec_.intermediate, spec_.hidden);
  }

  Name activate_head(const Name& x) {
    switch (head_activation(spec_)) {
      case kernels::Activation::relu: return graph_.node("Max", {x, graph_.scalar(0.0F)});
      case kernels::Activation::gelu: return gelu(graph_, x);
      default: return tanh(graph_, x);
    }
  }

  Name wide_head(const Name& x) {
    const Name y = activate_head(linear(build_, names_.head_dense, x, spec_.hidden, spec_.hidden));
    return names_.head_norm.empty() ? y : norm(names_.head_norm, y);
  }

  void head(const Name& x) {
    if (data::learns_labels(spec_.task)) {
      const std::int64_t outputs = spec_.outputs();
      const bool words = spec_.task == models::Task::tag;
      const Name vector = words ? x : pool(spec_.classifier_pooling, x);
      const Name pooled = words && !is_modern(spec_) ? x : wide_head(vector);
      const Name logits = linear(build_, names_.classifier, pooled, spec_.hidden, outputs);
      if (words) return graph_.output(logits, "logits", {"batch_size", "sequence_length", outputs});
      return graph_.output(logits, "logits", {"batch_size", outputs});
    }
    if (spec_.task == models::Task::embed) return embed(x);
    const Name transformed =
        norm(names_.transform_norm, gelu(graph_, linear(build_, names_.transform, x, spec_.hidden, spec_.hidden)));
    const Name decoded = tied_decoder(build_, names_.word, transformed, spec_.vocabulary, spec_.hidden);
    const Name bias = graph_.weight(names_.decoder_bias, {spec_.vocabulary},
                                    build_.weights.tensor(names_.decoder_bias, {spec_.vocabulary}));
    graph_.output(graph_.node("Add", {decoded, bias}), "logits", {"batch_size", "sequence_length", spec_.vocabulary});
  }

  void embed(const Name& x) {
    graph_.output(x, "last_hidden_state", {"batch_size", "sequence_length", spec_.hidden});
    const Graph::Scope scope(graph_, "pooling");
    Name pooled = pool(spec_.sentence.pooling, x);
    if (spec_.sentence.normalise) {
      const Name square = sum(graph_, graph_.node("Mul", {pooled, pooled}), -1, true);
      const Name norm = graph_.node(
          "Max", {graph_.node("Sqrt", {square}), graph_.scalar(static_cast<float>(kernels::smallest_norm))});
      pooled = graph_.node("Div", {pooled, norm});
    }
    graph_.output(pooled, "sentence_embedding", {"batch_size", spec_.hidden});
  }

  Name pool(kernels::Pooling pooling, const Name& x) {
    return pooling == kernels::Pooling::first
               ? graph_.node("Gather", {x, graph_.integer(0)}, {{"axis", std::int64_t{1}}})
               : mean_of_tokens(x);
  }

  // Mean over all tokens without padding: [batch, hidden].
  Name mean_of_tokens(const Name& x) {
    const Name mask = graph_.node("Cast", {graph_.node("Unsqueeze", {mask_, graph_.integers({2})})},
                                  {{"to", std::int64_t{onnx::TensorProto::FLOAT}}});
    const Name total = sum(graph_, graph_.node("Mul", {x, mask}), 1, false);
    return graph_.node("Div", {total, graph_.node("Max", {sum(graph_, mask, 1, false), graph_.scalar(1.0F)})});
  }

  GraphBuild& build_;
  Graph& graph_;
  const EncoderSpec& spec_;
  EncoderNames names_;
  Name ids_, mask_, types_, additive_;  // no mask: there is no padding
  Name near_;                           // the mask of layers with a window
  RotaryNodes rotary_[2];               // of layers without and with one
};

// Patches times their matrix: [batch, patches, hidden].
Name patch_rows(GraphBuild& build, const models::VitSpec& spec, const Name& pixels) {
  Graph& graph = build.graph;
  const std::string name = models::VitNames::patches;
  const Graph::Scope scope(graph, name);
  const std::int64_t side = spec.image / spec.patch, patch = spec.patch, channels = spec.channels;
  const Name lines = graph.reshape(pixels, {0, channels, side, patch, side, patch});
  const Name patches =
      graph.reshape(graph.transpose(lines, {0, 2, 4, 1, 3, 5}), {0, side * side, spec.patch_numbers()});
  const std::vector<float> stored = build.weights.tensor(name + ".weight", {spec.hidden, channels, patch, patch});
  const std::vector<float> bias = build.weights.tensor(name + ".bias", {spec.hidden});
  Matrix weight;
  if (!stored.empty()) weight = tt::transposed(Matrix(spec.hidden, spec.patch_numbers(), stored));
  const Name product = graph.node(
      "MatMul", {patches, graph.weight(name + ".weight", {spec.patch_numbers(), spec.hidden}, weight.values)});
  return graph.node("Add", {product, graph.weight(name + ".bias", {spec.hidden}, bias)});
}

// The class token, then the patches, each with its position: [batch, tokens, hidden].
Name image_rows(GraphBuild& build, const models::VitSpec& spec) {
  using models::VitNames;
  Graph& graph = build.graph;
  const Name pixels =
      graph.input("pixel_values", onnx::TensorProto::FLOAT, {"batch_size", spec.channels, spec.image, spec.image});
  const Name patches = patch_rows(build, spec, pixels);
  const std::vector<std::int64_t> one{1, 1, spec.hidden}, all{1, spec.tokens(), spec.hidden};
  const Graph::Scope scope(graph, "vit.embeddings");
  const Name token = graph.weight(VitNames::class_token, one, build.weights.tensor(VitNames::class_token, one));
  const Name images = graph.node(
      "Slice", {graph.node("Shape", {pixels}), graph.integers({0}), graph.integers({1}), graph.integers({0})});
  const Name shape = graph.node("Concat", {images, graph.integers({1, spec.hidden})}, {{"axis", std::int64_t{0}}});
  const Name rows = graph.node("Concat", {graph.node("Expand", {token, shape}), patches}, {{"axis", std::int64_t{1}}});
  return graph.node("Add",
                    {rows, graph.weight(VitNames::positions, all, build.weights.tensor(VitNames::positions, all))});
}

}  // namespace

void build_vit(GraphBuild& build, const models::VitSpec& spec) {
  EncoderGraph graph(build, spec);
  graph.classify_first(graph.blocks(image_rows(build, spec)));
}

void build_encoder(GraphBuild& build, const models::EncoderSpec& spec) { EncoderGraph(build, spec).run(); }

}  // namespace comera::exporting
