#include "lib/compress/tensorize.h"

#include <fmt/core.h>

#include <algorithm>

#include "lib/compress/calibration/block_flows.h"
#include "lib/compress/fit/fitting.h"
#include "lib/compress/fit/measuring.h"
#include "lib/compress/needs.h"
#include "lib/compress/plan/allotting.h"
#include "lib/compress/plan/exact_rows.h"
#include "lib/compress/plan/plan_file.h"
#include "lib/compress/plan/planning.h"
#include "lib/compress/refine/certify_again.h"
#include "lib/compress/refine/refinement_needs.h"
#include "lib/compress/refine/where_it_pays.h"
#include "lib/core/error.h"
#include "lib/core/hash.h"
#include "lib/core/join.h"
#include "lib/core/process.h"
#include "lib/core/terminal/log.h"
#include "lib/core/terminal/stop.h"
#include "lib/core/units.h"
#include "lib/io/json_file.h"
#include "models/architecture.h"

namespace comera::compress {
namespace {

std::string output_of(const Settings& settings, std::size_t index) {
  const Goal& goal = settings.goal;
  if (goal.ratios.size() + goal.budgets.size() < 2) return settings.output;
  return join_path(settings.output, goal.budgets.empty() ? fmt::format("ratio-{}", format_real(goal.ratios[index]))
                                                         : fmt::format("budget-{}", goal.budgets[index]));
}

// All settings that determine the result, in one line.
std::string key_of(const Settings& s, const io::ModelFolder& folder, const InputMoments* moments) {
  std::string text =
      fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {} {}", io::format_version, fingerprint(folder), name_of(s.form),
                  s.order.value_or(0), s.table_order, s.gauge, s.uniform, s.allow_slower, s.floor, s.again,
                  s.sequential, s.exact_rows.value_or(-1), join(s.choice.include, ","), join(s.choice.exclude, ","));
  for (const LayerRule& rule : s.rules) text += " " + rule.text;
  text += fmt::format(" {} {} {} {}", s.sweeps, s.corrections, s.factors, static_cast<int>(s.made_for));
  if (s.refinement.on())
    text += fmt::format(" refine {} {} {}", static_cast<int>(s.refinement.when), s.refinement.steps, s.refinement.rate);
  for (const quant::Grid grid : s.grids) text += fmt::format(" {}", quant::name_of(grid));
  for (const std::uint64_t budget : s.goal.budgets) text += fmt::format(" {}", budget);
  text += fmt::format(" {} {} {} {}", join(s.goal.ratios, ","), s.goal.rank.value_or(0), s.goal.tolerance.value_or(0),
                      s.goal.plan_file.empty() ? "" : hash_file(s.goal.plan_file));
  for (const auto& file : {s.final_file, s.goal.counted})
    if (file) text += fmt::format(" {}", file->dense_bytes());
  if (moments)
    text += fmt::format(" {} {} {}", moments->info().hash, moments->info().sequences, moments->info().clips_tokens);
  return hash_text(text) + "\n";
}

LayerErrors errors_of(const std::vector<double>& errors) {
  LayerErrors all{std::ssize(errors), 0, 0};
  for (const double error : errors) {
    all.mean += error / static_cast<double>(errors.size());
    all.worst = std::max(all.worst, error);
  }
  return all;
}

}  // namespace

bool Result::measures_outputs() const {
  return std::ranges::any_of(layers, [](const LayerOutcome& layer) { return layer.output_error.has_value(); });
}

LayerErrors Result::errors() const {
  const bool outputs = measures_outputs();
  std::vector<double> errors;
  for (const LayerOutcome& layer : layers)
    if (!layer.chain)
      errors.push_back(0);
    else if (!outputs)
      errors.push_back(layer.rel_error);
    else if (layer.output_error)
      errors.push_back(*layer.output_error);
  return errors_of(errors);
}

LayerErrors Result::unmeasured_errors() const {
  std::vector<double> errors;
  if (measures_outputs())
    for (const LayerOutcome& layer : layers)
      if (layer.chain && !layer.output_error) errors.push_back(layer.rel_error);
  return errors_of(errors);
}

Tensorizer::Tensorizer(Settings settings, kernels::ThreadPool& pool, std::unique_ptr<InputMoments> moments)
    : settings_(std::move(settings)),
      pool_(pool),
      moments_(std::move(moments)),
      folder_(settings_.model, settings_.adapter) {
  check_input();
  // Without bits a decoder of words stays dense unless --include or a plan names it.
  settings_.choice.heads = !settings_.grids.empty() || !settings_.goal.plan_file.empty();
  jobs_ = find_jobs(folder_, settings_.choice);
  settle_refinement();
  weights_files_.emplace(folder_, calibration(), settings_.refinement.on());
  const double start = wall_seconds();
  make_plans();
  planning_seconds_ = wall_seconds() - start;
}

Tensorizer::~Tensorizer() = default;

void Tensorizer::check_input() {
  if (settings_.exact_rows.value_or(0) > 0 && !moments_)
    fail_input(
        "[tensorize] --exact-rows {}: exact rows are chosen by look-up counts of text; give text with --calibrate, or "
        "leave it out",
        *settings_.exact_rows);
  block_ = io::parse_comera_block(folder_.config(), folder_.config_path());
  io::describe(folder_);  // throws if cores belong to no chain
  if (block_ && !block_->chains.empty() && !settings_.again)
    fail_input(
        "[tensorize] {}: is tensorized already, {} of its weights are chains; use --again to compress what is still "
        "dense",
        folder_.path(), block_->chains.size());
}

// Decides whether blocks are refined if that is left to the program.
void Tensorizer::settle_refinement() {
  Refinement& refinement = settings_.refinement;
  if (!refinement.on()) return;
  if (refinement.when == Refinement::When::where_it_pays) {
    const bool possible = moments_ && moments_->flows() && settings_.sequential && !settings_.again;
    const double seconds = possible ? refinement_seconds(jobs_, refinement) : 0;
    if (seconds > Refinement::most_seconds) seconds_left_out_ = seconds;
    if (!possible || seconds_left_out_) refinement.when = Refinement::When::never;
    return;
  }
  if (!moments_ || !moments_->flows())
    fail_input("[tensorize] --refine: blocks are trained on text; give text with --calibrate, or leave it out");
  if (!settings_.sequential)
    fail_input(
        "[tensorize] --refine: a block is trained on the outputs of the compressed blocks before it; leave out "
        "--no-sequential or --refine");
  if (settings_.again)
    fail_input(
        "[tensorize] --refine: the chains of a model that is tensorized already stay as they are; leave out --again or "
        "--refine");
}

void Tensorizer::make_plans() {
  const tt::UsePool use(pool_);
  const Goal& goal = settings_.goal;
  plan_layers(jobs_, settings_, moments_ != nullptr);
  if (!goal.plan_file.empty()) {
    const double ratio = read_plan_file(read_file(goal.plan_file, io::largest_plan), goal.plan_file, jobs_);
    for (LayerJob& job : jobs_) {
      LayerPlan& plan = job.sizes[0].plan;
      plan.sweeps = settings_.sweeps;
      if (plan.form == PlannedForm::grid && plan.rank > 0 && (!moments_ || job.candidate.table))
        fail_input("{}: layer {}: a correction of rank {} {}", goal.plan_file, printable(plan.name), plan.rank,
                   job.candidate.table ? "is for linear layers; set the rank of a table to 0"
                                       : "is fitted to text; add --calibrate");
      require_storable(plan, job.candidate, settings_.made_for,
                       fmt::format("{}: layer {}", goal.plan_file, printable(plan.name)));
      settle_exact_rows({&plan}, moments_.get());
      job.first = plan;
    }
    return add_size(ratio);
  }
  std::vector<LayerPlan*> plans;
  for (LayerJob& job : jobs_) plans.push_back(&*job.first);
  settle_exact_rows(plans, moments_.get());
  const Request request{settings_, folder_, moments_.get(), counted()};
  require_possible(jobs_, request);
  measure_layers(jobs_, request);
  for (const std::optional<std::uint64_t>& budget : goal.size_budgets(request.counted.dense_bytes())) {
    allot_size(jobs_, request, budget);
    add_size(goal.ratios.empty() ? 0 : goal.ratios[sizes_.size()]);
  }
}

// The newest size of the jobs.
void Tensorizer::add_size(double ratio) {
  const std::size_t size = sizes_.size();
  const auto bytes = [&](const CountedFile& file) { return planned_bytes(file, jobs_, size, moments_ != nullptr); };
  sizes_.push_back({ratio, output_of(settings_, size), bytes(final_file()), std::nullopt});
  if (settings_.goal.counted) sizes_.back().counted_bytes = bytes(*settings_.goal.counted);
}

CalibrationNeeds Tensorizer::calibration_needs() const {
  const Refinement::When when = settings_.refinement.when;
  const std::uint64_t refinement = settings_.refinement.on() ? refinement_bytes(*moments_->flows(), jobs_, when) : 0;
  const bool runs = moments_ && moments_->flows();
  const models::Spec* model = runs ? &models::common(moments_->flows()->spec()) : nullptr;
  return compress::calibration_needs(jobs_, folder_, model, std::max<std::size_t>(sizes_.size(), 1), refinement);
}

TimeNeeds Tensorizer::time_needs() const {
  TimeNeeds needs = sampled_times(jobs_, sizes_.size(), settings_, moments_.get(), pool_);
  needs.plan = planning_seconds_;
  return needs;
}

// A run that compresses nothing would only copy the model.
void Tensorizer::require_work() const {
  for (std::size_t size = 0; size < sizes_.size(); ++size) {
    if (any_chain(jobs_, size)) continue;
    if (!settings_.goal.budgets.empty() && folder_.bytes() <= settings_.goal.budgets[size])
      fail_input("[tensorize] {}: its weights take {}, no more than --budget {} allows; nothing is left to do",
                 folder_.path(), format_bytes(folder_.bytes()), settings_.goal.budgets[size]);
    const LayerPlan& layer = jobs_.front().sizes[size].plan;
    fail_input(
        "[tensorize] {}: every weight would stay dense ({}: {}); look at --dry-run, and ask for fewer bytes, a smaller "
        "rank or a larger tolerance",
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
  refined_ = fit_layers(jobs_, {folder_, moments_.get(), settings_.sequential, settings_.refinement}, work);
  std::vector<Result> results;
  std::optional<AtomicFolder> all;  // parent folder of several sizes: they appear together
  if (sizes_.size() > 1) all.emplace(settings_.output);
  for (std::size_t size = 0; size < sizes_.size(); ++size) {
    const std::string& output = sizes_[size].output;
    std::vector<std::string> vectors;
    for (const BlockOutcome& block : refined_[size])
      if (block.kept) vectors.push_back(work.block_path(size, block.block));
    if (!vectors.empty()) certify_again(jobs_, size, folder_, *moments_, vectors);
    results.push_back(store(size, vectors, all ? join_path(all->temporary(), base_name(output)) : output));
    results.back().seconds = wall_seconds() - start;
  }
  if (all) all->commit_new();
  return results;
}

Result Tensorizer::store(std::size_t size, const std::vector<std::string>& vectors, const std::string& place) {
  Result result;
  result.source = settings_.model;
  result.output = sizes_[size].output;
  result.asked_ratio = sizes_[size].ratio;
  result.format = settings_.format;
  result.calibration = calibration();
  result.files = assemble(jobs_, size, {folder_, block_, vectors, settings_.reading}, result.calibration, place);
  result.blocks = refined_[size];
  const auto gains = [](const io::ChainSpec& chain) {
    return !chain.table() && is_trained(chain, Refinement::When::where_it_pays);
  };
  if (std::ranges::any_of(chains_at(jobs_, size), gains)) result.refinement_seconds = seconds_left_out_;
  result.layers = outcomes_at(jobs_, size);
  const io::ModelFolder made(place);
  result.file_bytes = made.bytes();
  for (const io::TensorForm& weight : io::describe(made))
    result.parameters += weight.parameters, result.parameters_dense += weight.parameters_dense;
  result.file_bytes_dense = folder_.bytes();
  if (settings_.goal.counted) result.counted_bytes = settings_.goal.counted->bytes(jobs_, size);
  return result;
}

}  // namespace comera::compress
