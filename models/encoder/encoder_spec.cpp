#include "models/encoder/encoder_spec.h"

#include <algorithm>

#include "lib/core/error.h"
#include "lib/core/units.h"

namespace comera::models {

namespace {

// RoBERTa, RoBERTa-PreLayerNorm and MPNet have the same positions and heads.
bool like_roberta(const EncoderSpec& spec) {
  return (spec.pre_norm && spec.family == EncoderFamily::bert) || spec.family == EncoderFamily::roberta ||
         spec.family == EncoderFamily::mpnet;
}

const char* prefix_of(const EncoderSpec& spec) {
  if (spec.pre_norm && spec.family == EncoderFamily::bert) return "roberta_prelayernorm.";
  switch (spec.family) {
    case EncoderFamily::roberta: return "roberta.";
    case EncoderFamily::distilbert: return "distilbert.";
    case EncoderFamily::mpnet: return "mpnet.";
    case EncoderFamily::modernbert: return "model.";
    case EncoderFamily::vit: return "vit.";
    default: return "bert.";
  }
}

}  // namespace

std::int64_t first_position(const EncoderSpec& spec) { return like_roberta(spec) ? spec.pad + 1 : 0; }

kernels::Activation head_activation(const EncoderSpec& spec) {
  switch (spec.family) {
    case EncoderFamily::distilbert: return kernels::Activation::relu;
    case EncoderFamily::modernbert: return kernels::Activation::gelu;
    default: return kernels::Activation::tanh;
  }
}

EncoderNames::EncoderNames(const EncoderSpec& spec) : root_(spec.bare ? "" : prefix_of(spec)), stack_("encoder.layer") {
  word = root_ + "embeddings.word_embeddings";
  position = root_ + "embeddings.position_embeddings";
  type = root_ + "embeddings.token_type_embeddings";
  embedding_norm = root_ + "embeddings.LayerNorm";
  final_norm = root_ + "LayerNorm";
  attention = "attention.self";
  query = "attention.self.query";
  key = "attention.self.key";
  value = "attention.self.value";
  attention_output = "attention.output.dense";
  up = "intermediate.dense";
  down = "output.dense";
  middle_norm = spec.pre_norm ? "intermediate.LayerNorm" : "attention.output.LayerNorm";
  output_norm = spec.pre_norm ? "attention.LayerNorm" : "output.LayerNorm";
  pooler = root_ + "pooler.dense";
  const bool roberta = like_roberta(spec);
  head_dense = roberta ? "classifier.dense" : pooler;
  classifier = roberta && spec.task != Task::tag ? "classifier.out_proj" : "classifier";
  transform = roberta ? "lm_head.dense" : "cls.predictions.transform.dense";
  transform_norm = roberta ? "lm_head.layer_norm" : "cls.predictions.transform.LayerNorm";
  decoder_bias = roberta ? "lm_head.bias" : "cls.predictions.bias";
  decoder = roberta ? "lm_head.decoder" : "cls.predictions.decoder";
  if (spec.family == EncoderFamily::distilbert) name_distilbert();
  if (spec.family == EncoderFamily::mpnet) name_mpnet();
  if (spec.family == EncoderFamily::modernbert) name_modernbert();
  if (spec.family == EncoderFamily::vit) name_vit();
}

void EncoderNames::name_vit() {
  final_norm = root_ + "layernorm";
  attention = "attention.attention";
  query = "attention.attention.query";
  key = "attention.attention.key";
  value = "attention.attention.value";
  output_norm = "layernorm_before";
  middle_norm = "layernorm_after";
  head_dense.clear();
}

void EncoderNames::name_modernbert() {
  stack_ = "layers";
  word = root_ + "embeddings.tok_embeddings";
  embedding_norm = root_ + "embeddings.norm";
  final_norm = root_ + "final_norm";
  attention = "attn";
  qkv = "attn.Wqkv";
  attention_output = "attn.Wo";
  up = "mlp.Wi";
  down = "mlp.Wo";
  middle_norm = "mlp_norm";
  output_norm = "attn_norm";
  head_dense = transform = "head.dense";
  head_norm = transform_norm = "head.norm";
  classifier = "classifier";
  decoder = "decoder";
  decoder_bias = "decoder.bias";
}

void EncoderNames::name_mpnet() {
  relative_bias = root_ + "encoder.relative_attention_bias";
  attention = "attention.attn";
  query = "attention.attn.q";
  key = "attention.attn.k";
  value = "attention.attn.v";
  attention_output = "attention.attn.o";
  middle_norm = "attention.LayerNorm";
}

void EncoderNames::name_distilbert() {
  stack_ = "transformer.layer";
  attention = "attention";
  query = "attention.q_lin";
  key = "attention.k_lin";
  value = "attention.v_lin";
  attention_output = "attention.out_lin";
  up = "ffn.lin1";
  down = "ffn.lin2";
  middle_norm = "sa_layer_norm";
  output_norm = "output_layer_norm";
  head_dense = "pre_classifier";
  transform = "vocab_transform";
  transform_norm = "vocab_layer_norm";
  decoder = "vocab_projector";
  decoder_bias = "vocab_projector.bias";
}

std::string EncoderNames::block(std::int64_t index) const { return fmt::format("{}{}.{}", root_, stack_, index); }

std::string EncoderNames::layer(std::int64_t index, const char* part) const {
  return fmt::format("{}.{}", block(index), part);
}

std::vector<WeightSite> block_sites(const EncoderSpec& spec) {
  const EncoderNames names(spec);
  std::vector<WeightSite> sites;
  for (std::int64_t i = 0; i < spec.layers; ++i) {
    if (names.qkv) {
      sites.push_back({names.layer(i, names.qkv), 3 * spec.hidden, spec.hidden, false});
    } else {
      for (const char* part : {names.query, names.key, names.value})
        sites.push_back({names.layer(i, part), spec.hidden, spec.hidden, false});
    }
    sites.push_back({names.layer(i, names.attention_output), spec.hidden, spec.hidden, false});
    sites.push_back(
        {names.layer(i, names.up), is_modern(spec) ? 2 * spec.intermediate : spec.intermediate, spec.hidden, false});
    sites.push_back({names.layer(i, names.down), spec.hidden, spec.intermediate, false});
  }
  return sites;
}

namespace {

// The linear layer of the head that is as wide as the model; "" if it has none.
std::string head_layer(const EncoderSpec& spec, const EncoderNames& names) {
  if (spec.task == Task::mlm) return names.transform;
  if (data::makes_vectors(spec.task)) return spec.pooler ? names.pooler : "";
  return spec.task == Task::tag && !is_modern(spec) ? "" : names.head_dense;
}

}  // namespace

std::vector<WeightSite> weight_sites(const EncoderSpec& spec) {
  const EncoderNames names(spec);
  std::vector<WeightSite> sites{{names.word, spec.vocabulary, spec.hidden, true}};
  const std::vector<WeightSite> blocks = block_sites(spec);
  sites.insert(sites.end(), blocks.begin(), blocks.end());
  if (const std::string& layer = head_layer(spec, names); !layer.empty())
    sites.push_back({layer, spec.hidden, spec.hidden, false});
  return sites;
}

EncoderSpec with_head(const EncoderSpec& spec, Task task, const std::vector<std::string>& labels) {
  if (task == Task::clm)
    fail_input(
        "[model] an encoder sees what comes next, so it cannot learn --task clm; start from a decoder's folder, or "
        "learn --task mlm");
  EncoderSpec out = spec;
  out.task = task;
  out.labels = data::has_classes(task)    ? labels
               : task == Task::regression ? std::vector<std::string>{regression_label}
                                          : std::vector<std::string>{};
  if (!data::makes_vectors(task)) out.bare = out.pooler = false;
  const std::string before = EncoderNames(spec).prefix(), after = EncoderNames(out).prefix();
  out.forms.clear();
  const std::vector<WeightSite> sites = weight_sites(out);
  for (const auto& [name, form] : spec.forms) {
    const std::string renamed = name.starts_with(before) ? after + name.substr(before.size()) : name;
    if (std::any_of(sites.begin(), sites.end(), [&](const WeightSite& site) { return site.name == renamed; }))
      out.forms[renamed] = form;
  }
  return out;
}

namespace {

void check_modern(const EncoderSpec& spec) {
  const ModernBert& modern = spec.modern;
  COMERA_CHECK(spec.pre_norm);
  if (std::ssize(modern.windowed) != spec.layers)
    fail_input("[model] there are types of {} layers for {} layers; they must be equally many", modern.windowed.size(),
               spec.layers);
  if (spec.heads > 0 && spec.hidden / spec.heads % 2 != 0)
    fail_input("[model] heads of {} numbers: rotary positions turn pairs, so the size must be even; change hidden_size",
               spec.hidden / spec.heads);
  if (modern.reach < 0 || modern.reach > 1 << 20)
    fail_input("[model] local_attention is {}; it must lie between 0 and {}", 2 * modern.reach, 1 << 21);
  for (const double theta : {modern.theta, modern.near_theta})
    if (!(theta >= 1 && theta <= 1e12))
      fail_input("[model] the base of rotary angles {} must lie between 1 and 1e12", format_real(theta));
}

}  // namespace

void check_heads(const EncoderSpec& spec) {
  if (spec.hidden % spec.heads != 0)
    fail_input("[model] hidden_size {} is not a multiple of num_attention_heads {}; change one of them", spec.hidden,
               spec.heads);
}

void check_labels(const EncoderSpec& spec) {
  if (spec.labels.size() < 2)
    fail_input("[model] a classifier needs at least two labels, but there is {}; check {}",
               spec.labels.empty() ? "none" : "only '" + spec.labels[0] + "'",
               spec.task == Task::image ? "the folders of the classes" : "the column of the label");
}

void check(const EncoderSpec& spec) {
  check_common(spec);
  if (spec.task == Task::image) fail_input("[model] an encoder reads text; use --model vit-mini for --task image");
  if (spec.task == Task::ctr) fail_input("[model] an encoder reads text; use --model dlrm-small for --task ctr");
  if (spec.task == Task::clm)
    fail_input("[model] an encoder sees what comes next, so it cannot learn --task clm; use --model llama-6m");
  if (spec.pre_norm && spec.family != EncoderFamily::bert && !is_modern(spec))
    fail_input("[model] norms before the branches have the names of RoBERTa-PreLayerNorm, not of another family");
  if (is_modern(spec)) check_modern(spec);
  check_heads(spec);
  if (const double p = spec.head_dropout.value_or(0); !(p >= 0 && p < 1))
    fail_input("[model] dropout {} of the head must be at least 0 and less than 1", p);
  if (spec.types < 0 || spec.types > 1024)
    fail_input("[model] type_vocab_size is {}; it must lie between 0 and 1024", spec.types);
  if (spec.task == Task::regression && spec.labels.size() != 1)
    fail_input(
        "[model] a regression has one output, but there are {} labels; several numbers of one text are not supported",
        spec.labels.size());
  if (spec.task == Task::classify) check_labels(spec);
  if (spec.task != Task::classify && data::has_classes(spec.task) && spec.labels.empty())
    fail_input("[model] there is no label; check the column of the label");
}

}  // namespace comera::models
