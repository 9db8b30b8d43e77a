// Which weights a folder holds and in which form, from headers alone.
#include <algorithm>
#include <set>

#include "lib/core/error.h"
#include "lib/core/glob.h"
#include "lib/core/log.h"
#include "lib/io/tt_format.h"

namespace comera::io {
namespace {

// "x.tt.3" and "x.rank.0" belong to a chain x, as do its indices and exact rows.
bool is_chain_tensor(std::string_view name) {
  for (const char* ending : {".order", ".gauge", ".exact.ids", ".exact.rows"})
    if (name.ends_with(ending)) return true;
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot + 1 == name.size()) return false;
  if (name.find_first_not_of("0123456789", dot + 1) != std::string_view::npos) return false;
  return name.substr(0, dot).ends_with(".tt") || name.substr(0, dot).ends_with(".rank");
}

std::string dense_kind(const StoredTensor& tensor) {
  const std::string& name = tensor.name;
  if (name.ends_with("bias") || name.ends_with(".beta")) return "bias";
  if (tensor.shape.size() == 1) return "norm";
  if (tensor.shape.size() != 2) return "other";
  for (const char* pattern : {"*embed*", "*wte.weight", "*wpe.weight"})
    if (glob_match(pattern, name)) return "embedding";
  return name.ends_with("weight") ? "linear" : "other";
}

TensorForm dense_form(const StoredTensor& tensor) {
  TensorForm form;
  form.name = tensor.name;
  form.kind = dense_kind(tensor);
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
    form.kind = chain.kind == ChainKind::tt ? "linear" : "embedding";
    form.form = chain.kind == ChainKind::ttm ? "ttm" : chain.modes.size() == 2 ? "lowrank" : "tt";
    form.shape = chain.shape;
    form.modes = chain.modes;
    form.ranks = chain.ranks;
    form.initial_ranks = chain.initial_ranks;
    form.in_count = chain.kind == ChainKind::tt ? chain.middle() : 0;
    form.sorted = chain.sorted;
    form.gauge = chain.gauge;
    form.exact = chain.exact;
    form.parameters_dense = elements_of(chain.shape);
    if (find(form.name))
      fail_input("{}: holds both {} and its chain {}.tt.*; one of them must go", place_, printable(form.name), printable(chain.name));
    if (!chain.empty()) add_tensors(chain, form);
    if (chain.exact > 0) add_exact(chain, form);
    form.bytes_dense = static_cast<std::uint64_t>(form.parameters_dense) * element_bytes_;
    return form;
  }

  void add_rest(std::vector<TensorForm>& forms) {
    for (const ModelFolder::Entry& entry : entries_) {
      const StoredTensor& tensor = entry.tensor;
      if (taken_.contains(tensor.name)) continue;
      if (is_chain_tensor(tensor.name))
        fail_input("{}: tensor {}: belongs to a tensor train that config.json does not describe; is config.json that of another model?", place_,
                   printable(tensor.name));
      forms.push_back(dense_form(tensor));
    }
  }

 private:
  const StoredTensor* find(const std::string& name) const {
    const auto less = [](const ModelFolder::Entry& entry, const std::string& wanted) { return natural_less(entry.tensor.name, wanted); };
    const auto found = std::lower_bound(entries_.begin(), entries_.end(), name, less);
    return found != entries_.end() && found->tensor.name == name ? &found->tensor : nullptr;
  }

  const StoredTensor& take_any(const std::string& name, const FileShape& shape) {
    const StoredTensor* tensor = find(name);
    if (!tensor) fail_input("{}: tensor {} is missing, though config.json describes its chain", place_, printable(name));
    if (tensor->shape != shape)
      fail_input("{}: tensor {}: has shape {}, but the chain in config.json needs {}", place_, printable(name), to_string(tensor->shape),
                 to_string(shape));
    taken_.insert(name);
    return *tensor;
  }

  const StoredTensor& take(const std::string& name, const FileShape& shape) {
    const StoredTensor& tensor = take_any(name, shape);
    if (!is_floating(tensor.type)) fail_input("{}: tensor {}: {} is no floating-point type", place_, printable(name), name_of(tensor.type));
    return tensor;
  }

  void add_indices(const std::string& name, std::int64_t count, TensorForm& form) {
    const StoredTensor& tensor = take_any(name, {count});
    if (tensor.type != StoredType::I32) fail_input("{}: tensor {}: is {}, but indices are I32", place_, printable(name), name_of(tensor.type));
    form.bytes += tensor.bytes();
  }

  void add_tensors(const ChainSpec& chain, TensorForm& form) {
    for (std::size_t k = 0; k < chain.cores(); ++k) {
      const StoredTensor& core = take(chain.core_name(k), chain.core_shape(k));
      form.parameters += core.elements();
      form.bytes += core.bytes();
      element_bytes_ = size_of(core.type);
    }
    for (std::size_t k = 0; k + 1 < chain.cores() && !chain.folded; ++k) {
      const StoredTensor& diagonal = take(chain.diagonal_name(k), {chain.ranks[k + 1]});
      form.rank_entries += diagonal.elements();
      form.bytes += diagonal.bytes();
    }
    if (chain.sorted) add_indices(chain.order_name(), chain.in(), form);
    if (chain.gauge) add_indices(chain.gauge_name(), chain.ranks[chain.middle()], form);
  }

  void add_exact(const ChainSpec& chain, TensorForm& form) {
    add_indices(chain.exact_ids_name(), chain.exact, form);
    const StoredTensor& rows = take(chain.exact_rows_name(), {chain.exact, chain.shape[1]});
    form.parameters += rows.elements();
    form.bytes += rows.bytes();
    element_bytes_ = size_of(rows.type);
  }

  std::span<const ModelFolder::Entry> entries_;  // sorted by natural_less
  const std::string& place_;
  std::set<std::string> taken_;
  std::size_t element_bytes_ = sizeof(float);  // of the chains seen so far: what an emptied one would have
};

}  // namespace

std::vector<TensorForm> describe(std::span<const ModelFolder::Entry> entries, const ComeraBlock& block, const std::string& place) {
  Describer describer(entries, place);
  std::vector<TensorForm> forms;
  for (const ChainSpec& chain : block.chains) forms.push_back(describer.chain_form(chain));
  describer.add_rest(forms);
  std::sort(forms.begin(), forms.end(), [](const TensorForm& a, const TensorForm& b) { return natural_less(a.name, b.name); });
  return forms;
}

std::vector<TensorForm> describe(const ModelFolder& folder) {
  const auto block = parse_comera_block(folder.config(), folder.config_path());
  return describe(folder.entries(), block.value_or(ComeraBlock{}), folder.path());
}

}  // namespace comera::io
