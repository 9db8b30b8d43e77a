#include "lib/export/gguf/gguf_file.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <set>

#include "lib/core/error.h"
#include "lib/core/terminal/stop.h"
#include "lib/core/terminal/task_progress.h"
#include "lib/engine/unused_tensors.h"
#include "lib/engine/weights_file.h"
#include "lib/export/chains.h"
#include "lib/export/corrections.h"
#include "lib/export/gguf/gguf_tokens.h"
#include "lib/io/chain_parts.h"
#include "lib/io/gguf/gguf.h"
#include "lib/io/gguf/gguf_model.h"
#include "lib/io/gguf/gguf_names.h"
#include "lib/io/gguf/gguf_rope.h"
#include "lib/quant/grid.h"
#include "models/architecture.h"

namespace comera::exporting {
namespace {

using io::GgufType;
using quant::Grid;

// The numbers of general.file_type.
enum FileType : std::uint32_t {
  all_f32 = 0,
  mostly_f16 = 1,
  mostly_q4_0 = 2,
  mostly_q4_1 = 3,
  mostly_q8_0 = 7,
  mostly_bf16 = 32
};

// A tensor of the file and what it is made of.
struct Weight {
  std::string name = {};                 // Hugging Face's, of the dense tensor; empty: divisors of frequencies
  const io::ChainSpec* chain = nullptr;  // null: stored dense
  std::int64_t head_rows = 0;            // rows of a head of q or k; else 0
  bool grid_alone = false;               // the numbers on the grid, without a correction
  io::GgufTensorToWrite tensor = {};

  bool is_vector() const { return tensor.shape.size() < 2; }
  std::int64_t rows() const { return is_vector() ? 1 : tensor.shape[0]; }
  std::int64_t columns() const { return tensor.shape.back(); }
  // The row of the folder's weight that is row `row` of the file.
  std::int64_t source_row(std::int64_t row) const { return head_rows > 0 ? io::unpaired_row(row, head_rows) : row; }
};

GgufType type_of(Grid grid) {
  if (grid == Grid::q8_0) return GgufType::Q8_0;
  return grid == Grid::q4_1 ? GgufType::Q4_1 : GgufType::Q4_0;
}

bool is_own(Grid grid) { return quant::bits_of(grid) < 4 || quant::group_of(grid) != quant::block; }

class Plan {
 public:
  Plan(const io::ModelFolder& folder, const models::DecoderSpec& spec, const GgufOptions& options, const Target& target)
      : folder_(folder), spec_(spec), options_(options), weights_(folder) {
    if (spec.family == models::DecoderFamily::gpt2)
      fail_input("{}: model_type is gpt2; GGUF files of llama, qwen2 and qwen3 models are written",
                 folder.config_path());
    // llama.cpp's llama architecture attends to all keys.
    if (spec.window > 0)
      fail_input("{}: sliding_window is {}; GGUF files of such models are not written", folder.config_path(),
                 spec.window);
    const bool qwen = spec.family == models::DecoderFamily::qwen2 || spec.family == models::DecoderFamily::qwen3;
    if (qwen && spec.scaling.kind == models::RopeKind::llama3)
      fail_input(
          "{}: its positions are of kind llama3, and llama.cpp reads their divisors ({}) for llama models alone; "
          "export the model --to safetensors",
          folder.config_path(), io::rope_divisors_name);
    check_source();
    add_weights();
    add_keys();
    for (const Weight& weight : list_) tensors_.push_back(weight.tensor);
    wrote_.bytes = io::gguf_bytes(keys_, tensors_);
    wrote_.bytes_source = folder.bytes();
    wrote_.tensors = std::ssize(tensors_);
    add_corrections();
    if (!corrections_.empty()) {
      wrote_.adapter = target.path.substr(0, target.path.size() - std::string(".gguf").size()) + ".lora.gguf";
      wrote_.bytes_adapter = io::gguf_bytes(adapter_keys(), corrections_);
    }
  }

  const GgufWrote& wrote() const { return wrote_; }

  void write(FileWriter& writer) const {
    TaskProgress task("writing tensors", std::ssize(list_));
    io::write_gguf(writer, keys_, tensors_, [&](const io::GgufTensorToWrite& tensor, io::GgufSink& sink) {
      check_stop();
      task.advance();
      fill(*by_name_.at(tensor.name), sink);
    });
  }

  void write_adapter(FileWriter& writer) const {
    io::write_gguf(writer, adapter_keys(), corrections_, [&](const io::GgufTensorToWrite& tensor, io::GgufSink& sink) {
      check_stop();
      fill_factor(tensor, sink);
    });
  }

  // Reads the finished file as a model and compares every number: the reader finds rows of pairs by its own rules.
  void check(const std::string& path) const {
    const auto file = std::make_shared<const io::GgufFile>(path);
    const io::GgufWeights model(file);
    std::map<std::string, const io::StoredTensor*> read;
    for (const io::StoredTensor& tensor : model.tensors()) read[tensor.name] = &tensor;
    check_tensors(*file, tensors_);
    TaskProgress task("checking tensors", std::ssize(list_));
    for (const Weight& weight : list_) {
      check_stop();
      if (weight.name.empty()) {  // divisors, which no folder has
        compare(weight, [&](std::int64_t row, std::span<float> out) {
          file->read_row(*file->find(io::rope_divisors_name), row, out);
        });
      } else {
        const auto found = read.find(weight.name);
        if (found == read.end()) fail_written(weight.name, "is missing");
        const io::StoredTensor& tensor = *found->second;
        compare(weight, [&](std::int64_t row, std::span<float> out) { model.read_strip(tensor, row, out); });
        model.forget(tensor);
      }
      task.advance();
    }
  }

  // The same for the file of corrections.
  void check_adapter(const std::string& path) const {
    const io::GgufFile file(path);
    check_tensors(file, corrections_);
    for (const io::GgufTensorToWrite& tensor : corrections_) {
      check_stop();
      const Weight& weight = corrected(tensor);
      const bool left = tensor.name.ends_with("_a");
      auto [a, b] = read_correction(folder_, *weight.chain, weights_.block().threshold);
      const Matrix& wanted = left ? a : b;
      compare(weight.name + (left ? ".lora_a" : ".lora_b"), tensor.type, wanted,
              [&](std::int64_t row, std::span<float> out) {
                file.read_row(*file.find(tensor.name),
                              left || weight.head_rows == 0 ? row : io::paired_row(row, weight.head_rows), out);
              });
    }
  }

 private:
  // The rules of every reader: a missing tensor is refused by its name, one without a place in the model is left out.
  void check_source() {
    const auto model = models::make_model(spec_, DType::f32);
    engine::check_weights(folder_.path(), *model, {.fresh = {}, .may_miss = {}, .adapter = folder_.adapter()});
    wrote_.unused = engine::unused_tensors(folder_.path(), *model, folder_.adapter());
  }

  void add_weights() {
    std::set<std::string> parts;
    const std::set<std::string> unused(wrote_.unused.begin(), wrote_.unused.end());
    for (const io::ChainSpec& chain : weights_.block().chains) {
      bool used = true;
      for (io::ChainPart& part : io::parts_of(chain)) {
        used = used && !unused.contains(part.name);
        parts.insert(std::move(part.name));
      }
      if (used) add_chain(chain);
    }
    for (const io::ModelFolder::Entry& entry : folder_.entries()) {
      const io::StoredTensor& tensor = entry.tensor;
      if (parts.contains(tensor.name) || unused.contains(tensor.name) || tensor.name.ends_with("rotary_emb.inv_freq"))
        continue;
      if (spec_.tied && tensor.name == "lm_head.weight") continue;
      add({tensor.name}, dense_type(tensor.type, tensor.shape), tensor.shape);
    }
    if (spec_.scaling.kind == models::RopeKind::llama3)
      list_.push_back({.tensor = {io::rope_divisors_name, GgufType::F32, {spec_.head_size / 2}}});
    for (const Weight& weight : list_) by_name_[weight.tensor.name] = &weight;
  }

  void add_chain(const io::ChainSpec& chain) {
    const bool correction = has_correction(chain);
    // GGUF has no form for a table of a grid and other numbers.
    const bool mixed = chain.table() && (correction || chain.layout.exact_rows > 0);
    const bool blocks = chain.base && chain.base_numbers() % quant::block == 0 && !options_.merged && !mixed;
    if (blocks) {
      add({chain.weight_name(), &chain, 0, true}, type_of(*chain.base), chain.shape);
      ++wrote_.on_grids;
      if (is_own(*chain.base)) wrote_.widened.push_back(chain.name);
      return;
    }
    add({chain.weight_name(), &chain}, dense_type(weights_.dense_type(chain), chain.shape), chain.shape);
    wrote_.dense.push_back(chain.name);
  }

  GgufType dense_type(io::StoredType type, const io::FileShape& shape) const {
    if (shape.size() < 2) return GgufType::F32;  // llama.cpp adds and multiplies vectors in float32 alone
    if (options_.half || type == io::StoredType::F16) return GgufType::F16;
    return type == io::StoredType::BF16 ? GgufType::BF16 : GgufType::F32;
  }

  void add(Weight weight, GgufType type, const io::FileShape& shape) {
    const auto name = io::gguf_name(weight.name);
    if (!name)
      fail_input("{}: tensor {} has no name in GGUF files of {} models", folder_.path(), weight.name, architecture());
    weight.tensor = {*name, type, shape};
    const bool pairs = spec_.family == models::DecoderFamily::llama;  // llama.cpp rotates the halves of qwen's heads
    if (pairs && (io::is_query(*name) || io::is_key(*name))) weight.head_rows = spec_.head_size;
    list_.push_back(std::move(weight));
  }

  void add_keys() {
    const auto number = [&](const char* name, std::int64_t value) {
      keys_.push_back({key(name), static_cast<std::uint32_t>(value)});
    };
    keys_ = {{"general.architecture", architecture()},
             {"general.type", std::string("model")},
             {"general.name", base_name(folder_.path())},
             {"general.file_type", static_cast<std::uint32_t>(file_type())},
             {"general.quantization_version", std::uint32_t{2}}};
    number("vocab_size", spec_.vocabulary);
    number("context_length", spec_.positions);
    number("embedding_length", spec_.hidden);
    number("block_count", spec_.layers);
    number("feed_forward_length", spec_.intermediate);
    number("attention.head_count", spec_.heads);
    number("attention.head_count_kv", spec_.key_heads);
    number("attention.key_length", spec_.head_size);
    number("attention.value_length", spec_.head_size);
    number("rope.dimension_count", spec_.head_size);
    keys_.push_back({key("attention.layer_norm_rms_epsilon"), static_cast<float>(spec_.epsilon)});
    keys_.push_back({key("rope.freq_base"), static_cast<float>(spec_.theta)});
    add_scaling();
    std::vector<io::GgufKey> tokens;
    try {
      tokens = gguf_tokens(folder_, spec_.vocabulary);
    } catch (const InputError& error) {
      wrote_.without_tokenizer = error.what();
      tokens = gguf_without_tokens();
    }
    keys_.insert(keys_.end(), tokens.begin(), tokens.end());
  }

  std::string architecture() const {
    switch (spec_.family) {
      case models::DecoderFamily::qwen2: return "qwen2";
      case models::DecoderFamily::qwen3: return "qwen3";
      default: return "llama";
    }
  }
  std::string key(const char* name) const { return fmt::format("{}.{}", architecture(), name); }

  // llama.cpp has keys for linear and yarn, and a tensor of divisors for llama3.
  void add_scaling() {
    const models::RopeScaling& scaling = spec_.scaling;
    if (scaling.kind == models::RopeKind::none || scaling.kind == models::RopeKind::llama3) return;
    const bool yarn = scaling.kind == models::RopeKind::yarn;
    if (yarn && (scaling.low != 1 || scaling.high != 32 || !scaling.whole ||
                 scaling.amplitude != models::yarn_amplitude(scaling.factor)))
      fail_input(
          "[export] {}: its yarn positions have their own beta_fast, beta_slow, truncate or attention_factor, "
          "which GGUF files do not hold",
          folder_.path());
    keys_.push_back({key("rope.scaling.type"), std::string(yarn ? "yarn" : "linear")});
    keys_.push_back({key("rope.scaling.factor"), static_cast<float>(scaling.factor)});
    if (yarn)
      keys_.push_back({key("rope.scaling.original_context_length"), static_cast<std::uint32_t>(scaling.context)});
  }

  // Divisors of the frequencies: [head size / 2].
  std::vector<float> rope_divisors() const {
    const auto angles = models::rotary_angles(spec_.theta, spec_.head_size, spec_.scaling);
    const auto plain = models::rotary_angles(spec_.theta, spec_.head_size, {});
    std::vector<float> divisors;
    for (std::int64_t i = 0; i < spec_.head_size / 2; ++i)
      divisors.push_back(static_cast<float>(models::frequency_of(plain, i, spec_.head_size) /
                                            models::frequency_of(angles, i, spec_.head_size)));
    return divisors;
  }

  // The most frequent type of a matrix.
  FileType file_type() const {
    std::map<GgufType, std::int64_t> counts;
    for (const Weight& weight : list_)
      if (weight.rows() > 1) ++counts[weight.tensor.type];
    if (counts.empty()) return all_f32;
    switch (
        std::max_element(counts.begin(), counts.end(), [](auto& a, auto& b) { return a.second < b.second; })->first) {
      case GgufType::Q4_0: return mostly_q4_0;
      case GgufType::Q4_1: return mostly_q4_1;
      case GgufType::Q8_0: return mostly_q8_0;
      case GgufType::F16: return mostly_f16;
      case GgufType::BF16: return mostly_bf16;
      default: return all_f32;
    }
  }

  std::vector<io::GgufKey> adapter_keys() const {
    // llama.cpp multiplies by alpha / rank, and by 1 if alpha is 0.
    return {{"general.architecture", architecture()},
            {"general.type", std::string("adapter")},
            {"adapter.type", std::string("lora")},
            {"adapter.lora.alpha", 0.0f}};
  }

  void add_corrections() {
    for (const Weight& weight : list_) {
      if (!weight.grid_alone || !has_correction(*weight.chain)) continue;
      const std::int64_t rank = correction_rank(*weight.chain);
      const bool half = correction_type(folder_, *weight.chain) == io::StoredType::F16;
      const GgufType type = half ? GgufType::F16 : GgufType::F32;
      corrections_.push_back({weight.tensor.name + ".lora_a", type, {rank, weight.columns()}});
      corrections_.push_back({weight.tensor.name + ".lora_b", type, {weight.rows(), rank}});
    }
  }

  const Weight& corrected(const io::GgufTensorToWrite& tensor) const {
    return *by_name_.at(tensor.name.substr(0, tensor.name.rfind('.')));
  }

  void fill_factor(const io::GgufTensorToWrite& tensor, io::GgufSink& sink) const {
    const Weight& weight = corrected(tensor);
    const auto [a, b] = read_correction(folder_, *weight.chain, weights_.block().threshold);
    if (tensor.name.ends_with("_a")) return sink.floats(a.values);
    for (std::int64_t row = 0; row < b.rows; ++row)
      sink.floats({b.row(weight.source_row(row)), static_cast<std::size_t>(b.columns)});
  }

  // The numbers of a weight as the file has them, in the rows of the folder.
  Matrix numbers_of(const Weight& weight) const {
    if (weight.grid_alone) return base_as_stored(folder_, *weight.chain);
    if (weight.chain) return weights_.as_stored(*weight.chain);
    if (weight.name.empty()) return {1, weight.columns(), rope_divisors()};
    return {weight.rows(), weight.columns(), folder_.read_floats(weight.name, weight.tensor.shape)};
  }

  void fill(const Weight& weight, io::GgufSink& sink) const {
    if (weight.grid_alone) return fill_blocks(weight, sink);
    Matrix numbers = numbers_of(weight);
    // A bias of q or k has a number for each row of their weights, in the same order.
    if (weight.is_vector() && weight.head_rows > 0) std::swap(numbers.rows, numbers.columns);
    for (std::int64_t row = 0; row < numbers.rows; ++row)
      sink.floats({numbers.row(weight.source_row(row)), static_cast<std::size_t>(numbers.columns)});
  }

  void fill_blocks(const Weight& weight, io::GgufSink& sink) const {
    const Grid grid = *weight.chain->base;
    const io::ModelFolder::Entry& entry = *folder_.find(weight.chain->base_name());
    const std::span<const std::byte> all = weights_.base_bytes(*weight.chain);
    const auto line = static_cast<std::size_t>(quant::line_bytes(grid, weight.columns()));
    std::vector<std::byte> wide(static_cast<std::size_t>(quant::line_bytes(Grid::q4_0, weight.columns())));
    for (std::int64_t row = 0; row < weight.rows(); ++row) {
      const auto bytes = all.subspan(static_cast<std::size_t>(weight.source_row(row)) * line, line);
      if (!is_own(grid)) {
        sink.bytes(bytes);
        continue;
      }
      quant::widen_line(grid, bytes.data(), weight.columns(), wide.data());
      sink.bytes(wide);
    }
    folder_.file_of(entry).forget(entry.tensor);
  }

  [[noreturn]] void fail_written(const std::string& name, const std::string& what) const {
    fail_run("[export] {}: tensor {} of the written file {}; the file is not kept, please report this", folder_.path(),
             name, what);
  }

  // The written file has these tensors with their types and shapes, and no others.
  void check_tensors(const io::GgufFile& file, const std::vector<io::GgufTensorToWrite>& wanted) const {
    std::set<std::string> names;
    for (const io::GgufTensorToWrite& tensor : wanted) {
      names.insert(tensor.name);
      const io::GgufTensor* found = file.find(tensor.name);
      if (!found) fail_written(tensor.name, "is missing");
      if (found->type != tensor.type || found->shape != tensor.shape)
        fail_written(tensor.name, "has another type or shape");
    }
    for (const io::GgufTensor& tensor : file.tensors())
      if (!names.contains(tensor.name)) fail_written(tensor.name, "is not of the model");
  }

  using ReadRow = std::function<void(std::int64_t, std::span<float>)>;  // a row of the folder's order

  void compare(const Weight& weight, const ReadRow& read) const {
    compare(weight.name, weight.tensor.type, numbers_of(weight), read);
  }

  void compare(const std::string& name, GgufType type, const Matrix& numbers, const ReadRow& read) const {
    // Rounding to half precision, and of a scale below 2^-13 that was halved.
    const double relative = type == GgufType::F16 ? 0x1p-11 : type == GgufType::BF16 ? 0x1p-8 : 0;
    const double absolute = type == GgufType::F16 ? 0x1p-25 : io::is_quantised(type) ? 0x1p-22 : 0;
    std::vector<float> row(static_cast<std::size_t>(numbers.columns));
    for (std::int64_t r = 0; r < numbers.rows; ++r) {
      read(r, row);
      const float* wanted = numbers.row(r);
      for (std::size_t i = 0; i < row.size(); ++i) {
        if (std::abs(static_cast<double>(row[i]) - wanted[i]) <= relative * std::abs(wanted[i]) + absolute) continue;
        fail_input("[export] {}: the number {} at row {}, column {} of {} becomes {}; {}", folder_.path(), wanted[i], r,
                   i, name, row[i],
                   options_.half ? "half precision ends at 65504, leave out --dtype fp16"
                                 : "the file is not written, please report this");
      }
    }
  }

  const io::ModelFolder& folder_;
  const models::DecoderSpec& spec_;
  GgufOptions options_;
  WeightReader weights_;
  std::vector<Weight> list_;
  std::map<std::string, const Weight*> by_name_;  // of the file
  std::vector<io::GgufKey> keys_;
  std::vector<io::GgufTensorToWrite> tensors_, corrections_;
  GgufWrote wrote_;
};

}  // namespace

GgufWrote plan_gguf_file(const io::ModelFolder& folder, const models::DecoderSpec& spec, const GgufOptions& options,
                         const Target& target) {
  return Plan(folder, spec, options, target).wrote();
}

GgufWrote write_gguf_file(const io::ModelFolder& folder, const models::DecoderSpec& spec, const GgufOptions& options,
                          const Target& target) {
  const Plan plan(folder, spec, options, target);
  // Both files get their names after both are whole.
  AtomicFolder making(target.path);
  const auto made = [&](const std::string& path) { return join_path(making.temporary(), base_name(path)); };
  std::vector<std::string> files{made(target.path)};
  {
    AtomicFile file(files[0]);
    plan.write(file.writer());
    file.commit();
  }
  plan.check(files[0]);
  if (plan.wrote().bytes_adapter > 0) {
    files.push_back(made(plan.wrote().adapter));
    AtomicFile file(files[1]);
    plan.write_adapter(file.writer());
    file.commit();
    plan.check_adapter(files[1]);
  }
  check_stop();
  const Folder from(making.temporary()), to(parent_path(target.path));
  for (auto file = files.rbegin(); file != files.rend(); ++file) {
    const std::string name = base_name(*file);
    if (!target.force && to.kind(name) != EntryKind::none)
      fail_input("[export] {}: exists by now; use another name, or --force to replace it", join_path(to.path(), name));
    from.rename(name, to, name);
  }
  to.sync();
  return plan.wrote();
}

}  // namespace comera::exporting
