#include "lib/compress/check/comparison.h"

#include <fmt/core.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <map>
#include <numeric>

#include "lib/compress/calibration/calibration_text.h"
#include "lib/compress/calibration/sample_text.h"
#include "lib/compress/calibration/streamed_weights.h"
#include "lib/compress/check/agreement.h"
#include "lib/compress/tensorize.h"
#include "lib/core/error.h"
#include "lib/core/join.h"
#include "lib/core/terminal/stop.h"
#include "lib/core/terminal/task_progress.h"
#include "lib/data/files/files.h"
#include "lib/engine/engine.h"
#include "lib/layers/training/observe.h"
#include "models/architecture.h"

namespace comera::compress {
namespace {

using Version = StreamedWeights::Version;

constexpr double most_flops = 1e12;  // of one forward of both models
constexpr double most_logits = 1 << 25, logits_at_once = 1 << 23;
constexpr std::int64_t fewest_tokens = 128, most_tokens = 2048;
constexpr std::int64_t masked_every = 7;  // a masked language model predicts one token in this many

double product_flops(const models::ModelSpec& spec) {
  double numbers = 0;
  for (const models::WeightSite& site : models::weight_sites(spec))
    if (!site.table || models::common(spec).task == data::Task::clm)
      numbers += static_cast<double>(site.rows) * static_cast<double>(site.columns);
  return 2 * numbers;
}

std::int64_t enough_for(const models::ModelSpec& spec) {
  const models::Spec& common = models::common(spec);
  double tokens = most_flops / std::max(1.0, 2 * product_flops(spec));
  if (common.task == data::Task::clm) tokens = std::min(tokens, most_logits / static_cast<double>(common.vocabulary));
  return std::clamp(static_cast<std::int64_t>(tokens), fewest_tokens, most_tokens);
}

// Keeps sequences evenly from the whole text, at least one.
std::vector<Sequence> thinned(std::vector<Sequence> sequences, std::int64_t tokens) {
  std::int64_t all = 0;
  for (const Sequence& sequence : sequences) all += std::ssize(sequence.ids);
  if (all <= tokens) return sequences;
  std::vector<Sequence> kept;
  std::int64_t passed = 0, taken = 0;
  for (Sequence& sequence : sequences) {
    const std::int64_t size = std::ssize(sequence.ids);
    const bool due = static_cast<double>(taken) * static_cast<double>(all) <=
                     static_cast<double>(passed) * static_cast<double>(tokens);
    passed += size;
    if (!kept.empty() && (!due || taken + size > tokens)) continue;
    taken += size;
    kept.push_back(std::move(sequence));
  }
  if (std::ssize(kept.front().ids) > tokens) kept.front().ids.resize(static_cast<std::size_t>(tokens));
  return kept;
}

std::vector<Sequence> sample_sequences(const data::Tokenizer& tokenizer, std::int64_t length) {
  std::vector<Sequence> sequences;
  for (const std::string_view line : sample_text())
    if (std::optional<data::Ids> ids = sequence_of(line, tokenizer, length))
      sequences.push_back({std::move(*ids), TextPart::judging});
  if (sequences.empty())
    fail_input("[compare] {}: makes fewer than four pieces of every line of the sample", tokenizer.source());
  return sequences;
}

struct Text {
  std::string name;
  std::vector<Sequence> sequences;
};

Text text_for(const ComparisonText& wanted, const data::Tokenizer& tokenizer, const models::ModelSpec& spec) {
  const std::int64_t length = std::min(wanted.length, models::common(spec).positions);
  if (wanted.files.empty()) return {"the sample that is built in", sample_sequences(tokenizer, length)};
  const std::vector<std::string> files = data::resolve_files(wanted.files);
  std::string name = join(files, ", ");
  const TextPlaces places{files, wanted.columns, wanted.format,
                          wanted.chat ? data::load_chat_template(tokenizer.source()) : nullptr,
                          wanted.calibration ? "[tensorize] --calibrate" : "[evaluate] --data"};
  if (!wanted.calibration) return {name, read_sequences(places, tokenizer, {INT64_MAX, 0}, length)};
  std::vector<Sequence> sequences =
      read_sequences(places, tokenizer, {wanted.calibration_tokens, enough_tokens(widest_input(spec))}, length);
  std::erase_if(sequences, [](const Sequence& sequence) { return sequence.part != TextPart::judging; });
  return {"held-out text of " + name, std::move(sequences)};
}

// A batch of sequences, and the tokens that the model predicts.
struct Run {
  data::Batch batch;
  std::vector<std::int32_t> lengths, next;
  std::vector<std::size_t> places = {};  // of each sequence in the text
};

// Predicts every token but the first.
Run words_after(const TextBatch& text) {
  Run run;
  run.batch.sequences = text.batch.sequences, run.batch.length = text.batch.length;
  const auto ids = text.batch["input_ids"].as<const std::int32_t>();
  std::vector<std::int32_t> rows;
  for (std::int64_t b = 0; b < text.batch.sequences; ++b)
    for (std::int64_t t = 0; t + 1 < text.lengths()[static_cast<std::size_t>(b)]; ++t) {
      rows.push_back(static_cast<std::int32_t>(b * text.batch.length + t));
      run.next.push_back(ids[static_cast<std::size_t>(rows.back()) + 1]);
    }
  for (const char* name : {"input_ids", "lengths"}) {
    const auto from = text.batch[name].as<const std::int32_t>();
    std::copy(from.begin(), from.end(),
              run.batch.add(name, DType::i32, text.batch[name].shape).as<std::int32_t>().begin());
  }
  const auto samples = run.batch.add("samples", DType::i64, {text.batch.sequences}).as<std::int64_t>();
  std::fill(samples.begin(), samples.end(), 0);
  std::copy(rows.begin(), rows.end(),
            run.batch.add("logit_rows", DType::i32, {std::ssize(rows)}).as<std::int32_t>().begin());
  return run;
}

// Masks some tokens, which the model predicts.
void mask(Run& run, const data::Specials& specials) {
  if (specials.mask < 0)
    fail_input("[compare] the tokenizer has no [MASK], which the comparison of masked language models needs");
  const auto ids = run.batch["input_ids"].as<std::int32_t>(), index = run.batch["masked_index"].as<std::int32_t>(),
             targets = run.batch["masked_targets"].as<std::int32_t>();
  std::fill(index.begin(), index.end(), -1);
  std::fill(targets.begin(), targets.end(), -1);
  std::size_t count = 0;
  for (std::size_t b = 0; b < run.lengths.size(); ++b)
    for (std::int64_t t = masked_every / 2; t < run.lengths[b]; t += masked_every) {
      const auto at = b * static_cast<std::size_t>(run.batch.length) + static_cast<std::size_t>(t);
      if (specials.contains(ids[at]) || count == index.size()) continue;
      index[count] = static_cast<std::int32_t>(at);
      targets[count++] = ids[at];
      run.next.push_back(ids[at]);
      ids[at] = specials.mask;
    }
}

std::vector<Run> runs_of(std::vector<Sequence> sequences, const models::Spec& spec, const data::Specials& specials) {
  const bool follows = spec.task == data::Task::clm;
  const auto at_once =
      follows ? static_cast<std::int64_t>(logits_at_once / static_cast<double>(spec.vocabulary)) : most_tokens;
  for (Sequence& sequence : sequences) sequence.part = TextPart::judging;
  std::vector<Run> runs;
  for (TextBatch& text : batches_of(sequences, spec, std::min(at_once, most_tokens))) {
    const std::vector<std::int32_t> lengths(text.lengths().begin(), text.lengths().end());
    Run run = follows ? words_after(text) : Run{std::move(text.batch), {}, {}, {}};
    run.lengths = lengths;
    run.places = std::move(text.places);
    if (spec.task == data::Task::mlm) mask(run, specials);
    if (spec.task == data::Task::classify) run.next.assign(lengths.size(), -1);
    runs.push_back(std::move(run));
  }
  return runs;
}

// Stores the output of the last block.
class LastBlock final : public layers::InputObserver {
 public:
  LastBlock(const Run& run, std::int64_t blocks, std::vector<float>& hidden)
      : run_(run), blocks_(blocks), hidden_(hidden) {}
  void see(const std::string&, const plan::Tensor&) override {}
  void leave(std::size_t block, plan::Tensor& normed, plan::Tensor&) override {
    if (static_cast<std::int64_t>(block) + 1 != blocks_) return;
    const std::int64_t width = normed.shape[normed.shape.dims() - 1];
    const auto* numbers = static_cast<const float*>(normed.data);
    for (std::size_t b = 0; b < run_.lengths.size(); ++b) {
      const float* first = numbers + static_cast<std::int64_t>(b) * run_.batch.length * width;
      hidden_.insert(hidden_.end(), first, first + run_.lengths[b] * width);
    }
  }

 private:
  const Run& run_;
  std::int64_t blocks_;
  std::vector<float>& hidden_;
};

// A model whose matrices are read when they are used.
class Model {
 public:
  Model(const plan::Machine& machine, const std::string& folder, const std::string& adapter = "")
      : spec_(models::spec_from_folder(folder)),
        scratch_(""),
        weights_(folder, scratch_, StreamedWeights::small, adapter) {
    engine_ = std::make_unique<engine::Engine>(machine, weights_.streaming(models::factory_of(spec_, machine.dtype)),
                                               engine::EngineOptions{});
    const io::ModelFolder files(folder);
    const auto block = io::parse_comera_block(files.config(), files.config_path());
    if (block && block->threshold) engine_->model().set_threshold(*block->threshold);
    engine_->allocate();
    engine::load_weights(folder, engine_->weights(),
                         {.fresh = StreamedWeights::streams, .may_miss = {}, .adapter = adapter});
    engine_->weights_changed();
  }

  const models::ModelSpec& spec() const { return spec_; }
  StreamedWeights& weights() { return weights_; }
  layers::Model& model() { return engine_->model(); }

  Given give(const Run& run, Version version = Version::original) {
    Given given;
    LastBlock last(run, models::common(spec_).layers, given.hidden);
    weights_.show(version);
    const layers::ObserveInputs observe(last);
    const engine::Scores scores = engine_->evaluate(run.batch);
    given.embedding.assign(scores.embedding.begin(), scores.embedding.end());
    const data::Task task = models::common(spec_).task;
    const bool numbers = data::learns_labels(task) && task != data::Task::classify;
    (numbers ? given.scores : given.logits).assign(scores.logits.begin(), scores.logits.end());
    if (numbers || !given.logits.empty()) return given;
    given.best.assign(scores.best.begin(), scores.best.end());
    given.best.resize(run.next.size());
    given.loss = scores.loss;
    return given;
  }

 private:
  models::ModelSpec spec_;
  ScratchFile scratch_;
  StreamedWeights weights_;
  std::unique_ptr<engine::Engine> engine_;
};

std::shared_ptr<const data::Tokenizer> tokenizer_for(const ComparisonText& text, const std::string& folder,
                                                     const models::ModelSpec& spec) {
  if (std::holds_alternative<models::VitSpec>(spec))
    fail_input("[compare] {}: reads images; compare answers by `comera evaluate` on images", folder);
  if (std::holds_alternative<models::DlrmSpec>(spec))
    fail_input("[compare] {}: reads clicks and no text; compare two models by `comera evaluate` of each on clicks",
               folder);
  auto tokenizer = data::load_tokenizer(text.tokenizer.empty() ? folder : text.tokenizer);
  if (tokenizer->vocab_size() > models::common(spec).vocabulary)
    fail_input(
        "[compare] {}: the tokenizer has {} pieces, the model has words for {}; use the tokenizer that it was trained "
        "with",
        tokenizer->source(), tokenizer->vocab_size(), models::common(spec).vocabulary);
  return tokenizer;
}

using Give = std::function<Given(std::size_t run)>;

Comparison compared(const Text& text, const std::vector<Run>& runs, const Give& before, const Give& after) {
  const auto tokens_of = [](const Run& run) {
    return std::accumulate(run.lengths.begin(), run.lengths.end(), std::int64_t{0});
  };
  std::int64_t all = 0;
  std::size_t texts = 0;
  for (const Run& run : runs) all += tokens_of(run), texts += run.places.size();
  Agreement agreement(texts);
  TaskProgress task("comparing answers to tokens", all);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const Run& run = runs[i];
    check_stop();
    const Given first = before(i);
    check_stop();
    agreement.add(first, after(i), tokens_of(run), run.places, run.next);
    task.advance(tokens_of(run));
  }
  Comparison comparison = agreement.result();
  comparison.text = text.name;
  return comparison;
}

// Reads a stored chain and multiplies it out to the dense weight.
void read_stored(const io::ModelFolder& folder, const io::ChainSpec& chain, const layers::Parameter& parameter,
                 std::span<float> numbers) {
  const tt::FloatMatrix weight = io::read_matrix(folder, chain, {});
  if (weight.columns != parameter.shape[1] || weight.rows < parameter.shape[0])
    fail_run("[compare] {}: is {} x {} as a chain, but the model reads {} x {}", chain.name, weight.rows,
             weight.columns, parameter.shape[0], parameter.shape[1]);
  std::copy_n(weight.values.begin(), numbers.size(), numbers.begin());  // the rows after these are padding of a table
}

// The answers of the dense model to each run. Those that fit into `most_kept` are computed once for all results.
class DenseAnswers {
 public:
  DenseAnswers(Model& model, const std::vector<Run>& runs) : model_(model), runs_(runs), kept_(runs.size()) {}

  Given operator()(std::size_t run) {
    if (kept_[run]) return *kept_[run];
    Given given = model_.give(runs_[run]);
    const std::size_t bytes = sizeof(float) * given.hidden.size() +
                              sizeof(double) * (given.embedding.size() + given.logits.size() + given.scores.size()) +
                              sizeof(std::int32_t) * given.best.size();
    if (held_ + bytes > most_kept) return given;
    held_ += bytes;
    return kept_[run].emplace(std::move(given));
  }

 private:
  static constexpr std::size_t most_kept = std::size_t{1} << 28;  // bytes

  Model& model_;
  const std::vector<Run>& runs_;
  std::vector<std::optional<Given>> kept_;
  std::size_t held_ = 0;
};

Comparison cost_of(Model& model, const Text& text, const std::vector<Run>& runs, DenseAnswers& dense,
                   const Result& result) {
  const io::ModelFolder stored(result.output);
  model.weights().restore();
  for (const LayerOutcome& layer : result.layers) {
    layers::Parameter* parameter = layer.chain ? find_parameter(model.model(), layer.name) : nullptr;
    if (parameter)
      model.weights().replace(*parameter, [&stored, &layer](const layers::Parameter& wanted, std::span<float> numbers) {
        read_stored(stored, *layer.chain, wanted, numbers);
      });
  }
  const Comparison comparison = compared(
      text, runs, [&](std::size_t run) { return dense(run); },
      [&](std::size_t run) { return model.give(runs[run], Version::replaced); });
  model.weights().restore();
  return comparison;
}

}  // namespace

Comparison compare_models(const plan::Machine& machine, const std::string& before, const std::string& after,
                          const ComparisonText& wanted) {
  Model first(machine, before), second(machine, after, wanted.adapter);
  const auto tokenizer = tokenizer_for(wanted, before, first.spec()),
             other = tokenizer_for(wanted, after, second.spec());
  const models::Spec &spec = models::common(first.spec()), &other_spec = models::common(second.spec());
  if (tokenizer->hash() != other->hash())
    fail_input("[compare] {} and {} are different tokenizers; only models that read the same tokens can be compared",
               tokenizer->source(), other->source());
  if (spec.task != other_spec.task)
    fail_input("[compare] {} is for {}, {} for {}; only models of one task can be compared", before,
               data::name_of(spec.task), after, data::name_of(other_spec.task));
  Text text = text_for(wanted, *tokenizer, spec.positions <= other_spec.positions ? first.spec() : second.spec());
  const std::vector<Run> runs =
      runs_of(wanted.tokens > 0 ? thinned(text.sequences, wanted.tokens) : text.sequences, spec, tokenizer->specials());
  return compared(
      text, runs, [&](std::size_t run) { return first.give(runs[run]); },
      [&](std::size_t run) { return second.give(runs[run]); });
}

void measure_cost(const plan::Machine& machine, const std::string& model, const ComparisonText& wanted,
                  std::vector<Result>& results) {
  Comparison failed;
  try {
    Model dense(machine, model, wanted.adapter);
    const auto tokenizer = tokenizer_for(wanted, model, dense.spec());
    Text text = text_for(wanted, *tokenizer, dense.spec());
    const models::Spec& spec = models::common(dense.spec());
    const std::vector<Run> runs =
        runs_of(thinned(std::move(text.sequences), enough_for(dense.spec())), spec, tokenizer->specials());
    DenseAnswers answers(dense, runs);
    for (Result& result : results) result.cost = cost_of(dense, text, runs, answers, result);
    return;
  } catch (const Stopped&) {
    failed.left_out = "it was stopped";
  } catch (const std::exception& error) {
    failed.left_out = error.what();
  }
  for (Result& result : results)
    if (!result.cost) result.cost = failed;
}

}  // namespace comera::compress
