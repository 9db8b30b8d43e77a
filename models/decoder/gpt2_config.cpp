#include "models/decoder/gpt2_config.h"

namespace comera::models {
namespace {

constexpr const char *architecture = "GPT2LMHeadModel", *body = "GPT2Model", *gelu_new = "gelu_new",
                     *gelu_tanh = "gelu_pytorch_tanh";

}  // namespace

Gpt2Names::Gpt2Names(const DecoderSpec& spec) : root_(spec.bare ? "" : "transformer.") {
  word = root_ + "wte";
  position = root_ + "wpe";
  final_norm = root_ + "ln_f";
}

std::string Gpt2Names::block(std::int64_t index) const { return fmt::format("{}h.{}", root_, index); }

std::string Gpt2Names::layer(std::int64_t index, const char* part) const {
  return fmt::format("{}.{}", block(index), part);
}

std::vector<WeightSite> gpt2_sites(const DecoderSpec& spec) {
  const Gpt2Names names(spec);
  std::vector<WeightSite> sites{{names.word, spec.vocabulary, spec.hidden, true}};
  for (std::int64_t i = 0; i < spec.layers; ++i) {
    sites.push_back({names.layer(i, Gpt2Names::qkv), 3 * spec.hidden, spec.hidden, false, true});
    sites.push_back({names.layer(i, Gpt2Names::output), spec.hidden, spec.hidden, false, true});
    sites.push_back({names.layer(i, Gpt2Names::up), spec.intermediate, spec.hidden, false, true});
    sites.push_back({names.layer(i, Gpt2Names::down), spec.hidden, spec.intermediate, false, true});
  }
  if (!spec.tied) sites.push_back({DecoderNames::head, spec.vocabulary, spec.hidden, true});
  return sites;
}

void write_gpt2_config(const DecoderSpec& spec, io::Json& config) {
  config["architectures"] = io::Json::array({architecture});
  config["model_type"] = gpt2_type;
  config["vocab_size"] = spec.vocabulary;
  config["n_embd"] = spec.hidden;
  config["n_layer"] = spec.layers;
  config["n_head"] = spec.heads;
  config["n_inner"] = spec.intermediate;
  config["n_positions"] = spec.positions;
  config["activation_function"] = gelu_new;
  config["layer_norm_epsilon"] = spec.epsilon;
  config["embd_pdrop"] = spec.embedding_dropout;
  config["resid_pdrop"] = spec.dropout;
  config["attn_pdrop"] = spec.attention_dropout;
}

DecoderSpec parse_gpt2_config(const ConfigReader& reader, bool without_prefix) {
  // A body alone has the weights of the whole model, whose head is the word table.
  if (const std::string found = reader.architecture(); found != architecture && found != body)
    fail_input("{}: architecture {} is not supported; of model_type {} only {} and {} are", reader.name(), found,
               gpt2_type, architecture, body);
  // Two names of one function.
  if (reader.text("activation_function", gelu_new) != gelu_tanh) reader.require("activation_function", gelu_new);
  reader.require_off("add_cross_attention");
  reader.require_off("scale_attn_by_inverse_layer_idx");
  if (!reader.flag("scale_attn_weights", true))
    fail_input("{}: scale_attn_weights is false; only true is supported", reader.name());
  DecoderSpec spec;
  spec.family = DecoderFamily::gpt2;
  spec.bare = without_prefix;
  spec.source = reader.config().dump();
  spec.vocabulary = reader.integer("vocab_size");
  spec.hidden = reader.integer("n_embd");
  spec.layers = reader.integer("n_layer");
  spec.heads = spec.key_heads = reader.integer("n_head");
  spec.intermediate = reader.integer("n_inner", 4 * spec.hidden);
  spec.positions = reader.integer("n_positions", 1024);
  spec.epsilon = reader.real("layer_norm_epsilon", 1e-5);
  spec.embedding_dropout = reader.real("embd_pdrop", 0.1);
  spec.dropout = reader.real("resid_pdrop", 0.1);
  spec.attention_dropout = reader.real("attn_pdrop", 0.1);
  spec.tied = reader.flag("tie_word_embeddings", true);
  spec.begin = reader.integer("bos_token_id", -1);
  if (spec.heads < 1 || spec.hidden % spec.heads != 0)
    fail_input("{}: n_embd {} is not a multiple of n_head {}", reader.name(), spec.hidden, spec.heads);
  spec.head_size = spec.hidden / spec.heads;
  return spec;
}

}  // namespace comera::models
