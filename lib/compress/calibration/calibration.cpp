#include "lib/compress/calibration/calibration.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "lib/compress/calibration/block_flows.h"
#include "lib/compress/calibration/calibration_text.h"
#include "lib/compress/calibration/collector.h"
#include "lib/compress/calibration/part_sums.h"
#include "lib/compress/calibration/probe.h"
#include "lib/compress/calibration/streamed_weights.h"
#include "lib/compress/calibration/targets.h"
#include "lib/core/error.h"
#include "lib/core/hash.h"
#include "lib/core/join.h"
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
using Each = std::function<void(std::span<const MomentGroup> groups)>;

class Calibration final : public InputMoments {
 public:
  Calibration(const plan::Machine& machine, const CalibrationSettings& settings)
      : settings_(settings),
        spec_(models::spec_from_folder(settings.model)),
        scratch_(settings.scratch),
        weights_(settings.model, scratch_, StreamedWeights::small, settings.adapter),
        targets_(scratch_) {
    const models::Spec& common = models::common(spec_);
    if (std::holds_alternative<models::VitSpec>(spec_))
      fail_input("[tensorize] {}: reads images, but --calibrate gives text; leave it out", settings.model);
    if (std::holds_alternative<models::DlrmSpec>(spec_))
      fail_input("[tensorize] {}: reads clicks, but --calibrate gives text; leave it out", settings.model);
    const std::vector<std::string> files = data::resolve_files(settings.files);
    const auto tokenizer = data::load_tokenizer(settings.tokenizer.empty() ? settings.model : settings.tokenizer);
    if (tokenizer->vocab_size() > common.vocabulary)
      fail_input(
          "[tensorize] {}: the tokenizer has {} pieces, the model knows {}; use the tokenizer that it was trained with",
          tokenizer->source(), tokenizer->vocab_size(), common.vocabulary);
    const TextAmount amount{settings.tokens, enough_tokens(widest_input(spec_))};
    const TextPlaces places{files, settings.columns, settings.format,
                            settings.chat ? data::load_chat_template(tokenizer->source()) : nullptr};
    const std::vector<Sequence> sequences =
        read_sequences(places, *tokenizer, amount, std::min(settings.length, common.positions));
    probed_ = batches_of(some_of(sequences, TextPart::choosing, Probe::tokens), common);
    batches_ = batches_of(sequences, common);
    info_.files = files;
    info_.clips_tokens = settings.clips_tokens;
    info_.sequences = hash_of_tokens(sequences);
    info_.hash = data::hash_files(files);
    // Other columns of the same file are a different text, so they change the hash.
    if (!settings.columns.empty() || settings.format || settings.chat)
      info_.hash = hash_text(fmt::format("{} {} {}{}", info_.hash, join(settings.columns, ","),
                                         settings.format ? static_cast<int>(*settings.format) : -1,
                                         settings.chat ? " chat" : ""));
    count_tokens(common.vocabulary);
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

  void visit_together(const Visit& visit, const Each& each) override {
    const bool some = visit.tokens > 0 && visit.tokens < info_.tokens;
    used_ = batches_used(some ? static_cast<double>(visit.tokens) / static_cast<double>(info_.tokens) : 1);
    // Stored block outputs must cover the batches of this visit.
    if (some) forget_outputs();
    targets_of_.reset();
    std::vector<std::vector<Group>> wanted(visit.sizes);
    for (std::size_t size = 0; size < visit.sizes; ++size)
      for (const Group& group : groups_)
        if (is_wanted(group, visit, size)) wanted[size].push_back(group);
    std::vector<std::span<const Group>> left(wanted.begin(), wanted.end());
    while (const std::optional<std::size_t> block = first_block(left)) {
      for (std::size_t size = 0; size < left.size(); ++size)
        while (!left[size].empty() && left[size].front().block == *block) {
          const std::span<const Group> chunk = left[size].first(chunk_of(left[size]));
          left[size] = left[size].subspan(chunk.size());
          if (needs_targets(chunk, size)) find_targets(*block, wanted);
          measure(chunk, left[size].empty() ? *block : left[size].front().block, size, visit.follows, each);
          const bool last = left[size].empty() || left[size].front().block != *block;
          if (last && visit.after_block) visit.after_block(*block, size);
        }
    }
    if (some) forget_outputs();
  }

  void replace(const std::string& layer, const Matrix& weight, std::size_t size) override {
    layers::Parameter* parameter = find(layer);
    if (!parameter) return;
    COMERA_CHECK(fits(*parameter, weight));
    weights_.replace(*parameter, weight.values, size);
    forget_outputs_after(*parameter, size);
  }

  void replace(const std::string& layer, const tt::Pair& factors, std::size_t size) override {
    layers::Parameter* parameter = find(layer);
    if (!parameter) return;
    const std::int64_t in = factors.left.rows, rank = factors.left.columns, out = factors.right.columns;
    if (!runs_factors_ || rank * (in + out) >= in * out)
      return replace(layer, tt::multiply(factors.left, factors.right), size);
    weights_.replace(*parameter, factors, size);
    forget_outputs_after(*parameter, size);
  }

  void replace_vector(const std::string& tensor, std::span<const float> numbers, std::size_t size) override {
    layers::Parameter* parameter = find_vector(engine_->model(), tensor);
    COMERA_CHECK(parameter != nullptr);
    weights_.replace_vector(*parameter, numbers, size);
    current(size).block.reset();
  }

  BlockFlows* flows() override { return &*flows_; }

  std::optional<double> effect(const std::string& layer, const Matrix& weight) override {
    layers::Parameter* parameter = find(layer);
    if (!parameter || !fits(*parameter, weight)) return std::nullopt;
    const std::optional<double> change = probe_->effect(*parameter, weight.values, block_of(*parameter).value_or(0));
    weights_.forget_beyond(StreamedWeights::small);
    return change;
  }

  void restore() override {
    weights_.restore();
    for (BlockOutputs& outputs : current_) outputs.block.reset();
  }

 private:
  // The block outputs of the model as compressed so far at this size.
  BlockOutputs& current(std::size_t size) {
    while (current_.size() <= size) current_.emplace_back().batches.resize(batches_.size());
    return current_[size];
  }

  // A new weight changes the outputs of its own block and of all later blocks. Tables come before all blocks.
  void forget_outputs_after(const layers::Parameter& parameter, std::size_t size) {
    BlockOutputs& outputs = current(size);
    if (outputs.block >= block_of(parameter).value_or(0)) outputs.block.reset();
  }

  void forget_outputs() {
    for (BlockOutputs& outputs : current_) outputs.block.reset();
    original_.block.reset();
  }

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

  bool is_wanted(const Group& group, const Visit& visit, std::size_t size) const {
    const bool first = group.block == groups_.front().block;
    if (visit.part != Part::all && (visit.part == Part::first) != first) return false;
    return !visit.wants || std::any_of(group.layers.begin(), group.layers.end(),
                                       [&](const std::string& layer) { return visit.wants(layer, size); });
  }

  // The first block that is still to be measured at any size.
  static std::optional<std::size_t> first_block(const std::vector<std::span<const Group>>& left) {
    std::optional<std::size_t> first;
    for (const std::span<const Group> groups : left)
      if (!groups.empty() && (!first || groups.front().block < *first)) first = groups.front().block;
    return first;
  }

  static std::optional<std::size_t> before(std::size_t block) {
    return block > 0 ? std::optional(block - 1) : std::nullopt;
  }

  bool needs_targets(std::span<const Group> groups, std::size_t size) const {
    return weights_.any_replaced(size) &&
           std::any_of(groups.begin(), groups.end(), [](const Group& group) { return group.joins; });
  }

  // Runs a block of the dense model for the targets of its layers, once for all sizes.
  void find_targets(std::size_t block, const std::vector<std::vector<Group>>& wanted) {
    if (targets_of_ == block) return;
    std::set<std::string> joining;  // first layers of groups
    bool last = true;
    for (const std::vector<Group>& of_size : wanted)
      for (const Group& group : of_size) {
        if (group.block == block && group.joins) joining.insert(group.layers.front());
        last = last && group.block <= block;
      }
    std::vector<Group> groups;
    std::copy_if(groups_.begin(), groups_.end(), std::back_inserter(groups),
                 [&](const Group& group) { return joining.contains(group.layers.front()); });
    Collector outputs(groups, Collector::Reads::outputs, last ? before(block) : block, original_, scratch_);
    targets_.clear();
    TaskProgress task(fmt::format("targets of block {}", block + 1), std::ssize(used_));
    for (const std::size_t b : used_) {
      // Judging sequences need no target. Only the other sequences determine it.
      if (batches_[b].part != TextPart::judging) {
        run(Version::original, 0, original_, b, outputs);
        for (std::size_t g = 0; g < groups.size(); ++g)
          if (outputs.seen[g].has_residual) targets_.keep(groups[g].layers.back(), b, outputs.seen[g]);
      }
      task.advance();
    }
    outputs.close();
    targets_of_ = block;
  }

  // Measures the moments of `groups` at one size. `next`: the block of the groups that are measured next, or the own
  // block if there are none. If weights are replaced during the visit (`follows`), the output of a block is only valid
  // when the next block is measured. Otherwise it is stored in this pass.
  void measure(std::span<const Group> groups, std::size_t next, std::size_t size, bool follows, const Each& each) {
    const std::size_t block = groups.front().block;
    const bool moved = needs_targets(groups, size);
    std::vector<MomentGroup> moments;
    for (const Group& group : groups) moments.push_back({group.layers, {}, {}, {}, size});
    const bool too_large = bytes_of(groups) > settings_.moments_in_memory;
    PartSums all(moments, too_large ? &scratch_ : nullptr);
    const auto reads = settings_.clips_tokens ? Collector::Reads::weighed_inputs : Collector::Reads::inputs;
    Collector now(groups, reads, follows || next == block ? before(block) : block, current(size), scratch_);
    Collector::Seen dense;
    std::optional<TaskProgress> task(std::in_place, fmt::format("inputs of block {}", block + 1), std::ssize(used_));
    for (const std::size_t b : used_) {
      run(Version::replaced, size, current(size), b, now);
      std::vector<PartSums::Sums>& sums = all.of(batches_[b].part);
      for (std::size_t g = 0; g < groups.size(); ++g) {
        Collector::Seen& seen = now.seen[g];
        if (!seen.has_x) continue;
        if (seen.has_residual) weigh(seen.x, seen.weights);
        tt::add_upper_gram(sums[g].moment, seen.x);
        const std::string& last = groups[g].layers.back();
        if (!moved || !seen.has_residual || !targets_.give(last, b, dense)) continue;
        tt::add_product_tn(sums[g].products, seen.x, wanted(dense, bias_of(last), seen.residual, seen.weights));
      }
      task->advance();
    }
    task.reset();
    now.close();
    all.close();
    weights_.forget_beyond(StreamedWeights::small);
    each(moments);
  }

  // Multiplies each row by its weight; without weights all are 1.
  static void weigh(tt::FloatMatrix& rows, std::span<const float> weights) {
    COMERA_CHECK(weights.empty() || std::ssize(weights) == rows.rows);
    for (std::size_t k = 0; k < weights.size(); ++k) {
      if (weights[k] == 1) continue;
      float* row = rows.row(static_cast<std::int64_t>(k));
      for (std::int64_t j = 0; j < rows.columns; ++j) row[j] *= weights[k];
    }
  }

  // w (X W + w (R - R̂)), without the bias, which both models have; in place of `dense.given`. A token's weight w also
  // scales the error of its stream. In a long stream this error may be larger than the outputs of all other tokens.
  // A layer that corrects all of it has larger numbers, and all of them are then rounded more coarsely.
  static const tt::FloatMatrix& wanted(Collector::Seen& dense, std::span<const float> bias,
                                       const tt::FloatMatrix& residual, std::span<const float> weights) {
    tt::FloatMatrix& outputs = dense.given;
    constexpr std::int64_t strip = 64;  // rows
    tt::each_alone((outputs.rows + strip - 1) / strip, [&](std::int64_t part) {
      for (std::int64_t k = strip * part; k < std::min(strip * (part + 1), outputs.rows); ++k) {
        float* row = outputs.row(k);
        const float *was = dense.residual.row(k), *is = residual.row(k);
        const float weight = weights.empty() ? 1 : weights[static_cast<std::size_t>(k)];
        for (std::int64_t j = 0; j < outputs.columns; ++j)
          row[j] =
              weight * (row[j] + weight * (was[j] - is[j]) - (bias.empty() ? 0 : bias[static_cast<std::size_t>(j)]));
      }
    });
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
    runs_factors_ = !machine.backend->linear_forward.workspace_bytes;
    engine_ = std::make_unique<engine::Engine>(machine, weights_.streaming(models::factory_of(spec_, machine.dtype)),
                                               engine::EngineOptions{.fetch_hidden = true});
    engine_->allocate();
    engine::load_weights(settings_.model, engine_->weights(),
                         {.fresh = StreamedWeights::streams, .may_miss = {}, .adapter = settings_.adapter});
    const auto* decoder = std::get_if<models::DecoderSpec>(&spec_);
    layers::Parameter* words = decoder ? find(models::decoder_of_words(*decoder)) : nullptr;
    probe_.emplace(*engine_, weights_, probed_, scratch_, words && words->source ? words : nullptr,
                   static_cast<std::size_t>(models::common(spec_).layers));
    flows_.emplace(BlockFlows::Parts{
        .machine = machine,
        .spec = spec_,
        .engine = *engine_,
        .weights = weights_,
        .batches = batches_,
        .scratch = scratch_,
        .current = [this](std::size_t size) -> BlockOutputs& { return current(size); },
        .instead = [this](const std::string& layer, std::int64_t tokens) { return factors_of(layer, tokens); }});
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

  static std::uint64_t bytes_of(std::span<const Group> groups) {
    std::uint64_t bytes = 0;
    for (const Group& group : groups) bytes += moment_bytes(group.width);
    return bytes;
  }

  // The number of groups to measure at once: all groups of a block if memory allows.
  std::size_t chunk_of(std::span<const Group> groups) const {
    std::size_t count = 1;
    while (count < groups.size() && groups[count].block == groups.front().block &&
           bytes_of(groups.first(count + 1)) <= settings_.moments_in_memory)
      ++count;
    return count;
  }

  void run(Version version, std::size_t size, BlockOutputs& outputs, std::size_t index, Collector& collector) {
    check_stop();
    const layers::ObserveInputs observe(collector);
    weights_.show(version, size);
    if (version == Version::replaced)
      collector.factors = [this](const std::string& layer, std::int64_t count) { return factors_of(layer, count); };
    collector.open(batches_[index], outputs.batches[index]);
    try {
      engine_->evaluate(batches_[index].batch);
    } catch (const SeenEnough&) {
    }
  }

  layers::Instead factors_of(const std::string& layer, std::int64_t tokens) {
    const layers::Parameter* parameter = find(layer);
    const StreamedWeights::Factors factors = parameter ? weights_.factors(*parameter) : StreamedWeights::Factors{};
    const auto count = static_cast<std::size_t>(tokens * factors.rank);
    if (between_.size() < count) between_.resize(count);
    return {.rank = factors.rank, .left = factors.left, .right = factors.right, .between = between_.data()};
  }

  CalibrationSettings settings_;
  models::ModelSpec spec_;
  MomentsInfo info_;
  std::vector<double> counts_, judged_counts_;  // [vocabulary], occurrences of each token
  std::vector<TextBatch> batches_, probed_;
  std::vector<std::size_t> used_;  // indices of batches that the current visit uses
  ScratchFile scratch_;
  StreamedWeights weights_;
  std::unique_ptr<engine::Engine> engine_;
  bool runs_factors_ = false;          // replaced layers may run as two products
  std::vector<float> between_;         // outputs of the first of them
  std::vector<BlockOutputs> current_;  // of the model as compressed so far, by size
  BlockOutputs original_;              // of the dense model
  Targets targets_;
  std::optional<std::size_t> targets_of_;  // the block of the targets
  std::vector<Group> groups_;
  std::optional<Probe> probe_;
  std::optional<BlockFlows> flows_;
};

}  // namespace

std::unique_ptr<InputMoments> calibrate(const plan::Machine& machine, const CalibrationSettings& settings) {
  COMERA_CHECK(machine.dtype == DType::f32);
  return std::make_unique<Calibration>(machine, settings);
}

}  // namespace comera::compress
