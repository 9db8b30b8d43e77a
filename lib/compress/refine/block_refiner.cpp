#include "lib/compress/refine/block_refiner.h"

#include <algorithm>

#include "lib/compress/fit/fit_layer.h"
#include "lib/compress/fit/stored_cores.h"
#include "lib/compress/refine/block_layers.h"
#include "lib/compress/refine/where_it_pays.h"
#include "lib/core/error.h"
#include "lib/core/hash.h"
#include "lib/core/process.h"
#include "lib/core/terminal/log.h"
#include "lib/core/units.h"
#include "models/lone_block.h"

namespace comera::compress {
namespace {

// A bias, or the gain or shift of a norm.
bool is_vector(const layers::Parameter& parameter) {
  return !parameter.fixed && parameter.role != layers::Role::core && !BlockUpdateRule::is_on_grid(parameter);
}

// The layers whose factors, cores, or codes and scales, are trained.
std::vector<std::string> trained_layers(BlockTrainer& trainer) {
  std::vector<std::string> names;
  for (const layers::ChainParameters& chain : trainer.model().chains())
    if (!chain.cores.empty()) names.push_back(chain.name);
  for (const layers::Parameter& parameter : trainer.model().parameters().all())
    if (BlockUpdateRule::is_on_grid(parameter)) names.push_back(layer_of(parameter));
  return names;
}

quant::Quantised stored_base(const LayerAtSize& at) {
  const io::ChainSpec& chain = *at.outcome->chain;
  const io::SafetensorsFile file(at.file);
  const auto bytes = file.bytes(*file.find(chain.base_name()));
  return {*chain.base, chain.base_lines(), chain.base_numbers(), {bytes.begin(), bytes.end()}};
}

}  // namespace

BlockRefiner::BlockRefiner(std::vector<LayerJob>& jobs, const io::ModelFolder& folder, InputMoments& moments,
                           const Refinement& settings, WorkFolder& work)
    : folder_(folder), moments_(moments), flows_(*moments.flows()), settings_(settings), work_(work) {
  for (LayerJob& job : jobs) jobs_[job.candidate.name] = &job;
}

std::optional<BlockOutcome> BlockRefiner::refine(std::size_t block, std::size_t size) {
  if (static_cast<std::int64_t>(block) >= models::common(flows_.spec()).layers) return std::nullopt;
  const std::vector<std::string> linears = linears_of_block(flows_.spec(), static_cast<std::int64_t>(block));
  if (std::none_of(linears.begin(), linears.end(), [&](const auto& name) { return is_refined(name, size); }))
    return std::nullopt;
  flows_.open(block, size);
  BlockTrainer trainer(flows_, spec_of(linears, size), block);
  load(trainer, size);
  BlockOutcome outcome;
  if (const std::optional<io::Json> record = work_.block(size, block)) {
    outcome = block_outcome_from(*record, work_.block_path(size, block));
  } else {
    outcome = train(trainer, block, size);
    save(trainer, outcome, size);
  }
  if (!outcome.kept) return outcome;  // the model runs on as it did
  adopt(trainer, linears, block, size);
  trainer.give_outputs();
  return outcome;
}

LayerJob* BlockRefiner::compressed(const std::string& linear, std::size_t size) const {
  const auto found = jobs_.find(linear);
  if (found == jobs_.end()) return nullptr;
  const std::optional<LayerOutcome>& outcome = found->second->sizes[size].outcome;
  return outcome && outcome->chain ? found->second : nullptr;
}

bool BlockRefiner::is_refined(const std::string& linear, std::size_t size) const {
  const LayerJob* job = compressed(linear, size);
  return job && is_trained(*job->sizes[size].outcome->chain, settings_.when);
}

models::ModelSpec BlockRefiner::spec_of(const std::vector<std::string>& linears, std::size_t size) const {
  models::ModelSpec spec = flows_.spec();
  auto& forms = models::common(spec).forms;
  forms.clear();
  for (const std::string& name : linears) {
    const LayerJob* job = compressed(name, size);
    forms[name] = form_in_block(job ? &*job->sizes[size].outcome->chain : nullptr);
  }
  return spec;
}

void BlockRefiner::load(BlockTrainer& trainer, std::size_t size) const {
  layers::Model& model = trainer.model();
  for (layers::ChainParameters& chain : model.chains()) {
    const LayerAtSize& at = compressed(chain.name, size)->sizes[size];
    tt::FloatChain stored = io::read_chain(io::ModelFolder(at.file), *at.outcome->chain, {});
    chain.order = std::move(stored.order);
    chain.gauge = std::move(stored.gauge);
    for (std::size_t k = 0; k < chain.cores.size(); ++k)
      std::copy(stored.cores[k].begin(), stored.cores[k].end(), BlockTrainer::numbers(*chain.cores[k]).begin());
  }
  for (const layers::Parameter& parameter : model.parameters().all()) {
    if (parameter.role == layers::Role::core) continue;
    const LayerJob* job =
        parameter.fixed || BlockUpdateRule::is_on_grid(parameter) ? compressed(layer_of(parameter), size) : nullptr;
    if (!job) {
      flows_.read(parameter, BlockTrainer::numbers(parameter));
      continue;
    }
    const LayerAtSize& at = job->sizes[size];
    if (!parameter.fixed) {
      std::vector<float> dense(static_cast<std::size_t>(parameter.shape.elements()));
      flows_.read(parameter, dense);
      trainer.set_on_grid(parameter, stored_base(at), dense);
      continue;
    }
    const tt::FloatMatrix base = io::read_base(io::ModelFolder(at.file), *at.outcome->chain);
    std::copy(base.values.begin(), base.values.end(), BlockTrainer::numbers(parameter).begin());
  }
  trainer.changed();
}

BlockOutcome BlockRefiner::train(BlockTrainer& trainer, std::size_t block, std::size_t size) {
  const double start = wall_seconds();
  BlockOutcome outcome{.block = block};
  outcome.before = trainer.error(TextPart::choosing);
  outcome.judged_before = outcome.judged_after = trainer.error(TextPart::judging);
  trainer.train(settings_);
  trainer.free_step();
  round(trainer, size);
  outcome.after = trainer.error(TextPart::choosing);
  outcome.kept = outcome.after < outcome.before;
  if (outcome.kept) outcome.judged_after = trainer.error(TextPart::judging);
  outcome.seconds = wall_seconds() - start;
  log_info("block {}: refined, error of its outputs {:.4f}, before {:.4f}{}; {}", block + 1, outcome.after,
           outcome.before, outcome.kept ? "" : ", so it stays as fitted", format_seconds(outcome.seconds));
  return outcome;
}

io::StoredType BlockRefiner::type_of(const layers::Parameter& vector) const {
  return folder_.find(flows_.tensor_of(vector))->tensor.type;
}

// The trained numbers become those that the files will hold, so that the choice is between stored blocks.
void BlockRefiner::round(BlockTrainer& trainer, std::size_t size) const {
  for (const layers::ChainParameters& chain : trainer.model().chains()) {
    const LayerJob& job = *compressed(chain.name, size);
    const io::ChainSpec& stored = *job.sizes[size].outcome->chain;
    for (const layers::Parameter* core : chain.cores)
      store_core(BlockTrainer::numbers(*core), stored, job.candidate.type);
  }
  for (const layers::Parameter& parameter : trainer.model().parameters().all())
    if (is_vector(parameter)) store_numbers(BlockTrainer::numbers(parameter), type_of(parameter));
  trainer.round_scales();
  trainer.changed();
}

void BlockRefiner::save(BlockTrainer& trainer, const BlockOutcome& outcome, std::size_t size) {
  std::vector<Vector> vectors;
  if (outcome.kept) {
    for (const std::string& name : trained_layers(trainer)) save_layer(trainer, *compressed(name, size), size);
    for (const layers::Parameter& parameter : trainer.model().parameters().all()) {
      if (!is_vector(parameter)) continue;
      const std::string tensor = flows_.tensor_of(parameter);
      const io::ModelFolder::Entry& entry = *folder_.find(tensor);
      std::vector<std::byte> bytes = store_numbers(BlockTrainer::numbers(parameter), entry.tensor.type);
      if (!std::ranges::equal(bytes, folder_.file_of(entry).bytes(entry.tensor)))
        vectors.push_back({tensor, entry.tensor.type, std::move(bytes)});
    }
  }
  std::vector<io::TensorToWrite> tensors;
  for (const Vector& vector : vectors)
    tensors.push_back({vector.tensor, vector.type, folder_.find(vector.tensor)->tensor.shape, vector.bytes.data()});
  work_.save_block(size, outcome.block, to_json(outcome), tensors);
}

// Cores, and codes and scales, are new, everything else is as it was fitted.
void BlockRefiner::save_layer(BlockTrainer& trainer, LayerJob& job, std::size_t size) {
  const LayerAtSize& at = job.sizes[size];
  const io::SafetensorsFile fitted(at.file);
  LayerOutcome outcome = *at.outcome;
  std::vector<io::TensorToWrite> tensors = tensors_of(*outcome.chain, job.candidate.type);
  std::vector<std::vector<std::byte>> stored;
  Hasher hasher;
  const layers::Parameter* weight = trainer.model().parameters().find(job.candidate.name + ".weight");
  for (io::TensorToWrite& tensor : tensors) {
    const layers::Parameter* core = trainer.model().parameters().find(tensor.name);
    if (core) {
      stored.push_back(store_core(BlockTrainer::numbers(*core), *outcome.chain, job.candidate.type));
    } else if (weight && BlockUpdateRule::is_on_grid(*weight) && tensor.name == outcome.chain->base_name()) {
      stored.push_back(trainer.on_grid(*weight).bytes);
    } else {
      const auto bytes = fitted.bytes(*fitted.find(tensor.name));
      stored.emplace_back(bytes.begin(), bytes.end());
    }
    tensor.data = stored.back().data();
    hasher.update(stored.back().data(), stored.back().size());
  }
  outcome.chain_hash = hasher.hex();
  outcome.optimum = outcome.error_of_optimum = std::nullopt;  // it was fitted to another measure
  work_.save_refined(size, job.number, outcome, tensors);
}

// From now on jobs, model and trainer have the refined numbers.
void BlockRefiner::adopt(BlockTrainer& trainer, const std::vector<std::string>& linears, std::size_t block,
                         std::size_t size) {
  trainer.free_step();
  for (const std::string& name : trained_layers(trainer)) {
    LayerJob& job = *compressed(name, size);
    job.sizes[size].outcome = work_.refined(size, job.number);
    job.sizes[size].file = work_.refined_path(size, job.number);
  }
  load(trainer, size);
  for (const std::string& name : linears)
    if (const LayerJob* job = compressed(name, size)) follow(moments_, *job, size, size);
  const io::SafetensorsFile vectors(work_.block_path(size, block));
  for (const layers::Parameter& parameter : trainer.model().parameters().all()) {
    if (!is_vector(parameter)) continue;
    const io::StoredTensor* stored = vectors.find(flows_.tensor_of(parameter));
    if (!stored) continue;
    vectors.read_floats(*stored, BlockTrainer::numbers(parameter));
    moments_.replace_vector(stored->name, BlockTrainer::numbers(parameter), size);
  }
  trainer.changed();
}

}  // namespace comera::compress
