#include "lib/compress/tensorize.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "lib/compress/allotting.h"
#include "lib/compress/assemble.h"
#include "lib/compress/hot_rows.h"
#include "lib/compress/run_plans.h"
#include "lib/core/error.h"
#include "lib/core/hash.h"
#include "lib/core/log.h"
#include "lib/core/process.h"
#include "lib/core/stop.h"
#include "lib/core/task_progress.h"
#include "lib/core/units.h"
#include "lib/io/json_file.h"
#include "lib/tt/low_rank.h"

namespace comera::compress {
namespace {

constexpr std::int64_t large = 2048;  // above it, the full spectrum of a layer takes longer than its factorisation

bool needs_losses(const Goal& goal) { return !goal.rank && goal.plan_file.empty(); }

// Without spectra all layers have the same curve: the error falls linearly with the rank.
std::vector<double> straight_losses(std::int64_t largest) {
  std::vector<double> losses(static_cast<std::size_t>(largest) + 1);
  for (std::int64_t r = 0; r <= largest; ++r)
    losses[static_cast<std::size_t>(r)] = static_cast<double>(largest - r) / static_cast<double>(largest);
  return losses;
}

// A share of the squared norm. A table that loses more gives later layers inputs that are too far from the dense ones.
constexpr double most_that_a_table_gives = 0.4;

void scale_bytes(tt::LossCurve& curve, std::size_t to, std::size_t from) {
  const auto scaled = [&](std::int64_t bytes) {
    return bytes * static_cast<std::int64_t>(to) / static_cast<std::int64_t>(from);
  };
  curve.dense_bytes = scaled(curve.dense_bytes);
  for (std::int64_t& bytes : curve.bytes) bytes = scaled(bytes);
}

std::string output_of(const Settings& settings, std::size_t index) {
  if (settings.goal.ratios.size() < 2) return settings.output;
  return join_path(settings.output, fmt::format("ratio-{}", format_real(settings.goal.ratios[index])));
}

// All settings that determine the result, in one line.
std::string key_of(const Settings& s, const io::ModelFolder& folder, const InputMoments* moments) {
  std::string text =
      fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {}", fingerprint(folder), name_of(s.form), s.order.value_or(0),
                  s.table_order, s.gauge, s.uniform, s.allow_slower, s.floor, s.again, s.sequential, s.exact_rows,
                  fmt::join(s.choice.include, ","), fmt::join(s.choice.exclude, ","));
  for (const LayerRule& rule : s.rules) text += " " + rule.text;
  text +=
      fmt::format(" {} {} {} {} {}", fmt::join(s.goal.ratios, ","), s.goal.budget.value_or(0), s.goal.rank.value_or(0),
                  s.goal.tolerance.value_or(0), s.goal.plan_file.empty() ? "" : hash_file(s.goal.plan_file));
  if (s.goal.counted) text += fmt::format(" {}", s.goal.counted({}));
  if (moments)
    text += fmt::format(" {} {} {}", moments->info().hash, moments->info().tokens, moments->info().all_tokens());
  return hash_text(text) + "\n";
}

}  // namespace

double Result::worst_error() const {
  double worst = 0;
  for (const LayerOutcome& layer : layers) worst = std::max(worst, layer.output_error.value_or(layer.rel_error));
  return worst;
}

// State that planning and the run share: the loss curves of all layers, and the sizes of whole files.
struct Tensorizer::Work {
  Tensorizer& owner;
  std::vector<LayerPlan> first;
  std::vector<tt::LossCurve> curves;
  std::vector<std::optional<double>> effects;  // per layer: effect of its relative loss on the model's output

  explicit Work(Tensorizer& tensorizer)
      : owner(tensorizer),
        first(first_plans(tensorizer.candidates_, tensorizer.settings_, tensorizer.moments_ != nullptr)) {}

  const std::vector<Candidate>& candidates() const { return owner.candidates_; }

  std::int64_t widest_candidate() const {
    std::int64_t widest = 0;
    for (const Candidate& candidate : candidates())
      if (!candidate.table) widest = std::max(widest, candidate.in());
    return widest;
  }

  bool looks_at_spectra() const {
    if (!needs_losses(owner.settings_.goal)) return false;
    if (owner.moments_ || owner.settings_.goal.tolerance) return true;
    return std::all_of(candidates().begin(), candidates().end(),
                       [](const Candidate& c) { return std::min(c.in(), c.out()) <= large; });
  }

  void add_curve(std::size_t i, std::vector<double> losses) {
    curves[i] = curve_of(first[i], candidates()[i], std::move(losses), owner.settings_.allow_slower);
    if (owner.settings_.goal.counted_element != 0)
      scale_bytes(curves[i], owner.settings_.goal.counted_element, io::size_of(candidates()[i].type));
    // The uniform baseline: steps of eight would leave a tenth of a small budget unused.
    if (owner.settings_.uniform) curves[i].multiple = 1;
    if (first[i].rank == 0) return;  // otherwise a rule sets the rank
    curves[i].smallest_rank = curves[i].largest_rank = first[i].rank;
    curves[i].may_be_dense = false;
    curves[i].multiple = 1;
  }

  void measure(std::size_t i, Evidence evidence) {
    if (!owner.moments_) {
      std::vector<double> losses =
          layer_losses(candidates()[i], read_weight(owner.folder_, candidates()[i]), std::move(evidence));
      // The tolerance must hold for the fit that is made later, which may lose more than the best one.
      for (std::size_t r = 1; r < losses.size() && owner.settings_.goal.tolerance; ++r)
        losses[r] *= 1 + tt::iterated_excess;
      return add_curve(i, std::move(losses));
    }
    LayerFactors factors(candidates()[i], read_weight(owner.folder_, candidates()[i]), std::move(evidence), 0);
    add_curve(i, factors.losses());
    effects[i] = effect_of(i, factors);
  }

  // The ratio of the relative change of the model's output to the relative loss of the layer. Measured at a rank that
  // loses about a tenth of the layer's squared norm.
  std::optional<double> effect_of(std::size_t i, const LayerFactors& factors) const {
    const std::vector<double>& losses = factors.losses();
    if (!owner.moments_ || owner.settings_.goal.tolerance || losses[0] <= 0) return std::nullopt;
    std::size_t rank = 1;
    while (rank + 2 < losses.size() && losses[rank] > 0.1 * losses[0]) ++rank;
    if (losses[rank] <= 0) return std::nullopt;
    const std::optional<double> moved =
        owner.moments_->effect(candidates()[i].name, factors.approximation(static_cast<std::int64_t>(rank)));
    return moved ? std::optional(*moved * losses[0] / losses[rank]) : std::nullopt;
  }

  // Sets the weights of the layers' relative losses. With calibration: the measured effect, if it was measured for
  // every layer, otherwise 1. Without calibration: a table counts as much as all linear layers together, because all of
  // them read its outputs. paid_by_tables() replaces these weights if smaller tables alone meet the budget.
  void weigh() {
    double linear = 0;
    bool measured = true;
    for (std::size_t i = 0; i < first.size(); ++i) {
      if (first[i].form == PlannedForm::keep_dense) continue;
      linear += !candidates()[i].table;
      measured = measured && effects[i];
    }
    for (std::size_t i = 0; i < first.size(); ++i) {
      const bool counts_more = candidates()[i].table && !owner.moments_;
      curves[i].weight = measured ? effects[i].value_or(1) : counts_more ? std::max(1.0, linear) : 1;
    }
  }

  // Computes the loss curves of every layer that does not already stay dense, one layer at a time.
  void look() {
    curves.resize(candidates().size());
    effects.resize(candidates().size());
    const bool spectra = looks_at_spectra();
    std::map<std::string, std::size_t> left;
    for (std::size_t i = 0; i < first.size(); ++i)
      if (first[i].form != PlannedForm::keep_dense) left[first[i].name] = i;
    TaskProgress task("looking at layers", std::ssize(left));
    if (spectra && owner.moments_)
      // A part of a long text is enough to choose the ranks, if it has enough tokens for every input.
      owner.moments_->visit({.wants = [&](const std::string& layer) { return left.contains(layer); },
                             .tokens = enough_tokens(widest_candidate())},
                            [&](const MomentGroup& group) {
                              for (const std::string& layer_name : group.layers)
                                if (const auto found = left.find(layer_name); found != left.end()) {
                                  const TaskProgress layer(layer_name);
                                  check_stop();
                                  measure(found->second, {&group, {}});
                                  task.advance();
                                  left.erase(found);
                                }
                            });
    for (const auto& [name, i] : left) {
      const TaskProgress layer(name);
      check_stop();
      const Candidate& candidate = candidates()[i];
      if (spectra)
        measure(i, table_evidence(owner.moments_.get(), candidate, first[i].layout.exact_rows));
      else
        add_curve(i, straight_losses(std::min(candidate.in(), candidate.out())));
      task.advance();
    }
    weigh();
  }

  // Upper limit of the bytes, besides the numbers, of a chain of three cores with an order. Calibration may choose one.
  template <class Cost>
  std::uint64_t third_cores(const Plan& plan, Cost&& cost) const {
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < plan.layers.size() && owner.moments_; ++i)
      if (plan.layers[i].form == PlannedForm::automatic && !candidates()[i].table) bytes += cost(plan.layers[i]);
    return bytes;
  }

  std::vector<std::optional<io::ChainSpec>> chains_of(const Plan& plan) const {
    std::vector<std::optional<io::ChainSpec>> chains;
    for (std::size_t i = 0; i < plan.layers.size(); ++i)
      chains.push_back(plan.layers[i].form == PlannedForm::keep_dense
                           ? std::nullopt
                           : std::optional(chain_of(plan.layers[i], candidates()[i])));
    return chains;
  }

  std::uint64_t file_bytes(const Plan& plan) const {
    // Two entries in the header.
    const auto entries = [](const LayerPlan& layer) { return 2 * (layer.name.size() + 110); };
    return planned_file_bytes(owner.folder_, candidates(), chains_of(plan), owner.calibration()) +
           third_cores(plan, entries);
  }

  std::optional<std::uint64_t> counted_bytes(const Plan& plan) const {
    if (!owner.settings_.goal.counted) return std::nullopt;
    std::vector<io::ChainSpec> chains;
    for (const std::optional<io::ChainSpec>& chain : chains_of(plan))
      if (chain) chains.push_back(*chain);
    // Each layer's name is in two initialisers, three nodes and a shape. A graph stores one position per output where
    // the weights store one per rank; the search has already counted the latter.
    const auto nodes = [](const LayerPlan& layer) {
      return 14 * layer.name.size() + 600 + 8 * static_cast<std::uint64_t>(layer.rank);
    };
    return owner.settings_.goal.counted(chains) + third_cores(plan, nodes);
  }

  // Bytes of the file to which ratios and budgets apply.
  std::uint64_t bytes_of(const Plan& plan) const {
    const std::optional<std::uint64_t> counted = counted_bytes(plan);
    return counted ? *counted : file_bytes(plan);
  }
  std::uint64_t dense_bytes() const {
    return owner.settings_.goal.counted ? owner.settings_.goal.counted({}) : owner.folder_.bytes();
  }

  // Without calibration text: if smaller tables alone meet the budget, all linear layers stay dense. Empty if a linear
  // layer would also have to be compressed, or if a table would lose more than most_that_a_table_gives of its squared
  // norm. No layer goes below its floor.
  std::optional<tt::Allocation> paid_by_tables(std::int64_t budget) const {
    if (owner.moments_) return std::nullopt;
    std::vector<tt::LossCurve> open = open_curves();
    std::vector<bool> tables;
    for (std::size_t i = 0; i < first.size(); ++i)
      if (first[i].form != PlannedForm::keep_dense) tables.push_back(candidates()[i].table);
    for (std::size_t l = 0; l < open.size(); ++l)
      if (tables[l]) open[l].weight = 1e-9;
    tt::Allocation allocation = tt::water_fill(open, budget, owner.settings_.floor);
    for (std::size_t l = 0; l < open.size(); ++l)
      if (tables[l] ? allocation.layers[l].loss > most_that_a_table_gives : !allocation.layers[l].dense)
        return std::nullopt;
    return allocation;
  }

  // The allotment of each layer, and the reason why layers stay dense if it is not their size.
  std::pair<tt::Allocation, const char*> shared(std::int64_t budget) const {
    if (owner.settings_.uniform || !looks_at_spectra()) return {tt::by_share(open_curves(), budget), nullptr};
    if (std::optional<tt::Allocation> paid = paid_by_tables(budget))
      return {std::move(*paid), "smaller embeddings alone meet this size"};
    return {tt::water_fill(open_curves(), budget, owner.settings_.floor), nullptr};
  }

  // Allots the rest of `budget` to the layers, repeatedly, until the whole file fits.
  Plan within(std::uint64_t budget, double ratio) const {
    Plan plan{first, ratio};
    const std::uint64_t least = bytes_of(settled(smallest(), plan));
    if (least > budget) {
      const auto dense = static_cast<double>(dense_bytes());
      fail_input(
          "[tensorize] {}: {} bytes are wanted, but with rank 1 everywhere {} are left, a ratio of {:.2f}; that is the "
          "most for these weights",
          owner.folder_.path(), budget, least, std::floor(100 * dense / static_cast<double>(least)) / 100);
    }
    std::int64_t layers_budget =
        static_cast<std::int64_t>(budget) - static_cast<std::int64_t>(least) + smallest().bytes;
    for (int round = 0;; ++round) {
      layers_budget = std::max(layers_budget, tt::smallest_bytes(open_curves()));
      const auto [allocation, reason] = shared(layers_budget);
      Plan settled_plan = settled(allocation, plan);
      for (std::size_t i = 0; i < first.size() && reason && compresses(settled_plan); ++i)
        if (first[i].form != PlannedForm::keep_dense && settled_plan.layers[i].form == PlannedForm::keep_dense)
          settled_plan.layers[i].reason = reason;
      const std::uint64_t bytes = bytes_of(settled_plan);
      if (bytes <= budget || round == 8) return settled_plan;
      layers_budget -= static_cast<std::int64_t>(bytes - budget);  // headers are longer than those of rank 1
    }
  }

  static bool compresses(const Plan& plan) {
    return std::any_of(plan.layers.begin(), plan.layers.end(),
                       [](const LayerPlan& layer) { return layer.form != PlannedForm::keep_dense; });
  }

  std::vector<tt::LossCurve> open_curves() const {
    std::vector<tt::LossCurve> open;
    for (std::size_t i = 0; i < first.size(); ++i)
      if (first[i].form != PlannedForm::keep_dense) open.push_back(curves[i]);
    return open;
  }

  tt::Allocation smallest() const { return tt::by_rank(open_curves(), 1); }

  Plan settled(const tt::Allocation& allocation, Plan plan) const {
    std::size_t next = 0;
    for (std::size_t i = 0; i < first.size(); ++i)
      if (first[i].form != PlannedForm::keep_dense)
        settle(plan.layers[i], candidates()[i], curves[i], allocation.layers[next++]);
    return plan;
  }

  // The same rank everywhere, less if a layer does not allow it. Dense if that is smaller or faster.
  tt::Allocation with_rank(std::int64_t rank) const {
    tt::Allocation allocation;
    for (std::size_t i = 0; i < first.size(); ++i) {
      if (first[i].form == PlannedForm::keep_dense) continue;
      const Candidate& candidate = candidates()[i];
      LayerPlan plan = first[i];
      const bool ruled = plan.rank > 0;
      if (!ruled) plan.rank = std::min(rank, std::min(candidate.in(), candidate.out()));
      const bool slower = plan.rank > break_even_rank(candidate) && !owner.settings_.allow_slower;
      const bool dense = !ruled && (slower || planned_bytes(plan, candidate) >= candidate.bytes());
      allocation.layers.push_back({dense, plan.rank, 0, 0});
    }
    return allocation;
  }

  Plan by_goal(double ratio) const {
    const Goal& goal = owner.settings_.goal;
    if (goal.rank) return settled(with_rank(*goal.rank), {first, 0});
    if (goal.tolerance) return settled(tt::by_tolerance(open_curves(), *goal.tolerance), {first, 0});
    if (goal.budget) return within(*goal.budget, 0);
    return within(static_cast<std::uint64_t>(static_cast<double>(dense_bytes()) / ratio), ratio);
  }
};

Tensorizer::Tensorizer(Settings settings, kernels::ThreadPool& pool, std::unique_ptr<InputMoments> moments)
    : settings_(std::move(settings)), pool_(pool), moments_(std::move(moments)), folder_(settings_.model) {
  check_input();
  candidates_ = find_candidates(folder_, settings_.choice);
  make_plans();
}

Tensorizer::~Tensorizer() = default;

void Tensorizer::check_input() {
  if (settings_.exact_rows > 0 && !moments_)
    fail_input(
        "[tensorize] --exact-rows {}: exact rows are chosen by look-up counts of text; give text with --calibrate, or "
        "leave it out",
        settings_.exact_rows);
  block_ = io::parse_comera_block(folder_.config(), folder_.config_path());
  io::describe(folder_);  // throws if cores belong to no chain
  if (block_ && !block_->chains.empty() && !settings_.again)
    fail_input(
        "[tensorize] {}: is tensorized already, {} of its weights are chains; use --again to compress what is still "
        "dense",
        folder_.path(), block_->chains.size());
}

void Tensorizer::make_plans() {
  const tt::UsePool use(pool_);
  const auto add = [&](Plan plan, const Work& work, std::size_t index) {
    const std::uint64_t bytes = work.file_bytes(plan);
    const std::optional<std::uint64_t> counted = work.counted_bytes(plan);
    plans_.push_back({std::move(plan), output_of(settings_, index), settings_.graph ? *counted : bytes,
                      settings_.graph ? std::nullopt : counted});
  };
  Work work(*this);
  if (!settings_.goal.plan_file.empty()) {
    Plan plan =
        parse_plan(read_file(settings_.goal.plan_file, io::largest_plan), settings_.goal.plan_file, candidates_);
    settle_exact_rows(plan.layers, moments_.get());
    return add(std::move(plan), work, 0);
  }
  settle_exact_rows(work.first, moments_.get());
  work.look();
  const std::size_t count = std::max<std::size_t>(1, settings_.goal.ratios.size());
  for (std::size_t i = 0; i < count; ++i)
    add(work.by_goal(settings_.goal.ratios.empty() ? 0 : settings_.goal.ratios[i]), work, i);
}

CalibrationNeeds Tensorizer::calibration_needs() const {
  std::uint64_t largest = 0, input = 0, stream = 0, linear = 0;
  for (const io::ModelFolder::Entry& entry : folder_.entries())
    largest = std::max(largest, static_cast<std::uint64_t>(entry.tensor.elements()));
  for (const Candidate& candidate : candidates_) {
    if (candidate.table) continue;
    input = std::max(input, static_cast<std::uint64_t>(candidate.in()));
    stream = std::max(stream, static_cast<std::uint64_t>(std::min(candidate.in(), candidate.out())));
    linear += static_cast<std::uint64_t>(candidate.elements());
  }
  // moments: xᵀ x of fitted, choosing and judging text, of the widest layer and of the layers measured with it; xᵀ y of
  // two of the three parts. factors: the memory of the factorisation.
  const std::uint64_t moments = input * (6 * input + 2 * stream), factors = 2 * input * input + 4 * input * stream;
  // The block outputs of every token, including the held-out quarter: the residual stream and its norm, of the dense
  // model and of the model as compressed so far.
  const std::uint64_t outputs =
      4 * stream * static_cast<std::uint64_t>(enough_tokens(static_cast<std::int64_t>(input)) * 4 / 3);
  return {sizeof(float) * largest + sizeof(double) * (moments + factors), sizeof(float) * (outputs + linear)};
}

namespace {

std::vector<io::ChainSpec> chains_of(const std::vector<LayerOutcome>& layers) {
  std::vector<io::ChainSpec> chains;
  for (const LayerOutcome& layer : layers)
    if (layer.chain) chains.push_back(*layer.chain);
  return chains;
}

}  // namespace

// A run that compresses nothing would only copy the model.
void Tensorizer::require_work() const {
  for (const Planned& planned : plans_) {
    if (Work::compresses(planned.plan)) continue;
    if (settings_.goal.budget && folder_.bytes() <= *settings_.goal.budget)
      fail_input("[tensorize] {}: its weights take {}, no more than --budget allows; nothing is left to do",
                 folder_.path(), format_bytes(folder_.bytes()));
    const LayerPlan& layer = planned.plan.layers.front();
    fail_input(
        "[tensorize] {}: every weight would stay dense ({}: {}); look at --dry-run, and ask for fewer bytes or a "
        "smaller rank",
        folder_.path(), layer.name, layer.reason.empty() ? "the plan leaves it out" : layer.reason);
  }
}

std::vector<Result> Tensorizer::run() {
  require_work();
  const StopAnswer answer("stopping; what is done is kept, and the same command goes on there; again to quit now",
                          true);
  const tt::UsePool use(pool_);
  const double start = wall_seconds();
  WorkFolder work(settings_.output, key_of(settings_, folder_, moments_.get()));
  std::vector<Result> results;
  try {
    // Checked under the lock, because another process may have written the folder since.
    if (path_exists(settings_.output) && !is_empty_folder(settings_.output))
      fail_input("[tensorize] {}: exists already; name another folder, or remove it first", settings_.output);
    results = finish(work, start);
  } catch (const InputError&) {
    work.remove();  // the same input would fail again
    throw;
  }
  work.remove();
  return results;
}

std::optional<MomentsInfo> Tensorizer::calibration() const {
  if (!moments_) return std::nullopt;
  MomentsInfo info = moments_->info();
  info.sequential = settings_.sequential;
  return info;
}

std::vector<Result> Tensorizer::finish(WorkFolder& work, double start) {
  std::vector<std::vector<LayerOutcome>> outcomes =
      run_plans({folder_, candidates_, plans_, moments_.get(), settings_.sequential}, work);
  std::vector<Result> results;
  std::optional<AtomicFolder> all;  // parent folder of several ratios: they appear together
  if (plans_.size() > 1) all.emplace(settings_.output);
  for (std::size_t p = 0; p < plans_.size(); ++p) {
    Result result;
    result.source = settings_.model;
    result.output = plans_[p].output;
    result.asked_ratio = plans_[p].plan.ratio;
    result.graph = settings_.graph;
    result.layers = std::move(outcomes[p]);
    result.calibration = calibration();
    const auto path_of = [&](std::size_t layer) { return work.layer_path(p, layer); };
    const std::string place = all ? join_path(all->temporary(), base_name(result.output)) : result.output;
    result.files = assemble(folder_, block_, candidates_, result.layers, path_of, result.calibration, place);
    result.file_bytes = io::ModelFolder(place).bytes();
    result.file_bytes_dense = folder_.bytes();
    if (settings_.goal.counted && !settings_.graph)
      result.counted_bytes = settings_.goal.counted(chains_of(result.layers));
    result.seconds = wall_seconds() - start;
    results.push_back(std::move(result));
  }
  if (all) all->commit_new();
  return results;
}

}  // namespace comera::compress
