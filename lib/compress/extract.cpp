#include "lib/compress/extract.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "lib/core/error.h"
#include "lib/core/hash.h"
#include "lib/core/terminal/log.h"
#include "lib/core/terminal/stop.h"
#include "lib/core/terminal/task_progress.h"
#include "lib/io/tt_format.h"
#include "lib/tt/low_rank.h"

namespace comera::compress {
namespace {

using Entry = io::ModelFolder::Entry;
using tt::Matrix;

constexpr std::string_view weight_ending = ".weight";

void require_dense(const io::ModelFolder& folder) {
  const auto block = io::parse_comera_block(folder.config(), folder.config_path());
  if (block && !block->chains.empty())
    fail_input(
        "[extract] {}: {} of its weights are chains; make a dense model first: comera export {} -o DENSE --to "
        "safetensors",
        folder.path(), block->chains.size(), folder.path());
}

bool is_gpt2(const io::ModelFolder& folder) {
  const auto type = folder.config().find("model_type");
  return type != folder.config().end() && *type == "gpt2";
}

double norm(const Matrix& a) { return std::sqrt(tt::squared_norm(a)); }

class Extraction {
 public:
  explicit Extraction(const ExtractSettings& settings)
      : settings_(settings), base_(settings.base), tuned_(settings.tuned) {
    require_dense(base_);
    require_dense(tuned_);
    require_same_tensors();
    for (const io::TensorForm& form : io::describe(base_)) kinds_[form.name] = form.kind;
    require_rank();
  }

  Extracted run() {
    if (!settings_.writes) {
      visit([&](ExtractedLayer& layer, const Entry& entry) { plan(layer, entry); });
      result_.bytes = modules_.empty() ? 0 : io::lora_bytes(modules_);
      return result_;
    }
    AtomicFolder making(settings_.output);
    const std::string parts = join_path(making.temporary(), "parts");
    make_folders(parts);
    visit([&](ExtractedLayer& layer, const Entry& entry) { fit(layer, entry, parts); });
    if (modules_.empty()) return result_;
    io::write_lora(making.temporary(), modules_, settings_.base,
                   [&](const io::LoraModule& module) { return read_part(part_of(parts, module.name), module); });
    remove_tree(parts);
    result_.bytes = io::lora_bytes(modules_);
    check_stop();
    making.commit_new();
    return result_;
  }

 private:
  void require_same_tensors() const {
    for (const auto& [one, other] : {std::pair{&base_, &tuned_}, {&tuned_, &base_}})
      for (const Entry& entry : one->entries()) {
        const Entry* found = other->find(entry.tensor.name);
        if (!found || found->tensor.shape != entry.tensor.shape)
          fail_input("[extract] {}: has no tensor {} of shape {}, and {} has; it is another model", other->path(),
                     printable(entry.tensor.name), io::to_string(entry.tensor.shape), one->path());
      }
  }

  bool is_linear(const io::StoredTensor& tensor) const {
    const auto kind = kinds_.find(tensor.name);
    return kind != kinds_.end() && kind->second == "linear" && tensor.shape.size() == 2 &&
           tensor.name.ends_with(weight_ending) && io::is_floating(tensor.type) && tensor.elements() > 0;
  }

  void require_rank() const {
    std::int64_t most = 0;
    for (const Entry& entry : base_.entries())
      if (is_linear(entry.tensor)) most = std::max(most, std::min(entry.tensor.shape[0], entry.tensor.shape[1]));
    if (most == 0) fail_input("[extract] {}: has no linear weight", base_.path());
    if (settings_.rank && *settings_.rank > most)
      fail_input("[extract] --rank {} exceeds the size of every weight; use --rank {} or fewer", *settings_.rank, most);
  }

  // Calls `take` for every linear weight that differs, and sorts the rest.
  template <class Take>
  void visit(const Take& take) {
    TaskProgress task("comparing weights", std::ssize(base_.entries()));
    for (const Entry& entry : base_.entries()) {
      check_stop();
      task.advance();
      if (is_same(entry)) {
        ++result_.equal;
      } else if (!is_linear(entry.tensor)) {
        result_.others.push_back(entry.tensor.name);
      } else {
        const std::string& name = entry.tensor.name;
        ExtractedLayer layer{name.substr(0, name.size() - weight_ending.size()), entry.tensor.shape};
        take(layer, entry);
        if (layer.rank > 0) modules_.push_back(module_of(layer));
        result_.layers.push_back(std::move(layer));
      }
      base_.file_of(entry).forget(entry.tensor);
      tuned_.file_of(tuned(entry)).forget(tuned(entry).tensor);
    }
  }

  const Entry& tuned(const Entry& entry) const { return *tuned_.find(entry.tensor.name); }

  bool is_same(const Entry& entry) const {
    const Entry& other = tuned(entry);
    if (entry.tensor.type == other.tensor.type)
      return std::ranges::equal(base_.file_of(entry).bytes(entry.tensor), tuned_.file_of(other).bytes(other.tensor));
    if (!io::is_floating(entry.tensor.type) || !io::is_floating(other.tensor.type)) return false;
    return numbers_of(base_, entry).values == numbers_of(tuned_, other).values;
  }

  // In the order of the file; a vector is one row.
  static Matrix numbers_of(const io::ModelFolder& folder, const Entry& entry) {
    Matrix numbers(entry.tensor.rows(), entry.tensor.columns());
    folder.file_of(entry).read_rows(entry.tensor, [&](std::int64_t first, std::span<const float> rows) {
      std::copy(rows.begin(), rows.end(), numbers.row(first));
    });
    return numbers;
  }

  // W [in, out] of GPT-2 changes by the transpose of B A.
  bool is_turned(const ExtractedLayer& layer) const { return is_gpt2(base_) && !layer.name.ends_with("lm_head"); }

  io::LoraModule module_of(const ExtractedLayer& layer) const {
    const bool turned = is_turned(layer);
    return {layer.name, layer.rank, layer.shape[turned ? 0 : 1], layer.shape[turned ? 1 : 0], settings_.type};
  }

  // The smallest rank whose loss the tolerance allows.
  std::int64_t rank_within(const std::vector<double>& losses, double size) const {
    const double most = std::pow(*settings_.tolerance * size, 2);
    const auto found = std::find_if(losses.begin(), losses.end(), [&](double loss) { return loss <= most; });
    return std::min(found - losses.begin(), std::ssize(losses) - 1);
  }

  void plan(ExtractedLayer& layer, const Entry& entry) const {
    const std::int64_t most = std::min(layer.shape[0], layer.shape[1]);
    const Matrix target = numbers_of(tuned_, tuned(entry));
    const Matrix difference = tt::difference(target, numbers_of(base_, entry));
    layer.change = norm(difference) / std::max(norm(target), 1e-300);
    layer.rank =
        settings_.rank ? std::min(*settings_.rank, most) : rank_within(tt::low_rank_losses(difference), norm(target));
  }

  void fit(ExtractedLayer& layer, const Entry& entry, const std::string& parts) const {
    const std::int64_t most = std::min(layer.shape[0], layer.shape[1]);
    const Matrix target = numbers_of(tuned_, tuned(entry)), base = numbers_of(base_, entry);
    const double size = std::max(norm(target), 1e-300);
    Matrix difference = tt::difference(target, base);
    if (is_turned(layer)) difference = tt::transposed(difference);
    layer.change = norm(difference) / size;
    const tt::LowRankCurve curve(difference, settings_.rank ? std::min(*settings_.rank, most) : 0);
    layer.rank = settings_.rank ? std::min(*settings_.rank, curve.largest_rank()) : rank_within(curve.losses(), size);
    layer.rel_error = layer.change;
    // Rounding of the factors and of the sum may take a rank more than the exact factors need.
    for (; layer.rank > 0; ++layer.rank) {
      write_part(part_of(parts, layer.name), curve.left_orthonormal(layer.rank));
      layer.rel_error = merged_error(layer, entry, parts, target, base) / size;
      if (settings_.rank || *layer.rel_error <= *settings_.tolerance || layer.rank == curve.largest_rank()) return;
    }
  }

  // |T - M| with the numbers that LoraAdapter makes of the stored factors.
  double merged_error(const ExtractedLayer& layer, const Entry& entry, const std::string& parts, const Matrix& target,
                      const Matrix& base) const {
    const io::LoraModule module = module_of(layer);
    const io::LoraFactors factors = read_part(part_of(parts, layer.name), module);
    Matrix change = tt::multiply(tt::to_double(factors.b), tt::to_double(factors.a));
    if (is_turned(layer)) change = tt::transposed(change);
    tt::add(change, base);
    std::vector<float> merged(change.values.begin(), change.values.end());
    std::vector<std::byte> stored(merged.size() * io::size_of(entry.tensor.type));
    io::from_floats(merged, entry.tensor.type, stored);
    io::to_floats(entry.tensor.type, stored, merged);
    std::copy(merged.begin(), merged.end(), change.values.begin());
    return norm(tt::difference(target, change));
  }

  static std::string part_of(const std::string& parts, const std::string& name) {
    return join_path(parts, hash_bytes(std::as_bytes(std::span(name))) + ".safetensors");  // names may hold slashes
  }

  // left [out, R] is B, right [R, in] is A.
  void write_part(const std::string& path, const tt::Pair& pair) const {
    const tt::FloatMatrix a = tt::to_float(pair.right), b = tt::to_float(pair.left);
    io::write_safetensors(path,
                          {{"a", settings_.type, {a.rows, a.columns}, a.values.data(), true},
                           {"b", settings_.type, {b.rows, b.columns}, b.values.data(), true}},
                          {});
  }

  static io::LoraFactors read_part(const std::string& path, const io::LoraModule& module) {
    const io::SafetensorsFile file(path);
    return {{module.rank, module.in, file.read_floats("a")}, {module.out, module.rank, file.read_floats("b")}};
  }

  const ExtractSettings& settings_;
  io::ModelFolder base_, tuned_;
  std::map<std::string, std::string> kinds_;  // of the tensors
  std::vector<io::LoraModule> modules_;
  Extracted result_;
};

}  // namespace

Extracted extract(const ExtractSettings& settings) { return Extraction(settings).run(); }

}  // namespace comera::compress
