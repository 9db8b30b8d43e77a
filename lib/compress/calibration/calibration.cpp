#include "lib/compress/calibration/calibration.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "lib/compress/calibration/calibration_text.h"
#include "lib/compress/calibration/collector.h"
#include "lib/compress/calibration/probe.h"
#include "lib/compress/calibration/streamed_weights.h"
#include "lib/core/error.h"
#include "lib/core/hash.h"
#include "lib/core/terminal/log.h"
#include "lib/core/terminal/stop.h"
#include "lib/core/terminal/task_progress.h"
#include "lib/data/files/files.h"
#include "lib/data/tokenizer/tokenizer.h"
#include "lib/engine/engine.h"
#include "lib/engine/weights_file.h"
#include "lib/layers/training/observe.h"
#include "lib/layers/training/parameter.h"
#include "models/architecture.h"

namespace comera::compress {
namespace {

using tt::Matrix;
using Version = StreamedWeights::Version;

// Bytes of moments per chunk of layers, unless one layer needs more.
constexpr std::uint64_t largest_chunk = std::uint64_t{1} << 30;
// Bytes of weights that stay in memory even if all matrices are smaller.
constexpr std::size_t small_weights = std::size_t{1} << 28;

class Calibration final : public InputMoments {
 public:
  Calibration(const plan::Machine& machine, const CalibrationSettings& settings)
      : settings_(settings),
        spec_(models::spec_from_folder(settings.model)),
        scratch_(settings.scratch),
        weights_(settings.model, scratch_, small_weights) {
    const models::Spec& common = models::common(spec_);
    const std::vector<std::string> files = data::resolve_files(settings.files);
    const auto tokenizer = data::load_tokenizer(settings.tokenizer.empty() ? settings.model : settings.tokenizer);
    if (tokenizer->vocab_size() > common.vocabulary)
      fail_input(
          "[tensorize] {}: the tokenizer has {} pieces, the model knows {}; use the tokenizer that it was trained with",
          tokenizer->source(), tokenizer->vocab_size(), common.vocabulary);
    const TextAmount amount{settings.tokens, enough_tokens(widest_input(spec_))};
    batches_ = batches_of(read_sequences({files, settings.columns, settings.format}, *tokenizer, amount,
                                         std::min(settings.length, common.positions)),
                          common);
    info_.files = files;
    info_.hash = data::hash_files(files);
    // Other columns of the same file are a different text, so they change the hash.
    if (!settings.columns.empty() || settings.format)
      info_.hash = hash_text(fmt::format("{} {} {}", info_.hash, fmt::join(settings.columns, ","),
                                         settings.format ? static_cast<int>(*settings.format) : -1));
    count_tokens(common.vocabulary);
    current_.batches.resize(batches_.size());
    original_.batches.resize(batches_.size());
    open(machine);
    find_groups();
  }

  MomentsInfo info() const override { return info_; }

  std::vector<double> row_weights(const std::string& table) override {
    return has_rows(table) ? counts_ : std::vector<double>();
  }
  std::vector<double> judged_row_weights(const std::string& table) override {
    return has_rows(table) ? judged_counts_ : std::vector<double>();
  }

  void visit(const Visit& visit, const std::function<void(const MomentGroup& group)>& each) override {
    const bool some = visit.tokens > 0 && visit.tokens < info_.tokens;
    used_ = batches_used(some ? static_cast<double>(visit.tokens) / static_cast<double>(info_.tokens) : 1);
    // Stored block outputs must cover the batches of this visit.
    if (some) current_.block.reset(), original_.block.reset();
    std::vector<Group> wanted;
    for (const Group& group : groups_)
      if (is_wanted(group, visit)) wanted.push_back(group);
    for (std::span<const Group> left = wanted; !left.empty();) {
      const std::span<const Group> chunk = left.first(chunk_of(left));
      left = left.subspan(chunk.size());
      measure(chunk, left.empty() ? chunk.back().block : left.front().block, visit.follows, each);
    }
    if (some) current_.block.reset(), original_.block.reset();
  }

  void replace(const std::string& layer, const Matrix& weight) override {
    layers::Parameter* parameter = find(layer);
    if (!parameter) return;
    COMERA_CHECK(fits(*parameter, weight));
    weights_.replace(*parameter, weight.values);
    // A new weight changes the outputs of its own block and of all later blocks. Tables come before all blocks.
    if (current_.block >= block_of(*parameter).value_or(0)) current_.block.reset();
  }

  std::optional<double> effect(const std::string& layer, const Matrix& weight) override {
    layers::Parameter* parameter = find(layer);
    if (!parameter || !fits(*parameter, weight)) return std::nullopt;
    return probe_->effect(*parameter, weight.values, block_of(*parameter).value_or(0));
  }

  void restore() override {
    weights_.restore();
    current_.block.reset();
  }

 private:
  bool has_rows(const std::string& table) const {
    const layers::Parameter* parameter = find(table);
    return parameter && parameter->shape[0] == static_cast<std::int64_t>(counts_.size());
  }

  static bool fits(const layers::Parameter& parameter, const Matrix& weight) {
    return parameter.shape.dims() == 2 && parameter.shape[0] == weight.rows && parameter.shape[1] == weight.columns;
  }

  // Indices of this share of the fitted batches, evenly spread, and of all other batches.
  std::vector<std::size_t> batches_used(double share) const {
    std::vector<std::size_t> used;
    double due = 1 - share;  // so that at least one batch is used
    for (std::size_t b = 0; b < batches_.size(); ++b) {
      if (batches_[b].part == TextPart::fitted && (due += share) < 1) continue;
      if (batches_[b].part == TextPart::fitted) due -= 1;
      used.push_back(b);
    }
    return used;
  }

  bool is_wanted(const Group& group, const Visit& visit) const {
    const bool first = group.block == groups_.front().block;
    if (visit.part != Part::all && (visit.part == Part::first) != first) return false;
    return !visit.wants || std::any_of(group.layers.begin(), group.layers.end(), visit.wants);
  }

  // Measures the moments of `groups`. `next`: the block of the groups that are measured next, or the own block if there
  // are none. If weights are replaced during the visit (`follows`), the output of a block is only valid when the next
  // block is measured. Otherwise it is stored in this pass.
  void measure(std::span<const Group> groups, std::size_t next, bool follows,
               const std::function<void(const MomentGroup& group)>& each) {
    const std::size_t block = groups.front().block;
    const std::optional<std::size_t> before_these = block > 0 ? std::optional(block - 1) : std::nullopt,
                                     behind = next > block ? std::optional(block) : before_these;
    // A layer's target needs the outputs of the dense model, so the dense model runs as well.
    const bool beside = weights_.any_replaced() &&
                        std::any_of(groups.begin(), groups.end(), [](const Group& group) { return group.joins; });
    std::vector<MomentGroup> moments;
    for (const Group& group : groups) moments.push_back({group.layers, {}, {}, {}});
    Collector now(groups, follows ? before_these : behind, current_, scratch_);
    std::optional<Collector> before;
    if (beside) before.emplace(groups, behind, original_, scratch_);
    std::optional<TaskProgress> task(std::in_place, fmt::format("inputs of block {}", block + 1), std::ssize(used_));
    for (const std::size_t b : used_) {
      // Judging sequences need no target. Only the other sequences determine it.
      const bool wants = before && batches_[b].part != TextPart::judging;
      run(Version::replaced, current_, b, now);
      if (wants) run(Version::original, original_, b, *before);
      for (std::size_t g = 0; g < groups.size(); ++g) {
        const Collector::Seen& seen = now.seen[g];
        if (!seen.has_x) continue;
        MomentGroup::Sums& sums = moments[g].part(batches_[b].part);
        tt::add_gram(sums.moment, seen.x);
        if (!wants || !seen.has_residual || !before->seen[g].has_residual) continue;
        tt::add_product_tn(sums.products, seen.x,
                           wanted(before->seen[g], bias_of(groups[g].layers.back()), seen.residual));
      }
      task->advance();
    }
    task.reset();
    now.close();
    if (before) before->close();
    for (const MomentGroup& group : moments)
      if (!group.fit.moment.values.empty() && tt::trace(group.fit.moment) > 0) each(group);
  }

  // X W + R - R̂, without the bias, which both models have.
  static tt::FloatMatrix wanted(const Collector::Seen& before, std::span<const float> bias,
                                const tt::FloatMatrix& residual) {
    tt::FloatMatrix outputs = before.given;
    for (std::int64_t k = 0; k < outputs.rows; ++k) {
      float* row = outputs.row(k);
      const float *was = before.residual.row(k), *is = residual.row(k);
      for (std::int64_t j = 0; j < outputs.columns; ++j)
        row[j] += was[j] - is[j] - (bias.empty() ? 0 : bias[static_cast<std::size_t>(j)]);
    }
    return outputs;
  }

  // Empty if the layer has no bias.
  std::span<const float> bias_of(const std::string& layer) const {
    const layers::Parameter* bias = engine_->model().parameters().find(layer + ".bias");
    return bias ? std::span<const float>(static_cast<const float*>(bias->value.data),
                                         static_cast<std::size_t>(bias->shape.elements()))
                : std::span<const float>();
  }

  void open(const plan::Machine& machine) {
    engine_ = std::make_unique<engine::Engine>(machine, weights_.streaming(models::factory_of(spec_, machine.dtype)),
                                               engine::EngineOptions{.fetch_hidden = true});
    engine_->allocate();
    engine::load_weights(settings_.model, engine_->weights(), {.fresh = StreamedWeights::streams, .may_miss = {}});
    probe_.emplace(*engine_, weights_, batches_, scratch_);
  }

  layers::Parameter* find(const std::string& layer) const { return find_parameter(engine_->model(), layer); }

  // The block that contains the layer, or the number of blocks if the layer follows the stack. Nothing for tables.
  std::optional<std::size_t> block_of(const layers::Parameter& parameter) const {
    for (const Group& group : groups_)
      for (const std::string& layer : group.layers)
        if (layer + ".weight" == parameter.name) return group.block;
    return std::nullopt;
  }

  void count_tokens(std::int64_t vocabulary) {
    counts_.assign(static_cast<std::size_t>(vocabulary), 1);
    judged_counts_.assign(static_cast<std::size_t>(vocabulary), 0);
    for (const TextBatch& batch : batches_) {
      const auto ids = batch.batch["input_ids"].as<const std::int32_t>();
      for (std::size_t b = 0; b < batch.lengths().size(); ++b) {
        const auto tokens = static_cast<std::size_t>(batch.lengths()[b]);
        info_.part(batch.part) += batch.lengths()[b];
        for (const std::int32_t id : ids.subspan(b * static_cast<std::size_t>(batch.batch.length), tokens))
          (batch.part == TextPart::judging ? judged_counts_ : counts_)[static_cast<std::size_t>(id)] += 1;
      }
    }
  }

  void find_groups() {
    Finder finder;
    {
      const layers::ObserveInputs observe(finder);
      engine_->evaluate(batches_.front().batch);
    }
    groups_ = std::move(finder.groups);
    std::int64_t widest = 0;
    for (const Group& group : groups_) widest = std::max(widest, group.width);
    if (info_.tokens < tokens_per_input * widest)
      log_warning(
          "[tensorize] --calibrate: {} tokens are fitted, but {} inputs need {} or more; give more text or raise "
          "--calibrate-tokens",
          info_.tokens, widest, tokens_per_input * widest);
  }

  // The number of groups to measure at once: all groups of a block if memory allows.
  static std::size_t chunk_of(std::span<const Group> groups) {
    std::size_t count = 0;
    std::uint64_t bytes = 0;
    for (const Group& group : groups) {
      if (group.block != groups.front().block) break;
      bytes += 7 * sizeof(double) * static_cast<std::uint64_t>(group.width) * static_cast<std::uint64_t>(group.width);
      if (count > 0 && bytes > largest_chunk) break;
      ++count;
    }
    return count;
  }

  void run(Version version, BlockOutputs& outputs, std::size_t index, Collector& collector) {
    check_stop();
    const layers::ObserveInputs observe(collector);
    weights_.show(version);
    collector.open(batches_[index], outputs.batches[index]);
    try {
      engine_->evaluate(batches_[index].batch);
    } catch (const SeenEnough&) {
    }
  }

  CalibrationSettings settings_;
  models::ModelSpec spec_;
  MomentsInfo info_;
  std::vector<double> counts_, judged_counts_;  // [vocabulary], occurrences of each token
  std::vector<TextBatch> batches_;
  std::vector<std::size_t> used_;  // indices of batches that the current visit uses
  ScratchFile scratch_;
  StreamedWeights weights_;
  std::unique_ptr<engine::Engine> engine_;
  BlockOutputs current_, original_;  // current_: of the model as compressed so far; original_: of the dense model
  std::vector<Group> groups_;
  std::optional<Probe> probe_;
};

}  // namespace

std::unique_ptr<InputMoments> calibrate(const plan::Machine& machine, const CalibrationSettings& settings) {
  COMERA_CHECK(machine.dtype == DType::f32);
  return std::make_unique<Calibration>(machine, settings);
}

}  // namespace comera::compress
