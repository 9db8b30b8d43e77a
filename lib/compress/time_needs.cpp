#include "lib/compress/time_needs.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "kernels/philox.h"
#include "lib/compress/calibration/block_flows.h"
#include "lib/compress/fit/grid_fit.h"
#include "lib/compress/refine/block_layers.h"
#include "lib/compress/refine/block_trainer.h"
#include "lib/compress/refine/refinement_needs.h"
#include "lib/core/process.h"
#include "lib/core/terminal/stop.h"
#include "lib/core/terminal/task_progress.h"
#include "lib/engine/engine.h"
#include "lib/quant/rounding.h"
#include "models/lone_block.h"

namespace comera::compress {
namespace {

constexpr std::int64_t sampled = 512;        // inputs and outputs of a sampled weight
constexpr std::int64_t sampled_rows = 2048;  // of a sampled table

// Passes of the text through each block: the dense model's for the targets, and two of the compressed model, which runs
// a block for its moments and again, compressed, on the way to the next one.
constexpr double passes_of_fit = 3;
// The flows of both models to the block, and errors and outputs after the steps.
constexpr double passes_of_refinement = 3;

// Numbers between -size / 2 and size / 2.
template <class Numbers>
void fill_random(Numbers&& numbers, double size) {
  std::uint64_t place = 0;
  for (auto& number : numbers) {
    const double share = static_cast<double>(kernels::mix64(++place) >> 40) / 0x1p24;
    number = static_cast<std::remove_reference_t<decltype(number)>>(size * (share - 0.5));
  }
}

template <class Work>
double seconds_of(const Work& work) {
  check_stop();
  const double start = wall_seconds();
  work();
  return wall_seconds() - start;
}

// The least of a few calls, because other programs may interrupt one; a long call is made once.
template <class Work>
double least_seconds(const Work& work) {
  constexpr double long_call = 2;
  double least = seconds_of(work);
  for (int again = 0; again < 4 && least < long_call; ++again) least = std::min(least, seconds_of(work));
  return least;
}

// Fits of weights that are alike take the same time.
using Kind = std::tuple<bool, std::int64_t, std::int64_t, PlannedForm, quant::Grid, std::int64_t>;

Kind kind_of(const LayerJob& job, std::size_t size) {
  const LayerPlan& plan = job.sizes[size].plan;
  return {job.candidate.table, job.candidate.in(), job.candidate.out(), plan.form, plan.grid, plan.rank};
}

// A decoder of words on a grid is fitted as a linear layer with an output for each word.
Candidate as_fitted(const LayerJob& job) {
  Candidate candidate = job.candidate;
  candidate.table = candidate.table && !job.reads_inputs();
  return candidate;
}

// The cost of a fit, up to a constant factor: factorisation of the moment and products with the weight; a
// table is multiplied with the moment of its columns.
double operations(const Candidate& candidate) {
  const auto in = static_cast<double>(candidate.in()), out = static_cast<double>(candidate.out());
  return candidate.table ? in * out * out : in * in * (in + out);
}

// One fit on random numbers, several at a time as in a run.
class SampledFit {
 public:
  SampledFit(const LayerJob& job, const LayerPlan& plan, bool calibrated) : candidate_(as_fitted(job)), plan_(plan) {
    const std::int64_t in = std::min(candidate_.in(), candidate_.table ? sampled_rows : sampled),
                       out = std::min(candidate_.out(), sampled);
    const bool whole = in == candidate_.in() && out == candidate_.out();
    candidate_.decodes = candidate_.also_decodes = false;
    candidate_.shape = candidate_.table || candidate_.conv1d ? io::FileShape{in, out} : io::FileShape{out, in};
    plan_.layout.exact_rows = 0;
    if (!whole) plan_.rank = std::min(plan_.rank, std::min(in, out) / 2);
    if (!whole && plan_.form != PlannedForm::grid) {  // the modes are those of the whole weight
      plan_.form = PlannedForm::lowrank;
      plan_.layout = {.gauge = plan_.layout.gauge};
      plan_.rank = std::max<std::int64_t>(plan_.rank, 1);
    }
    weight_ = tt::Matrix(in, out);
    fill_random(weight_.values, 1);
    if (!calibrated || candidate_.table) return;
    tt::FloatMatrix inputs(2 * in, in);
    fill_random(inputs.values, 1);
    tt::Matrix moment(in, in);
    tt::add_upper_gram(moment, inputs);
    tt::mirror_upper(moment);
    group_.emplace();
    group_->fit.moment = group_->held.moment = group_->judged.moment = std::move(moment);
  }

  const Candidate& candidate() const { return candidate_; }

  void run() const {
    Evidence evidence{group_ ? &*group_ : nullptr};
    LayerOutcome outcome;
    if (plan_.form == PlannedForm::grid)
      return measure_fit(candidate_, weight_, weight_, fit_on_grid(candidate_, weight_, evidence, plan_), evidence,
                         outcome);
    const LayerFactors factors(candidate_, weight_, evidence, plan_.rank);
    factors.measure(factors.fit(plan_), outcome);
  }

 private:
  Candidate candidate_;
  LayerPlan plan_;
  tt::Matrix weight_;
  std::optional<MomentGroup> group_;
};

double fit_seconds(const std::vector<LayerJob>& jobs, std::size_t sizes, bool calibrated, std::int64_t threads) {
  struct Kept {
    const LayerJob* job;
    const LayerPlan* plan;
    std::int64_t count = 0;
  };
  std::map<Kind, Kept> kinds;
  for (std::size_t size = 0; size < sizes; ++size)
    for (const LayerJob& job : jobs)
      if (!job.sizes[size].dense())
        ++kinds.try_emplace(kind_of(job, size), &job, &job.sizes[size].plan).first->second.count;
  TaskProgress task("sampling fits", std::ssize(kinds));
  double seconds = 0;
  for (const auto& [kind, kept] : kinds) {
    const SampledFit fit(*kept.job, *kept.plan, calibrated);
    const std::int64_t together = std::min(kept.count, threads);
    const double sample = seconds_of([&] { tt::each_apart(together, [&](std::int64_t) { fit.run(); }); });
    seconds += sample / static_cast<double>(together) * static_cast<double>(kept.count) *
               operations(as_fitted(*kept.job)) / operations(fit.candidate());
    task.advance();
  }
  return seconds;
}

// The blocks that are refined at this size.
std::int64_t refined_blocks(const BlockFlows& flows, const std::vector<LayerJob>& jobs, std::size_t size,
                            Refinement::When when) {
  const auto by_name = by_layer(jobs);
  std::int64_t count = 0;
  for (std::int64_t block = 0; block < models::common(flows.spec()).layers; ++block)
    count += is_refined(chains_of_block(flows.spec(), block, by_name, size), when);
  return count;
}

// A block of the model with random numbers, in the forms of the plan, and one batch for it. Only with `trains` it has
// the memory for steps.
class SampledBlock {
 public:
  SampledBlock(const BlockFlows& flows, const std::vector<LayerJob>& jobs, bool trains)
      : number_(models::common(flows.spec()).layers / 2),
        rule_(trains ? std::make_shared<BlockUpdateRule>() : nullptr) {
    jobs_ = by_layer(jobs);
    models::ModelSpec spec = flows.spec();
    models::common(spec).forms.clear();
    for (const std::string& linear : linears_of_block(spec, number_)) set_form(models::common(spec), linear);
    engine_ = engine_of_block(flows.machine(), spec, number_, rule_);
    engine_->allocate();
    set_numbers();
    make_batch(flows);
  }

  std::int64_t tokens() const { return batch_.tokens; }

  double forward_seconds() {
    engine_->evaluate(batch_);  // the first call plans its memory
    return least_seconds([&] { engine_->evaluate(batch_); });
  }
  double step_seconds() {
    rule_->measure(engine_->model().parameters());
    step(0);
    return least_seconds([&] { step(1); });
  }

 private:
  // A chain is timed as a low-rank pair of its rank.
  void set_form(models::Spec& spec, const std::string& linear) {
    const auto found = jobs_.find(linear);
    layers::WeightForm& form = spec.forms[linear] = form_in_block(nullptr);
    if (found == jobs_.end() || found->second->sizes[0].dense()) return;
    const LayerJob& job = *found->second;
    const LayerPlan& plan = job.sizes[0].plan;
    const bool grid = plan.form == PlannedForm::grid;
    io::ChainSpec pair;
    if (grid) pair.base = plan.grid;
    const std::int64_t rank = grid ? plan.rank : std::max<std::int64_t>(plan.rank, 1);
    pair.layout = tt::tt_layout({job.candidate.in()}, {job.candidate.out()}, {1, rank, 1});
    pair.initial_ranks = pair.layout.ranks;
    form = form_in_block(&pair);
    if (grid && rank == 0) grids_[linear] = plan.grid;
  }

  void set_numbers() {
    for (const layers::Parameter& parameter : engine_->model().parameters().all()) {
      const auto count = static_cast<std::size_t>(parameter.shape.elements());
      if (!rule_ || !BlockUpdateRule::is_on_grid(parameter)) {
        fill_random(std::span(static_cast<float*>(parameter.value.data), count), 0.1);
        continue;
      }
      std::vector<float> numbers(count);
      fill_random(numbers, 0.1);
      const tt::Matrix weight(parameter.shape[0], parameter.shape[1], {numbers.begin(), numbers.end()});
      rule_->set_grid(parameter, quant::round_linear(weight, grids_.at(layer_of(parameter))), numbers);
    }
    engine_->weights_changed();
  }

  // The longest batch of the text, with random numbers.
  void make_batch(const BlockFlows& flows) {
    const auto& text = std::ranges::max_element(flows.batches(), {}, [](const TextBatch& batch) {
                         return batch.batch.sequences * batch.batch.length;
                       })->batch;
    batch_.sequences = text.sequences, batch_.length = text.length;
    for (const char* name : {"lengths", "samples"}) {
      const TensorView from = text[name], to = batch_.add(name, from.dtype, from.shape);
      std::copy_n(static_cast<const std::byte*>(from.data), from.bytes(), static_cast<std::byte*>(to.data));
    }
    const auto lengths = batch_["lengths"].as<const std::int32_t>();
    batch_.counted = batch_.tokens = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
    const std::int64_t rows = text.sequences * text.length, hidden = models::common(flows.spec()).hidden;
    for (const char* name : {models::block_input, models::block_target})
      fill_random(batch_.add(name, DType::f32, {rows, hidden}).as<float>(), 1);
  }

  void step(std::int64_t number) {
    rule_->begin(number, 1e-4);
    engine_->begin_step(0, {.step = number});
    engine_->train(std::span(&batch_, 1));
  }

  std::int64_t number_;
  std::map<std::string, const LayerJob*> jobs_;  // by layer
  std::map<std::string, quant::Grid> grids_;     // of weights whose codes are trained
  std::shared_ptr<BlockUpdateRule> rule_;
  std::unique_ptr<engine::Engine> engine_;
  data::Batch batch_;
};

// Seconds of the sums of moments and products per token. Half of the layers share their inputs with another one.
double sums_per_token(const std::vector<LayerJob>& jobs, std::size_t size) {
  tt::FloatMatrix x(tokens_of_batch, sampled);
  fill_random(x.values, 1);
  tt::Matrix sum(sampled, sampled);
  const double gram = seconds_of([&] { tt::add_upper_gram(sum, x); }),
               product = seconds_of([&] { tt::add_product_tn(sum, x, x); });
  double squares = 0, weights = 0;
  for (const LayerJob& job : jobs) {
    if (!job.reads_inputs() || job.sizes[size].dense()) continue;
    const auto in = static_cast<double>(job.candidate.in());
    squares += 0.6 * in * in;
    weights += 0.3 * static_cast<double>(job.candidate.elements());  // those that add to the residual stream
  }
  return (squares * gram + weights * product) / static_cast<double>(sampled * sampled * tokens_of_batch);
}

}  // namespace

TimeNeeds sampled_times(const std::vector<LayerJob>& jobs, std::size_t sizes, const Settings& settings,
                        InputMoments* moments, kernels::ThreadPool& pool) {
  const tt::UsePool use(pool);
  TimeNeeds needs;
  needs.fits = fit_seconds(jobs, sizes, moments != nullptr, pool.threads());
  if (!moments || !moments->flows()) return needs;
  const double tokens = static_cast<double>(moments->info().all_tokens()),
               blocks = static_cast<double>(models::common(moments->flows()->spec()).layers),
               count = static_cast<double>(sizes);
  moments->flows()->free_step();
  SampledBlock block(*moments->flows(), jobs, settings.refinement.on());
  const double pass = blocks * tokens * block.forward_seconds() / static_cast<double>(block.tokens());
  needs.text = count * ((settings.sequential ? passes_of_fit : 1) * pass + tokens * sums_per_token(jobs, 0));
  std::int64_t refined = 0;
  for (std::size_t size = 0; size < sizes && settings.refinement.on(); ++size)
    refined += refined_blocks(*moments->flows(), jobs, size, settings.refinement.when);
  if (refined > 0)
    needs.refinement =
        static_cast<double>(refined) *
        (passes_of_refinement * pass / blocks + static_cast<double>(settings.refinement.steps) * block.step_seconds());
  return needs;
}

}  // namespace comera::compress
