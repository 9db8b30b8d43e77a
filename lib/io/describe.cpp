// Lists the weights of a folder and their forms. Reads headers only.
#include <algorithm>
#include <set>

#include "lib/core/error.h"
#include "lib/core/glob.h"
#include "lib/core/terminal/log.h"
#include "lib/io/chain_parts.h"
#include "lib/io/gguf/gguf.h"
#include "lib/io/tt_format.h"

namespace comera::io {
namespace {

bool is_numbered(std::string_view name, std::string_view kind) {
  const std::size_t dot = name.rfind('.');
  return dot != std::string_view::npos && dot + 1 < name.size() &&
         name.find_first_not_of("0123456789", dot + 1) == std::string_view::npos && name.substr(0, dot).ends_with(kind);
}

std::string dense_kind(const std::string& name, const FileShape& shape) {
  if (name.ends_with("bias") || name.ends_with(".beta")) return "bias";
  if (shape.size() == 1) return "norm";
  if (shape.size() != 2) return "other";
  for (const char* pattern : {"*embed*", "*wte.weight", "*wpe.weight", "*_embd.weight", "emb_l.*"})
    if (glob_match(pattern, name)) return "embedding";
  return name.ends_with("weight") ? "linear" : "other";
}

TensorForm dense_form(const StoredTensor& tensor) {
  TensorForm form;
  form.name = tensor.name;
  form.kind = dense_kind(tensor.name, tensor.shape);
  form.form = "dense";
  form.shape = tensor.shape;
  form.parameters = form.parameters_dense = tensor.elements();
  form.bytes = form.bytes_dense = tensor.bytes();
  return form;
}

class Describer {
 public:
  Describer(std::span<const ModelFolder::Entry> entries, const std::string& place) : entries_(entries), place_(place) {}

  TensorForm chain_form(const ChainSpec& chain) {
    TensorForm form;
    form.name = chain.weight_name();
    form.kind = chain.table() ? "embedding" : "linear";
    form.form = form_name(chain);
    form.shape = chain.shape;
    form.layout = chain.layout;
    form.initial_ranks = chain.initial_ranks;
    form.parameters_dense = elements_of(chain.shape);
    if (find(form.name))
      fail_input("{}: holds both {} and its chain {}.tt.*; one of them must go", place_, printable(form.name),
                 printable(chain.name));
    if (!weights_.insert(form.name).second)
      fail_input("{}: two chains of config.json stand for {}", place_, printable(form.name));
    chains_.insert(chain.name);
    form.on_grid = chain.base || chain.cores;
    if (chain.base) form.parameters = form.parameters_dense;
    for (const ChainPart& part : parts_of(chain)) add_part(part, form);
    for (std::size_t k = 0; chain.cores && !chain.layout.empty() && k < chain.layout.cores(); ++k)
      form.parameters += elements_of(chain.layout.core_shape(k));
    if (chain.base || chain.cores) element_bytes_ = size_of(chain.dense_type);
    if (chain.base && chain.layout.empty())
      form.layout = {.exact_rows = chain.layout.exact_rows}, form.initial_ranks = {};
    form.bytes_dense = static_cast<std::uint64_t>(form.parameters_dense) * element_bytes_;
    return form;
  }

  void add_rest(std::vector<TensorForm>& forms) {
    for (const ModelFolder::Entry& entry : entries_) {
      const StoredTensor& tensor = entry.tensor;
      if (taken_.contains(tensor.name)) continue;
      if (is_of_chain(tensor.name))
        fail_input(
            "{}: tensor {}: belongs to a tensor train that config.json does not describe so; is config.json that of "
            "another model?",
            place_, printable(tensor.name));
      forms.push_back(dense_form(tensor));
    }
  }

 private:
  const StoredTensor* find(const std::string& name) const {
    const auto less = [](const ModelFolder::Entry& entry, const std::string& wanted) {
      return natural_less(entry.tensor.name, wanted);
    };
    const auto found = std::lower_bound(entries_.begin(), entries_.end(), name, less);
    return found != entries_.end() && found->tensor.name == name ? &found->tensor : nullptr;
  }

  // True for cores and diagonals of any name, and for other parts if their chain or its cores exist.
  bool is_of_chain(const std::string& name) const {
    if (is_numbered(name, ".tt") || is_numbered(name, ".rank")) return true;
    for (const std::string_view ending : {".base", ".order", ".gauge", ".exact.ids", ".exact.rows"})
      if (name.ends_with(ending)) {
        const std::string chain = name.substr(0, name.size() - ending.size());
        return chains_.contains(chain) || find(chain + ".tt.0");
      }
    return false;
  }

  void add_part(const ChainPart& part, TensorForm& form) {
    using Role = ChainPart::Role;
    const StoredTensor* tensor = find(part.name);
    if (!tensor)
      fail_input("{}: tensor {} is missing, though config.json describes its chain", place_, printable(part.name));
    if (tensor->shape != part.shape)
      fail_input("{}: tensor {}: has shape {}, but the chain in config.json needs {}", place_, printable(part.name),
                 to_string(tensor->shape), to_string(part.shape));
    if (part.role == Role::indices && tensor->type != StoredType::I32)
      fail_input("{}: tensor {}: is {}, but indices are I32", place_, printable(part.name), name_of(tensor->type));
    if (part.role == Role::codes && tensor->type != StoredType::U8)
      fail_input("{}: tensor {}: is {}, but numbers on a grid are U8", place_, printable(part.name),
                 name_of(tensor->type));
    if (part.role != Role::indices && part.role != Role::codes && !is_floating(tensor->type))
      fail_input("{}: tensor {}: {} is no floating-point type", place_, printable(part.name), name_of(tensor->type));
    if (!taken_.insert(part.name).second)
      fail_input("{}: tensor {}: belongs to two chains of config.json", place_, printable(part.name));
    form.bytes += tensor->bytes();
    if (part.role == Role::diagonal) form.rank_entries += tensor->elements();
    if (part.role != Role::core && part.role != Role::rows) return;
    form.parameters += tensor->elements();
    element_bytes_ = size_of(tensor->type);
  }

  std::span<const ModelFolder::Entry> entries_;  // sorted by natural_less
  const std::string& place_;
  std::set<std::string> taken_, weights_, chains_;
  std::size_t element_bytes_ = sizeof(float);  // of the last chain with tensors; an empty chain uses this value
};

}  // namespace

std::string form_name(const tt::Layout& layout, const std::string& between) {
  return tt::form_name(layout) + (between.empty() ? "" : "+" + between);
}

std::string form_name(const ChainSpec& chain) {
  std::string form = form_name(chain.layout, chain.between);
  if (chain.cores) form += fmt::format(":{}", quant::name_of(*chain.cores));
  if (!chain.base) return form;
  return quant::name_of(*chain.base) + (chain.layout.empty() ? "" : "+" + form);
}

std::vector<TensorForm> describe(std::span<const ModelFolder::Entry> entries, const ComeraBlock& block,
                                 const std::string& place) {
  Describer describer(entries, place);
  std::vector<TensorForm> forms;
  for (const ChainSpec& chain : block.chains) forms.push_back(describer.chain_form(chain));
  describer.add_rest(forms);
  const auto less = [](const TensorForm& a, const TensorForm& b) { return natural_less(a.name, b.name); };
  if (!std::is_sorted(forms.begin(), forms.end(), less)) std::sort(forms.begin(), forms.end(), less);
  return forms;
}

std::vector<TensorForm> describe(const GgufFile& file) {
  std::vector<TensorForm> forms;
  for (const GgufTensor& tensor : file.tensors()) {
    TensorForm form;
    form.name = tensor.name;
    form.kind = dense_kind(tensor.name, tensor.shape);
    form.on_grid = is_quantised(tensor.type);
    form.form = form.on_grid ? name_of(tensor.type) : "dense";
    form.shape = tensor.shape;
    form.parameters = form.parameters_dense = tensor.elements();
    form.bytes = tensor.end - tensor.begin;
    form.bytes_dense = form.on_grid ? static_cast<std::uint64_t>(form.parameters) * 4 : form.bytes;
    forms.push_back(std::move(form));
  }
  std::sort(forms.begin(), forms.end(),
            [](const TensorForm& a, const TensorForm& b) { return natural_less(a.name, b.name); });
  return forms;
}

std::vector<TensorForm> describe(const ModelFolder& folder) {
  const auto block = parse_comera_block(folder.config(), folder.config_path());
  const std::string& place = folder.files().size() == 1 ? folder.files().front()->path() : folder.path();
  return describe(folder.entries(), block.value_or(ComeraBlock{}), place);
}

}  // namespace comera::io
