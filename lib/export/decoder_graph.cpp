#include "lib/export/decoder_graph.h"

#include <cmath>
#include <limits>

#include "models/decoder/gpt2_config.h"

namespace comera::exporting {
namespace {

using models::DecoderNames;
using models::DecoderSpec;
using models::Gpt2Names;
using onnx::TensorProto;

constexpr const char *batch = "batch_size", *past = "past_sequence_length",
                     *both = "past_sequence_length + sequence_length", *sequence = "sequence_length";

class DecoderGraph {
 public:
  DecoderGraph(GraphBuild& build, const DecoderSpec& spec, bool with_past)
      : build_(build),
        graph_(build.graph),
        spec_(spec),
        with_past_(with_past),
        gpt2_(spec),
        word_(spec.family == models::DecoderFamily::gpt2 ? gpt2_.word : DecoderNames::word) {
    build.conv1d = spec.family == models::DecoderFamily::gpt2;
  }

  void run() {
    ids_ = graph_.input("input_ids", TensorProto::INT64, {batch, sequence});
    mask_ = graph_.input("attention_mask", TensorProto::INT64, {batch, with_past_ ? both : sequence});
    position_ids_ = graph_.input("position_ids", TensorProto::INT64, {batch, sequence});
    if (with_past_) declare_past();
    make_masks();
    const bool gpt2 = spec_.family == models::DecoderFamily::gpt2;
    Name x = gpt2 ? gpt2_embeddings() : lookup(build_, word_, ids_, spec_.vocabulary, spec_.hidden);
    if (!gpt2) make_angles();
    for (std::int64_t i = 0; i < spec_.layers; ++i) x = gpt2 ? gpt2_block(i, x) : block(i, x);
    x = gpt2 ? gpt2_norm(gpt2_.final_norm, x) : norm(DecoderNames::final_norm, x);
    const Name logits = head(x);
    graph_.output(logits, "logits", {batch, sequence, spec_.vocabulary});
    for (std::size_t i = 0; i < present_.size(); ++i)
      graph_.output(present_[i], past_name("present", i), {batch, spec_.key_heads, both, spec_.head_size});
  }

 private:
  static std::string past_name(const char* word, std::size_t i) {
    return std::string(word) + "." + std::to_string(i / 2) + (i % 2 == 0 ? ".key" : ".value");
  }

  // The head is a table, either its own or the shared word table. It may be stored as a chain of a linear layer.
  Name head(const Name& x) {
    const std::string name = spec_.tied ? word_ : DecoderNames::head;
    const io::ChainSpec* chain = build_.weights.chain_spec(name);
    if (chain && !chain->table()) return linear(build_, name, x, spec_.hidden, spec_.vocabulary);
    return tied_decoder(build_, name, x, spec_.vocabulary, spec_.hidden);
  }

  void declare_past() {
    for (std::size_t i = 0; i < static_cast<std::size_t>(2 * spec_.layers); ++i)
      past_.push_back(graph_.input(past_name("past_key_values", i), TensorProto::FLOAT,
                                   {batch, spec_.key_heads, past, spec_.head_size}));
  }

  Name size_of(const Name& x, std::int64_t axis) {
    return graph_.node("Gather", {graph_.node("Shape", {x}), graph_.integer(axis)}, {{"axis", std::int64_t{0}}});
  }

  // The masks that the layers need: 0 if a query may attend to a key, otherwise the lowest float: [batch, 1, queries,
  // keys]. The queries are the last of the keys.
  void make_masks() {
    const Graph::Scope scope(graph_, "mask");
    const Name keys = size_of(mask_, 1), queries = size_of(ids_, 1);
    const Name key = graph_.node("Range", {graph_.integer(0), keys, graph_.integer(1)});
    const Name query = graph_.node("Range", {graph_.node("Sub", {keys, queries}), keys, graph_.integer(1)});
    const Name row = graph_.node("Unsqueeze", {key, graph_.integers({0})}),
               column = graph_.node("Unsqueeze", {query, graph_.integers({1})});
    const Name causal = graph_.node("LessOrEqual", {row, column});
    const Name counts = graph_.node("Cast", {graph_.node("Unsqueeze", {mask_, graph_.integers({1, 2})})},
                                    {{"to", std::int64_t{TensorProto::BOOL}}});
    const Name seen = graph_.node("And", {causal, counts});
    const auto additive = [&](const Name& seen) {
      return graph_.node("Where", {seen, graph_.scalar(0.0F), graph_.scalar(std::numeric_limits<float>::lowest())});
    };
    std::int64_t windowed = 0;
    for (std::int64_t i = 0; i < spec_.layers; ++i) windowed += has_window(spec_, i);
    if (windowed < spec_.layers) all_mask_ = additive(seen);
    if (windowed == 0) return;
    const Name first = graph_.node("Sub", {column, graph_.integer(spec_.window - 1)});
    near_mask_ = additive(graph_.node("And", {seen, graph_.node("LessOrEqual", {first, row})}));
  }

  // cos and sin of position * frequency: [batch, sequence, 1, size / 2].
  void make_angles() {
    const Graph::Scope scope(graph_, "rotary");
    const Name positions = graph_.node("Unsqueeze", {position_ids_, graph_.integers({2, 3})});
    rotary_ = rotary_nodes(graph_, "rotary.frequencies", positions,
                           models::rotary_angles(spec_.theta, spec_.head_size, spec_.scaling), spec_.head_size);
  }

  Name rotate(const Name& x) { return exporting::rotate(graph_, rotary_, x, spec_.head_size); }

  Name norm(const std::string& name, const Name& x) { return rms_norm(build_, name, x, spec_.hidden, spec_.epsilon); }

  Name block(std::int64_t index, const Name& x) {
    const Name middle =
        graph_.node("Add", {attention(index, norm(DecoderNames::layer(index, DecoderNames::first_norm), x)), x});
    return graph_.node(
        "Add", {feed_forward(index, norm(DecoderNames::layer(index, DecoderNames::middle_norm), middle)), middle});
  }

  Name project(std::int64_t index, const char* part, const Name& x, std::int64_t heads) {
    const Name y = linear(build_, DecoderNames::layer(index, part), x, spec_.hidden, heads * spec_.head_size);
    return graph_.reshape(y, {0, 0, heads, spec_.head_size});
  }

  Name head_norm(std::int64_t index, const char* part, const Name& x) {
    if (!spec_.head_norms) return x;
    return rms_norm(build_, DecoderNames::layer(index, part), x, spec_.head_size, spec_.epsilon);
  }

  // Appends the new keys or values to the past, if there is one: [batch, key heads, keys, size].
  Name remember(std::size_t slot, const Name& x) {
    Name turned = graph_.transpose(x, {0, 2, 1, 3});
    if (!with_past_) return turned;
    present_.push_back(graph_.node("Concat", {past_[slot], turned}, {{"axis", std::int64_t{2}}}));
    return present_.back();
  }

  Name attention(std::int64_t index, const Name& x) {
    const auto slot = static_cast<std::size_t>(2 * index);
    const Name query = head_norm(index, DecoderNames::query_norm, project(index, DecoderNames::query, x, spec_.heads)),
               key = head_norm(index, DecoderNames::key_norm, project(index, DecoderNames::key, x, spec_.key_heads));
    const Name value = project(index, DecoderNames::value, x, spec_.key_heads);
    Name mixed;
    {
      const Graph::Scope scope(graph_, DecoderNames::layer(index, "self_attn"));
      const Name& mask = has_window(spec_, index) ? near_mask_ : all_mask_;
      const Name turned = rotate(query);
      const Name keys = remember(slot, rotate(key)), values = remember(slot + 1, value);
      mixed = graph_.reshape(spec_.heads == spec_.key_heads ? attend(turned, keys, values, mask)
                                                            : attend_grouped(turned, keys, values, mask),
                             {0, 0, spec_.heads * spec_.head_size});
    }
    return linear(build_, DecoderNames::layer(index, DecoderNames::output), mixed, spec_.heads * spec_.head_size,
                  spec_.hidden);
  }

  Name shares(const Name& scores, const Name& mask) {
    const Name scaled = graph_.node("Div", {scores, graph_.scalar(std::sqrt(static_cast<float>(spec_.head_size)))});
    return graph_.node("Softmax", {graph_.node("Add", {scaled, mask})}, {{"axis", std::int64_t{-1}}});
  }

  // [batch, sequence, heads, size]
  Name attend(const Name& query, const Name& keys, const Name& values, const Name& mask) {
    const Name scores =
        graph_.node("MatMul", {graph_.transpose(query, {0, 2, 1, 3}), graph_.transpose(keys, {0, 1, 3, 2})});
    return graph_.transpose(graph_.node("MatMul", {shares(scores, mask), values}), {0, 2, 1, 3});
  }

  // Attention with groups of heads that share a key head. The products broadcast over the group. [batch, sequence, key
  // heads, group, size]
  Name attend_grouped(const Name& query, const Name& keys, const Name& values, const Name& mask) {
    const Name group = graph_.integers({2});
    const Name split = graph_.reshape(query, {0, 0, spec_.key_heads, spec_.heads / spec_.key_heads, spec_.head_size});
    const Name turned = graph_.transpose(graph_.node("Unsqueeze", {keys, group}), {0, 1, 2, 4, 3});
    const Name scores = graph_.node("MatMul", {graph_.transpose(split, {0, 2, 3, 1, 4}), turned});
    const Name weights = shares(scores, graph_.node("Unsqueeze", {mask, group}));
    return graph_.transpose(graph_.node("MatMul", {weights, graph_.node("Unsqueeze", {values, group})}),
                            {0, 3, 1, 2, 4});
  }

  Name feed_forward(std::int64_t index, const Name& x) {
    const Name gate =
        linear(build_, DecoderNames::layer(index, DecoderNames::gate), x, spec_.hidden, spec_.intermediate);
    const Name up = linear(build_, DecoderNames::layer(index, DecoderNames::up), x, spec_.hidden, spec_.intermediate);
    Name wide;
    {
      const Graph::Scope scope(graph_, DecoderNames::layer(index, "mlp"));
      wide = graph_.node("Mul", {silu(graph_, gate), up});
    }
    return linear(build_, DecoderNames::layer(index, DecoderNames::down), wide, spec_.intermediate, spec_.hidden);
  }

  Name gpt2_embeddings() {
    const Name words = lookup(build_, word_, ids_, spec_.vocabulary, spec_.hidden);
    return graph_.node("Add", {words, lookup(build_, gpt2_.position, position_ids_, spec_.positions, spec_.hidden)});
  }

  Name gpt2_norm(const std::string& name, const Name& x) {
    return layer_norm(build_, name, x, spec_.hidden, spec_.epsilon);
  }

  Name gpt2_attention(std::int64_t index, const Name& x) {
    const auto slot = static_cast<std::size_t>(2 * index);
    const std::int64_t width = spec_.hidden;
    const Name qkv = linear(build_, gpt2_.layer(index, Gpt2Names::qkv), x, width, 3 * width);
    Name mixed;
    {
      const Graph::Scope scope(graph_, gpt2_.layer(index, Gpt2Names::attention));
      const auto part = [&](std::int64_t i) {
        return graph_.reshape(columns_of(graph_, qkv, 3, i * width, (i + 1) * width),
                              {0, 0, spec_.heads, spec_.head_size});
      };
      const Name keys = remember(slot, part(1)), values = remember(slot + 1, part(2));
      mixed = graph_.reshape(attend(part(0), keys, values, all_mask_), {0, 0, width});
    }
    return linear(build_, gpt2_.layer(index, Gpt2Names::output), mixed, width, width);
  }

  Name gpt2_block(std::int64_t index, const Name& x) {
    const auto normed = [&](const char* norm, const Name& y) { return gpt2_norm(gpt2_.layer(index, norm), y); };
    const Name middle = graph_.node("Add", {gpt2_attention(index, normed(Gpt2Names::first_norm, x)), x});
    const Name up = linear(build_, gpt2_.layer(index, Gpt2Names::up), normed(Gpt2Names::middle_norm, middle),
                           spec_.hidden, spec_.intermediate);
    Name wide;
    {
      const Graph::Scope scope(graph_, gpt2_.layer(index, "mlp.act"));
      wide = gelu_tanh(graph_, up);
    }
    const Name down = linear(build_, gpt2_.layer(index, Gpt2Names::down), wide, spec_.intermediate, spec_.hidden);
    return graph_.node("Add", {down, middle});
  }

  GraphBuild& build_;
  Graph& graph_;
  const DecoderSpec& spec_;
  bool with_past_;
  models::Gpt2Names gpt2_;
  std::string word_;  // name of the word table
  Name ids_, mask_, position_ids_;
  RotaryNodes rotary_;
  Name all_mask_, near_mask_;  // of layers without and with a window
  std::vector<Name> past_, present_;
};

}  // namespace

void build_decoder(GraphBuild& build, const models::DecoderSpec& spec, bool with_past) {
  DecoderGraph(build, spec, with_past).run();
}

}  // namespace comera::exporting
