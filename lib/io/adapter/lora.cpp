#include "lib/io/adapter/lora.h"

#include <algorithm>
#include <cmath>

#include "lib/core/error.h"
#include "lib/core/glob.h"
#include "lib/core/hub_hint.h"
#include "lib/core/terminal/log.h"
#include "lib/io/json_file.h"
#include "lib/io/model_folder.h"
#include "lib/io/tied_words.h"

namespace comera::io {
namespace {

constexpr std::string_view prefix = "base_model.model.";

struct Kind {
  std::string_view ending;
  bool first, table;  // A; of a table of embeddings
};
constexpr Kind kinds[] = {{".lora_A.weight", true, false},
                          {".lora_B.weight", false, false},
                          {".lora_embedding_A", true, true},
                          {".lora_embedding_B", false, true}};

std::string required_folder(std::string folder) {
  if (!is_folder(folder))
    fail_input("{}: no such folder; name a folder with adapter_config.json of PEFT{}", folder, hub_hint(folder));
  for (const char* name : {"adapter_config.json", "adapter_model.safetensors"})
    if (!path_exists(join_path(folder, name)))
      fail_input("{}: holds no {}, as PEFT writes it with save_pretrained()", folder, name);
  return folder;
}

const Kind& kind_of(const std::string& file, const std::string& name) {
  const auto* const found =
      std::find_if(std::begin(kinds), std::end(kinds), [&](const Kind& kind) { return name.ends_with(kind.ending); });
  if (!name.starts_with(prefix) || found == std::end(kinds))
    fail_input("{}: tensor {} is no lora_A or lora_B of a module; merge the adapter with PEFT instead", file,
               printable(name));
  return *found;
}

bool is_gpt2(const ModelFolder& model) {
  const auto type = model.config().find("model_type");
  return type != model.config().end() && *type == "gpt2";
}

// Word tables of other families have a row per word. `module` is one of tables.
bool is_word_table(const ModelFolder& model, const std::string& module) {
  const auto named = [&](const Tie& tie) { return glob_match(tie.table, module); };
  if (std::any_of(known_ties().begin(), known_ties().end(), named)) return true;
  const ModelFolder::Entry* entry = model.find(module + ".weight");
  const auto words = model.config().find("vocab_size");
  return entry && !entry->tensor.shape.empty() && words != model.config().end() && words->is_number_integer() &&
         *words == entry->tensor.shape[0];
}

// PEFT changes one use of a tied table, the look-up or the head, and a folder of a tied model has one tensor for both.
bool changes_one_use(const ModelFolder& model, const std::string& module, bool table) {
  if (table)
    return is_word_table(model, module) && has_decoder_of_words(model.config()) && says_tied(model.config(), module);
  return std::any_of(known_ties().begin(), known_ties().end(), [&](const Tie& tie) {
    return glob_match(tie.head, module) && says_tied(model.config(), tie.table);
  });
}

}  // namespace

LoraAdapter::LoraAdapter(std::string folder, const ModelFolder& model)
    : folder_(required_folder(std::move(folder))),
      weights_(join_path(folder_, "adapter_model.safetensors")),
      config_(parse_lora_config(read_file(config_path(), largest_config), config_path())) {
  pair_up(model);
  for (const auto& [tensor, part] : parts_) check(tensor, part, model);
  if (parts_.empty()) fail_input("{}: holds no tensor, so there is nothing to merge", weights_.path());
}

void LoraAdapter::pair_up(const ModelFolder& model) {
  for (const StoredTensor& tensor : weights_.tensors()) {
    const Kind& kind = kind_of(weights_.path(), tensor.name);
    const std::string module =
        tensor.name.substr(prefix.size(), tensor.name.size() - prefix.size() - kind.ending.size());
    Part& part = parts_[module + ".weight"];
    const StoredTensor*& place = kind.first ? part.a : part.b;
    if (place)
      fail_input("{}: tensors {} and {} have the same meaning", weights_.path(), printable(place->name),
                 printable(tensor.name));
    place = &tensor;
    part.scale = config_.scale_of(module);
    // PEFT does the same whatever fan_in_fan_out says: the class of the module decides.
    part.turned = kind.table || (is_gpt2(model) && !module.ends_with("lm_head"));
    if (changes_one_use(model, module, kind.table))
      fail_input("{}: tensor {} changes {}; merge the adapter with PEFT instead", weights_.path(),
                 printable(tensor.name),
                 kind.table ? "a table that is the head too" : "a head that is the table of words too");
  }
}

void LoraAdapter::check(const std::string& tensor, const Part& part, const ModelFolder& model) const {
  const std::string name = printable(tensor);
  for (const StoredTensor* one : {part.a, part.b}) {
    if (!one) fail_input("{}: module {} has one of lora_A and lora_B; the other is missing", weights_.path(), name);
    if (one->shape.size() != 2 || !is_floating(one->type) || one->elements() == 0)
      fail_input("{}: tensor {} is {} {}; a matrix of floating numbers was wanted", weights_.path(),
                 printable(one->name), name_of(one->type), to_string(one->shape));
  }
  const std::string module = tensor.substr(0, tensor.rfind('.'));
  if (part.a->shape[0] != config_.rank_of(module) || part.b->shape[1] != config_.rank_of(module))
    fail_input("{}: the factors of {} are {} and {}, and adapter_config.json says rank {}", weights_.path(), name,
               to_string(part.a->shape), to_string(part.b->shape), config_.rank_of(module));
  const ModelFolder::Entry* entry = model.find(tensor);
  if (!entry || !is_floating(entry->tensor.type))
    fail_input("{}: changes {}, and {} has no such dense tensor; it is an adapter of another model", weights_.path(),
               name, model.path());
  FileShape wanted{part.b->shape[0], part.a->shape[1]};
  if (part.turned) std::swap(wanted[0], wanted[1]);
  if (entry->tensor.shape != wanted)
    fail_input("{}: the factors of {} make {}, and {} has {}; it is an adapter of another model", weights_.path(), name,
               to_string(wanted), model.path(), to_string(entry->tensor.shape));
}

const LoraAdapter::Part* LoraAdapter::find(const std::string& tensor) const {
  const auto found = parts_.find(tensor);
  return found == parts_.end() ? nullptr : &found->second;
}

std::vector<float> LoraAdapter::factor(const StoredTensor& tensor, double scale, bool turned) const {
  const std::int64_t rows = tensor.shape[0], columns = tensor.shape[1];
  std::vector<float> matrix(static_cast<std::size_t>(tensor.elements()));
  weights_.read_rows(tensor, [&](std::int64_t first, std::span<const float> part) {
    for (std::int64_t i = 0; i < std::ssize(part); ++i) {
      const std::int64_t row = first + i / columns, column = i % columns;
      matrix[static_cast<std::size_t>(turned ? column * rows + row : row * columns + column)] =
          static_cast<float>(scale * part[static_cast<std::size_t>(i)]);
    }
  });
  return matrix;
}

std::shared_ptr<const LoraAdapter::Factors> LoraAdapter::factors_of(const std::string& tensor) const {
  const std::scoped_lock hold(lock_);
  if (last_ && last_->tensor == tensor) return last_;
  const Part& part = parts_.at(tensor);
  std::vector<float> b = factor(*part.b, part.scale, part.turned), a = factor(*part.a, 1, part.turned);
  if (part.turned) std::swap(a, b);
  last_ = std::make_shared<Factors>(Factors{tensor, part.a->shape[0], std::move(b), std::move(a)});
  return last_;
}

void LoraAdapter::add(const std::string& tensor, std::int64_t first, std::int64_t columns,
                      std::span<float> rows) const {
  const auto factors = factors_of(tensor);
  const std::int64_t rank = factors->rank;
  std::vector<double> sum(static_cast<std::size_t>(columns));
  for (std::int64_t i = 0; i < std::ssize(rows) / columns; ++i) {
    std::fill(sum.begin(), sum.end(), 0.0);
    for (std::int64_t k = 0; k < rank; ++k) {
      const double left = factors->left[static_cast<std::size_t>((first + i) * rank + k)];
      const float* right = factors->right.data() + k * columns;
      for (std::size_t j = 0; j < sum.size(); ++j) sum[j] += left * right[j];
    }
    float* row = rows.data() + i * columns;
    for (std::size_t j = 0; j < sum.size(); ++j) row[j] = static_cast<float>(row[j] + sum[j]);
  }
}

std::vector<std::string> AdaptedWeights::all_paths() const {
  std::vector<std::string> paths = file_->all_paths();
  paths.push_back(adapter_->config_path());
  paths.push_back(adapter_->weights_path());
  return paths;
}

StoredBytes AdaptedWeights::bytes(const StoredTensor& tensor) const {
  if (!adapter_->find(tensor.name)) return file_->bytes(tensor);
  std::vector<std::byte> made(tensor.bytes());
  const std::size_t row_bytes = static_cast<std::size_t>(tensor.columns()) * size_of(tensor.type);
  read_rows(tensor, [&](std::int64_t first, std::span<const float> rows) {
    from_floats(
        rows, tensor.type,
        std::span(made).subspan(static_cast<std::size_t>(first) * row_bytes, rows.size() * size_of(tensor.type)));
  });
  return StoredBytes(std::move(made));
}

void AdaptedWeights::read_strip(const StoredTensor& tensor, std::int64_t first, std::span<float> out) const {
  file_->read_strip(tensor, first, out);
  if (!adapter_->find(tensor.name)) return;
  adapter_->add(tensor.name, first, tensor.columns(), out);
  if (tensor.type == StoredType::F32 || tensor.type == StoredType::F64) return;
  std::vector<std::byte> rounded(out.size() * size_of(tensor.type));
  from_floats(out, tensor.type, rounded);
  to_floats(tensor.type, rounded, out);
}

}  // namespace comera::io
