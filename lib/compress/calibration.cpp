#include "lib/compress/calibration.h"

#include <algorithm>

#include "lib/compress/calibration_text.h"
#include "lib/compress/collector.h"
#include "lib/core/error.h"
#include "lib/core/log.h"
#include "lib/data/files.h"
#include "lib/data/tokenizer.h"
#include "lib/layers/observe.h"
#include "lib/layers/parameter.h"
#include "lib/train/step.h"
#include "lib/train/weights_file.h"
#include "models/architecture.h"

namespace comera::compress {
namespace {

using tt::Matrix;

constexpr std::int64_t probe_tokens = 1024;                      // at least, for effects: one batch
constexpr std::uint64_t largest_chunk = std::uint64_t{1} << 30;  // bytes of moments at a time

std::int64_t widest_layer(const models::ModelSpec& spec) {
  std::int64_t widest = 0;
  for (const models::WeightSite& site : models::weight_sites(spec))
    if (!site.table) widest = std::max(widest, site.columns);
  return widest;
}

void accumulate(Matrix& sum, Matrix product) {
  if (sum.values.empty())
    sum = std::move(product);
  else
    tt::add(sum, product);
}

// A model that runs, and where its blocks need not run again.
struct Running {
  std::unique_ptr<train::Engine> engine;
  BlockOutputs outputs;
};

class Calibration final : public InputMoments {
 public:
  Calibration(const plan::Machine& machine, const CalibrationSettings& settings)
      : machine_(machine), settings_(settings), spec_(models::spec_from_folder(settings.model)) {
    const models::Spec& common = models::common(spec_);
    const std::vector<std::string> files = data::resolve_files(settings.files);
    const auto tokenizer = data::load_tokenizer(settings.tokenizer.empty() ? settings.model : settings.tokenizer);
    if (tokenizer->vocab_size() > common.vocabulary)
      fail_input("[tensorize] {}: the tokenizer has {} pieces, the model knows {}; use the tokenizer that it was trained with", tokenizer->source(),
                 tokenizer->vocab_size(), common.vocabulary);
    batches_ = read_calibration_text(files, *tokenizer, {settings.tokens, enough_tokens(widest_layer(spec_))},
                                     std::min(settings.length, common.positions), common);
    info_.files = files;
    info_.hash = data::hash_files(files);
    count_tokens(common.vocabulary);
    current_ = open();
    find_groups();
  }

  MomentsInfo info() const override { return info_; }

  std::vector<double> row_weights(const std::string& table) override {
    const layers::Parameter* parameter = find(current_, table);
    return parameter && parameter->shape[0] == static_cast<std::int64_t>(counts_.size()) ? counts_ : std::vector<double>();
  }

  void visit(bool follows, const std::function<void(const MomentGroup& group)>& each, Part part) override {
    for (std::size_t first = 0; first < groups_.size();) {
      const std::size_t last = end_of_chunk(first, follows);
      if (part == Part::all || (part == Part::first) == (first == 0)) measure(first, last, each);
      first = last;
    }
  }

  void replace(const std::string& layer, const Matrix& weight) override {
    layers::Parameter* parameter = find(current_, layer);
    if (!parameter) return;
    COMERA_CHECK(parameter->shape[0] == weight.rows && parameter->shape[1] == weight.columns);
    write(*parameter, weight.values);
    forget_outputs(*parameter);
    replaced_ = true;
  }

  std::optional<double> effect(const std::string& layer, const Matrix& weight) override {
    layers::Parameter* parameter = find(current_, layer);
    if (!parameter || parameter->shape[0] != weight.rows || parameter->shape[1] != weight.columns) return std::nullopt;
    if (outputs_.empty()) outputs_ = outputs();
    const auto* numbers = static_cast<const float*>(parameter->value.data);
    const std::vector<float> before(numbers, numbers + parameter->value.elements());
    write(*parameter, weight.values);
    const std::vector<double> moved = outputs();
    write(*parameter, before);
    double change = 0, whole = 0;
    for (std::size_t i = 0; i < moved.size(); ++i) {
      change += (moved[i] - outputs_[i]) * (moved[i] - outputs_[i]);
      whole += outputs_[i] * outputs_[i];
    }
    return whole > 0 ? std::optional(change / whole) : std::nullopt;
  }

  void restore() override {
    load(*current_.engine);
    current_.outputs.block.reset();
    replaced_ = false;
  }

 private:
  // What the model gives for some held-out batches: the hidden states of their tokens, or the classes' logits.
  std::vector<double> outputs() {
    std::vector<double> all;
    std::int64_t tokens = 0;
    for (const TextBatch& batch : batches_) {
      if (!batch.held || tokens >= probe_tokens) continue;
      const train::Scores scores = current_.engine->evaluate(batch.batch);
      const auto lengths = batch.lengths();
      for (const std::int32_t length : lengths) tokens += length;
      if (!scores.hidden.empty()) {
        add_tokens(scores.hidden, lengths, batch.batch.length, all);
      } else {
        all.insert(all.end(), scores.logits.begin(), scores.logits.end());
      }
    }
    return all;
  }

  // Without the rows of padding.
  static void add_tokens(std::span<const double> hidden, std::span<const std::int32_t> lengths, std::int64_t padded, std::vector<double>& all) {
    const std::size_t width = hidden.size() / (lengths.size() * static_cast<std::size_t>(padded));
    for (std::size_t b = 0; b < lengths.size(); ++b) {
      const auto first = hidden.begin() + static_cast<std::ptrdiff_t>(b * static_cast<std::size_t>(padded) * width);
      all.insert(all.end(), first, first + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(lengths[b]) * width));
    }
  }

  void measure(std::size_t first, std::size_t last, const std::function<void(const MomentGroup& group)>& each) {
    const std::span<const Group> groups = std::span<const Group>(groups_).subspan(first, last - first);
    if (replaced_ && !original_.engine) original_ = open();
    std::vector<MomentGroup> moments;
    for (const Group& group : groups) moments.push_back({group.layers, {}, {}});
    Collector now(groups, current_.outputs);
    std::optional<Collector> before;
    if (replaced_) before.emplace(groups, original_.outputs);
    std::vector<Matrix> weights(groups.size());
    for (std::size_t b = 0; b < batches_.size(); ++b) {
      run(current_, b, now);
      if (before) run(original_, b, *before);
      for (std::size_t g = 0; g < groups.size(); ++g) {
        const Collector::Seen& seen = now.seen[g];
        if (seen.x.values.empty()) continue;
        MomentGroup::Sums& sums = batches_[b].held ? moments[g].held : moments[g].fit;
        accumulate(sums.moment, tt::gram(seen.x));
        if (!before || seen.stream.values.empty() || before->seen[g].stream.values.empty()) continue;
        if (weights[g].values.empty()) weights[g] = original_weight(groups[g].layers.back());
        accumulate(sums.products, tt::multiply_tn(seen.x, wanted(before->seen[g], weights[g], seen.stream)));
      }
    }
    now.close();
    if (before) before->close();
    for (const MomentGroup& group : moments)
      if (!group.fit.moment.values.empty() && tt::trace(group.fit.moment) > 0) each(group);
  }

  // X W + R - R̂, without the bias that both have.
  static Matrix wanted(const Collector::Seen& before, const Matrix& weight, const Matrix& stream) {
    Matrix outputs = tt::multiply(before.x, weight);
    tt::add(outputs, before.stream);
    return tt::difference(outputs, stream);
  }

  Matrix original_weight(const std::string& layer) const {
    const layers::Parameter& parameter = *find(original_, layer);
    const auto* numbers = static_cast<const float*>(parameter.value.data);
    return {parameter.shape[0], parameter.shape[1], std::vector<double>(numbers, numbers + parameter.value.elements())};
  }

  Running open() const {
    auto engine = std::make_unique<train::Engine>(machine_, models::factory_of(spec_, machine_.dtype),
                                                  train::EngineOptions{.optimizer = {}, .training = false, .fetch_hidden = true});
    engine->allocate();
    load(*engine);
    return {std::move(engine), {}};
  }

  void load(train::Engine& engine) const {
    const std::string single = join_path(settings_.model, "model.safetensors");
    train::load_weights(path_exists(single) ? single : settings_.model, engine.weights());
    engine.weights_changed();
  }

  template <class T>
  void write(layers::Parameter& parameter, const std::vector<T>& values) {
    std::copy(values.begin(), values.end(), static_cast<float*>(parameter.value.data));
    current_.engine->weights_changed();
  }

  // The file may name a weight with or without what stands before the blocks ("bert.").
  static layers::Parameter* find(const Running& model, const std::string& layer) {
    const std::string name = layer + ".weight";
    for (layers::Parameter& parameter : model.engine->model().parameters().all())
      if (parameter.name == name || parameter.name.ends_with("." + name) || name.ends_with("." + parameter.name)) return &parameter;
    return nullptr;
  }

  // Blocks from that of the weight on give something else now; a table is before all of them.
  void forget_outputs(const layers::Parameter& changed) {
    std::size_t block = 0;
    for (const Group& group : groups_)
      for (const std::string& layer : group.layers)
        if (layer + ".weight" == changed.name) block = group.block;
    if (current_.outputs.block >= block) current_.outputs.block.reset();
  }

  void count_tokens(std::int64_t vocabulary) {
    counts_.assign(static_cast<std::size_t>(vocabulary), 1);
    for (const TextBatch& batch : batches_) {
      const auto ids = batch.batch["input_ids"].as<const std::int32_t>();
      for (std::size_t b = 0; b < batch.lengths().size(); ++b) {
        const auto tokens = static_cast<std::size_t>(batch.lengths()[b]);
        (batch.held ? info_.held_tokens : info_.tokens) += batch.lengths()[b];
        for (const std::int32_t id : ids.subspan(b * static_cast<std::size_t>(batch.batch.length), tokens))
          counts_[static_cast<std::size_t>(id)] += 1;
      }
    }
  }

  void find_groups() {
    Finder finder;
    {
      const layers::ObserveInputs observe(finder);
      current_.engine->evaluate(batches_.front().batch);
    }
    groups_ = std::move(finder.groups);
    std::int64_t widest = 0;
    for (const Group& group : groups_) widest = std::max(widest, group.width);
    if (info_.tokens < tokens_per_input * widest)
      log_warning("[tensorize] --calibrate: {} tokens are fitted, but {} inputs want {} or more; give more text or raise --calibrate-tokens",
                  info_.tokens, widest, tokens_per_input * widest);
  }

  // One block at a time where what comes later must see what has become of it.
  std::size_t end_of_chunk(std::size_t first, bool follows) const {
    std::size_t last = first;
    std::uint64_t bytes = 0;
    while (last < groups_.size() && (!follows || groups_[last].block == groups_[first].block)) {
      bytes += 6 * sizeof(double) * static_cast<std::uint64_t>(groups_[last].width) * static_cast<std::uint64_t>(groups_[last].width);
      if (last > first && bytes > largest_chunk) break;
      ++last;
    }
    return last;
  }

  void run(Running& model, std::size_t index, Collector& collector) const {
    const layers::ObserveInputs observe(collector);
    model.outputs.batches.resize(batches_.size());
    collector.open(batches_[index], model.outputs.batches[index]);
    try {
      model.engine->evaluate(batches_[index].batch);
    } catch (const SeenEnough&) {
    }
  }

  plan::Machine machine_;
  CalibrationSettings settings_;
  models::ModelSpec spec_;
  MomentsInfo info_;
  std::vector<double> counts_;
  std::vector<TextBatch> batches_;
  Running current_, original_;  // the model as it is compressed so far, and (once that is another) as it came
  bool replaced_ = false;
  std::vector<Group> groups_;
  std::vector<double> outputs_;  // of the model as it came, for effects
};

}  // namespace

std::unique_ptr<InputMoments> calibrate(const plan::Machine& machine, const CalibrationSettings& settings) {
  COMERA_CHECK(machine.dtype == DType::f32);
  return std::make_unique<Calibration>(machine, settings);
}

}  // namespace comera::compress
