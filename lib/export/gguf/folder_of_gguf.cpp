#include "lib/export/gguf/folder_of_gguf.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>

#include "lib/core/error.h"
#include "lib/core/terminal/log.h"
#include "lib/core/terminal/stop.h"
#include "lib/core/terminal/task_progress.h"
#include "lib/export/dense_folder.h"
#include "lib/export/gguf/gguf_names.h"
#include "lib/export/gguf/gguf_splits.h"

namespace comera::exporting {
namespace {

// Keys of the architecture begin with its name.
std::string key_of(const io::GgufFile& file, const char* name) {
  return fmt::format("{}.{}", file.text("general.architecture"), name);
}

bool is_llama(const io::GgufFile& file) { return file.text("general.architecture") == "llama"; }
bool is_qwen3(const io::GgufFile& file) { return file.text("general.architecture") == "qwen3"; }

// A tensor of the folder and its source. Rows of q and k are in pairs (gguf_names.h).
struct Source {
  const io::GgufTensor* tensor = nullptr;
  std::int64_t paired_heads = 0;
};

class Names {
 public:
  explicit Names(const io::GgufFile& file)
      : file_(file), heads_(file.integer(key_of(file, "attention.head_count"))), key_heads_(heads_) {
    if (file.has(key_of(file, "attention.head_count_kv")))
      key_heads_ = file.integer(key_of(file, "attention.head_count_kv"));
    constexpr std::int64_t most = 1 << 20;
    if (std::min(heads_, key_heads_) < 1 || std::max(heads_, key_heads_) > most)
      fail_input("{}: {} heads and {} key heads are outside 1 to {}; the file is damaged", file.path(), heads_,
                 key_heads_, most);
  }

  std::map<std::string, Source> sources() const {
    std::map<std::string, Source> found;
    for (const io::GgufTensor& tensor : file_.tensors()) {
      const auto [name, source] = source_of(tensor);
      if (!found.emplace(name, source).second)
        fail_input("{}: tensor {} has the same meaning as another one", file_.path(), printable(tensor.name));
    }
    return found;
  }

 private:
  [[noreturn]] void fail_unknown(const io::GgufTensor& tensor) const {
    fail_input("{}: tensor {} belongs to no llama model that transformers loads; nothing is written", file_.path(),
               printable(tensor.name));
  }

  std::pair<std::string, Source> source_of(const io::GgufTensor& tensor) const {
    const auto name = hugging_face_name(tensor.name);
    if (!name || (is_head_norm(tensor.name) && !is_qwen3(file_))) fail_unknown(tensor);
    const std::int64_t heads = !is_llama(file_)        ? 0  // llama.cpp rotates halves of other families, not pairs
                               : is_query(tensor.name) ? heads_
                               : is_key(tensor.name)   ? key_heads_
                                                       : 0;
    const std::int64_t rows = tensor.shape.empty() ? 1 : tensor.shape[0];
    if (heads > 0 && rows % (2 * heads) != 0)
      fail_input("{}: tensor {}: {} rows do not divide into {} heads of an even size", file_.path(),
                 printable(tensor.name), rows, heads);
    return {*name, {&tensor, heads}};
  }

  const io::GgufFile& file_;
  std::int64_t heads_, key_heads_;
};

io::StoredType type_of(io::GgufType type) {
  if (type == io::GgufType::F16) return io::StoredType::F16;
  return type == io::GgufType::BF16 ? io::StoredType::BF16 : io::StoredType::F32;
}

// Things that change the answers and that such a folder does not hold, or that other architectures have.
void require_llama(const io::GgufFile& file) {
  const std::string& architecture = file.text("general.architecture");
  if (architecture != "llama" && architecture != "qwen2" && architecture != "qwen3")
    fail_input("{}: holds a model of architecture {}; llama, qwen2 and qwen3 are read", file.path(),
               printable(architecture));
  if (file.has("split.count") && file.integer("split.count") > 1)
    fail_input("{}: is one of {} files of a model; join them with llama-gguf-split --merge", file.path(),
               file.integer("split.count"));
  for (const std::string& key : {key_of(file, "expert_count"), key_of(file, "attention.sliding_window")})
    if (file.has(key) && file.integer(key) > 0)
      fail_input("{}: key {} is {}; such models are not read", file.path(), key, file.integer(key));
}

double shortest(double stored);

// `rope_scaling` of config.json; empty: the positions are not scaled.
io::Json rope_scaling(const io::GgufFile& file) {
  const std::string type_key = key_of(file, "rope.scaling.type");
  const std::string type = file.has(type_key) ? file.text(type_key) : "none";
  if (type == "none") return io::Json::object();
  if (type != "linear" && type != "yarn")
    fail_input("{}: the positions are scaled ({}); linear and yarn are read", file.path(), printable(type));
  io::Json scaling{{"rope_type", type}, {"factor", shortest(file.real(key_of(file, "rope.scaling.factor")))}};
  if (const std::string key = key_of(file, "rope.scaling.original_context_length"); type == "yarn" && file.has(key))
    scaling["original_max_position_embeddings"] = file.integer(key);
  return scaling;
}

// The shortest decimal of the float that the file stores: 1e-05, not 9.99999974737875e-06.
double shortest(double stored) {
  char text[32];
  const auto end = std::to_chars(std::begin(text), std::end(text), static_cast<float>(stored)).ptr;
  double value = stored;
  std::from_chars(std::begin(text), end, value);
  return value;
}

std::vector<std::vector<io::TensorToWrite>> shards_of(const std::map<std::string, Source>& sources) {
  std::vector<io::TensorToWrite> tensors;
  for (const auto& [name, source] : sources)
    tensors.push_back({name, type_of(source.tensor->type), source.tensor->shape});
  return sharded(tensors);
}

// Writes the rows in the order of transformers.
void fill(const io::GgufFile& file, const Source& source, io::TensorSink& sink) {
  const io::GgufTensor& tensor = *source.tensor;
  const bool vector = tensor.shape.size() < 2;
  const std::int64_t rows = vector ? tensor.elements() : tensor.rows();
  const std::int64_t size = source.paired_heads > 0 ? rows / source.paired_heads : 0;  // of a head
  const auto at = [&](std::int64_t row) { return size == 0 ? row : paired_row(row, size); };
  std::vector<float> row(static_cast<std::size_t>(tensor.columns()));
  if (vector) {
    file.read_row(tensor, 0, row);
    for (std::int64_t i = 0; i < rows; ++i) sink.floats({&row[static_cast<std::size_t>(at(i))], 1});
    return;
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    file.read_row(tensor, at(i), row);
    sink.floats(row);
  }
  file.forget(tensor);
}

constexpr const char* special_names[] = {"bos", "eos", "unknown", "padding"};
constexpr const char* special_tokens[] = {"bos_token", "eos_token", "unk_token", "pad_token"};
enum TokenType { control = 3, user_defined = 4 };

std::string id_key(const char* name) { return fmt::format("tokenizer.ggml.{}_token_id", name); }

std::string token_of(const io::GgufFile& file, std::int64_t id) {
  const std::vector<std::string>& tokens = file.texts("tokenizer.ggml.tokens");
  if (id < 0 || id >= std::ssize(tokens))
    fail_input("{}: a special token has id {}, and the vocabulary has {} tokens", file.path(), id, tokens.size());
  return tokens[static_cast<std::size_t>(id)];
}

// JSON writers replace bytes that are no UTF-8, and two tokens could become equal.
void require_utf8(const io::GgufFile& file, const char* key) {
  const auto is_utf8 = [](const std::string& text) {
    try {
      io::Json(text).dump();
      return true;
    } catch (const io::Json::type_error&) {
      return false;
    }
  };
  const std::vector<std::string>& texts = file.texts(key);
  const auto bad = std::find_if_not(texts.begin(), texts.end(), is_utf8);
  if (bad != texts.end())
    fail_input("{}: item {} of {} is no UTF-8 text; the file is damaged", file.path(), bad - texts.begin(), key);
}

Split split_of(const io::GgufFile& file) {
  const std::string kind = file.has("tokenizer.ggml.pre") ? file.text("tokenizer.ggml.pre") : "default";
  if (std::optional<Split> split = split_named(kind)) return *std::move(split);
  fail_input("{}: texts are split as \"{}\"; {} are known", file.path(), printable(kind), known_splits());
}

}  // namespace

io::Json gguf_config(const io::GgufFile& file) {
  require_llama(file);
  const std::int64_t width = file.integer(key_of(file, "embedding_length")),
                     heads = file.integer(key_of(file, "attention.head_count"));
  const auto optional = [&](const std::string& key, std::int64_t otherwise) {
    return file.has(key) ? file.integer(key) : otherwise;
  };
  if (heads < 1 || width < 1) fail_input("{}: {} heads of a width of {} are no model", file.path(), heads, width);
  const io::GgufTensor* table = file.find("token_embd.weight");
  if (!table || table->shape.size() != 2) fail_input("{}: tensor token_embd.weight is missing", file.path());
  io::Json config{
      {"architectures",
       {is_llama(file)   ? "LlamaForCausalLM"
        : is_qwen3(file) ? "Qwen3ForCausalLM"
                         : "Qwen2ForCausalLM"}},
      {"model_type", file.text("general.architecture")},
      {"hidden_size", width},
      {"intermediate_size", file.integer(key_of(file, "feed_forward_length"))},
      {"num_hidden_layers", file.integer(key_of(file, "block_count"))},
      {"num_attention_heads", heads},
      {"num_key_value_heads", optional(key_of(file, "attention.head_count_kv"), heads)},
      {"head_dim", optional(key_of(file, "attention.key_length"), width / heads)},
      {"max_position_embeddings", file.integer(key_of(file, "context_length"))},
      {"rms_norm_eps", shortest(file.real(key_of(file, "attention.layer_norm_rms_epsilon")))},
      {"rope_theta",
       file.has(key_of(file, "rope.freq_base")) ? shortest(file.real(key_of(file, "rope.freq_base"))) : 10000.0},
      {"hidden_act", "silu"},
      {"tie_word_embeddings", file.find("output.weight") == nullptr},
      {"vocab_size", table->shape[0]}};
  if (is_llama(file) || is_qwen3(file)) config["attention_bias"] = file.find("blk.0.attn_q.bias") != nullptr;
  if (is_llama(file)) config["mlp_bias"] = file.find("blk.0.ffn_up.bias") != nullptr;
  if (io::Json scaling = rope_scaling(file); !scaling.empty()) config["rope_scaling"] = std::move(scaling);
  for (const char* name : {"bos", "eos"})
    if (file.has(id_key(name))) config[fmt::format("{}_token_id", name)] = file.integer(id_key(name));
  return config;
}

io::Json gguf_tokenizer(const io::GgufFile& file) {
  if (file.text("tokenizer.ggml.model") != "gpt2")
    fail_input("{}: its tokenizer is of kind \"{}\"; byte-level BPE (gpt2) is read", file.path(),
               printable(file.text("tokenizer.ggml.model")));
  const std::vector<std::string>& tokens = file.texts("tokenizer.ggml.tokens");
  const std::vector<std::int64_t>& types = file.integers("tokenizer.ggml.token_type");
  if (types.size() != tokens.size())
    fail_input("{}: {} tokens have {} types; the file is damaged", file.path(), tokens.size(), types.size());
  require_utf8(file, "tokenizer.ggml.tokens");
  require_utf8(file, "tokenizer.ggml.merges");
  io::Json vocabulary = io::Json::object(), added = io::Json::array();
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    vocabulary[tokens[id]] = id;
    if (types[id] != control && types[id] != user_defined) continue;
    added.push_back({{"id", id},
                     {"content", tokens[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", types[id] == control}});
  }
  if (vocabulary.size() != tokens.size())
    fail_input("{}: two tokens have the same text; the file is damaged", file.path());
  const Split split = split_of(file);
  return {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", added},
      {"normalizer", split.normalizer},
      {"pre_tokenizer", split.pre_tokenizer},
      {"post_processor", nullptr},
      {"decoder", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}}},
      {"model",
       {{"type", "BPE"},
        {"dropout", nullptr},
        {"unk_token", nullptr},
        {"continuing_subword_prefix", nullptr},
        {"end_of_word_suffix", nullptr},
        {"fuse_unk", false},
        {"byte_fallback", false},
        {"ignore_merges", split.ignore_merges},
        {"vocab", vocabulary},
        {"merges", file.texts("tokenizer.ggml.merges")}}}};
}

io::Json gguf_tokenizer_config(const io::GgufFile& file) {
  io::Json config{{"tokenizer_class", "PreTrainedTokenizerFast"},
                  {"model_max_length", file.integer(key_of(file, "context_length"))},
                  {"clean_up_tokenization_spaces", false},
                  {"add_prefix_space", false}};
  for (std::size_t i = 0; i < std::size(special_names); ++i)
    if (file.has(id_key(special_names[i])))
      config[special_tokens[i]] = token_of(file, file.integer(id_key(special_names[i])));
  if (file.has("tokenizer.chat_template")) config["chat_template"] = file.text("tokenizer.chat_template");
  return config;
}

GgufFolder plan_gguf_folder(const io::GgufFile& file) {
  gguf_config(file);
  const auto sources = Names(file).sources();
  GgufFolder result{.bytes = io::weights_bytes(shards_of(sources), folder_metadata()), .bytes_source = file.bytes()};
  for (const auto& [name, source] : sources) result.quantised += io::is_quantised(source.tensor->type);
  try {
    gguf_tokenizer(file);
    gguf_tokenizer_config(file);
  } catch (const InputError& error) {
    result.without_tokenizer = error.what();
  }
  return result;
}

GgufFolder write_gguf_folder(const io::GgufFile& file, const Target& target) {
  GgufFolder result = plan_gguf_folder(file);
  const auto sources = Names(file).sources();
  AtomicFolder making(target.path);
  const auto write = [&](const char* name, const io::Json& json) {
    write_file_atomic(join_path(making.temporary(), name), io::json_text(json));
  };
  write("config.json", gguf_config(file));
  if (result.without_tokenizer.empty()) {
    write("tokenizer.json", gguf_tokenizer(file));
    write("tokenizer_config.json", gguf_tokenizer_config(file));
  }
  TaskProgress task("writing tensors", std::ssize(sources));
  io::write_weights(making.temporary(), shards_of(sources), folder_metadata(),
                    [&](const io::TensorToWrite& tensor, io::TensorSink& sink) {
                      check_stop();
                      task.advance();
                      fill(file, sources.at(tensor.name), sink);
                    });
  finish(making, target);
  return result;
}

}  // namespace comera::exporting
