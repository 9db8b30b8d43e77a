#include "lib/compress/calibration.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "lib/core/error.h"
#include "lib/core/hash.h"
#include "lib/core/log.h"
#include "lib/data/byte_stream.h"
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

constexpr std::int64_t batch_tokens = 2048;
constexpr std::int64_t held_out_every = 4;  // of the sequences
constexpr std::int64_t tokens_per_input = 10;
constexpr std::int64_t probe_tokens = 1024;                      // at least, for effects: one batch
constexpr std::uint64_t largest_chunk = std::uint64_t{1} << 30;  // bytes of moments at a time

struct Sequence {
  data::Ids ids;
  bool held = false;
};

// A batch with the number of tokens of each row that count.
struct TextBatch {
  data::Batch batch;
  bool held = false;
};

// Sequences of like length together, so that little is padded; fitted and held-out ones never in one batch.
std::vector<TextBatch> batches_of(std::vector<Sequence> sequences, const models::Spec& spec) {
  std::stable_sort(sequences.begin(), sequences.end(),
                   [](const Sequence& a, const Sequence& b) { return a.held != b.held ? b.held : a.ids.size() < b.ids.size(); });
  std::vector<TextBatch> batches;
  for (std::size_t first = 0; first < sequences.size();) {
    std::size_t last = first;
    std::int64_t length = 8;
    while (last < sequences.size() && sequences[last].held == sequences[first].held) {
      const std::int64_t padded = std::max<std::int64_t>(length, (static_cast<std::int64_t>(sequences[last].ids.size()) + 7) / 8 * 8);
      if (last > first && padded * static_cast<std::int64_t>(last - first + 1) > batch_tokens) break;
      length = padded;
      ++last;
    }
    const auto rows = static_cast<std::int64_t>(last - first);
    length = std::min(length, spec.positions);
    TextBatch& made = batches.emplace_back(TextBatch{train::planning_batch(spec.task, rows, length, 0.15), sequences[first].held});
    auto ids = made.batch["input_ids"].as<std::int32_t>();
    std::fill(ids.begin(), ids.end(), static_cast<std::int32_t>(spec.pad));
    for (std::int64_t b = 0; b < rows; ++b) {
      const data::Ids& row = sequences[first + static_cast<std::size_t>(b)].ids;
      std::copy(row.begin(), row.end(), ids.begin() + b * length);
      made.batch["lengths"].as<std::int32_t>()[static_cast<std::size_t>(b)] = static_cast<std::int32_t>(row.size());
      made.batch["samples"].as<std::int64_t>()[static_cast<std::size_t>(b)] = b;
    }
    if (made.batch.has("position_ids"))
      for (std::int64_t k = 0; k < rows * length; ++k)
        made.batch["position_ids"].as<std::int32_t>()[static_cast<std::size_t>(k)] = static_cast<std::int32_t>(k % length);
    first = last;
  }
  return batches;
}

// How many tokens to read: at most `all`, or (0) until `fitted` of them are fitted.
struct Wanted {
  std::int64_t all = 0, fitted = 0;
  bool more(std::int64_t tokens, std::int64_t fitted_tokens) const { return all > 0 ? tokens < all : fitted_tokens < fitted; }
};

// One line, one sequence, with the pieces that the tokenizer puts around a text.
std::vector<Sequence> read_sequences(const std::vector<std::string>& files, const data::Tokenizer& tokenizer, const Wanted& wanted,
                                     std::int64_t length) {
  const data::Specials& specials = tokenizer.specials();
  std::vector<Sequence> sequences;
  std::int64_t tokens = 0, fitted = 0;
  for (const std::string& file : files) {
    data::LineReader reader(file);
    for (std::string_view line; wanted.more(tokens, fitted) && reader.next(line);) {
      Sequence sequence;
      if (specials.cls >= 0) sequence.ids.push_back(specials.cls);
      tokenizer.encode(line, sequence.ids);
      if (sequence.ids.size() < 4) continue;
      const bool ends = specials.sep >= 0 && specials.mask >= 0;  // BERT closes a text, a language model goes on
      sequence.ids.resize(std::min(sequence.ids.size(), static_cast<std::size_t>(length - ends)));
      if (ends) sequence.ids.push_back(specials.sep);
      sequence.held = static_cast<std::int64_t>(sequences.size()) % held_out_every == held_out_every - 1;
      tokens += static_cast<std::int64_t>(sequence.ids.size());
      if (!sequence.held) fitted += static_cast<std::int64_t>(sequence.ids.size());
      sequences.push_back(std::move(sequence));
    }
  }
  if (static_cast<std::int64_t>(sequences.size()) < held_out_every)
    fail_input("[tensorize] --calibrate: {} holds {} lines of text; {} or more are needed", files.front(), sequences.size(), held_out_every);
  return sequences;
}

std::int64_t widest_layer(const models::ModelSpec& spec) {
  std::int64_t widest = 0;
  for (const models::WeightSite& site : models::weight_sites(spec))
    if (!site.table) widest = std::max(widest, site.columns);
  return widest;
}

// Ends a forward whose rest nobody needs.
struct SeenEnough {};

// Layers that read one input, in the order in which the model runs.
struct Group {
  std::vector<std::string> layers;  // as the model names them
  std::int64_t width = 0;
  std::string block;  // "layer.3" of the names; groups of one block are measured together
};

std::string block_of(const std::string& name) {
  const std::size_t digit = name.find_first_of("0123456789");
  return digit == std::string::npos ? name : name.substr(0, name.find('.', digit));
}

// Layers one after the other that see the same numbers belong together.
class Finder final : public layers::InputObserver {
 public:
  void see(const std::string& layer, const plan::Tensor& x) override {
    const std::string hash = hash_bytes({static_cast<const std::byte*>(x.data), static_cast<std::size_t>(x.elements()) * sizeof(float)});
    if (hash != last_) groups.push_back({{}, x.shape[x.shape.dims() - 1], block_of(layer)});
    groups.back().layers.push_back(layer);
    last_ = hash;
  }
  std::vector<Group> groups;

 private:
  std::string last_;
};

// Keeps what some groups read of one batch, and the stream that what they give is added to; rows of padding are left out.
class Collector final : public layers::InputObserver {
 public:
  struct Seen {
    Matrix x, stream;  // [tokens x in], [tokens x out]; empty where a head reads some of the rows alone, or adds to nothing
  };

  explicit Collector(std::span<const Group> groups) : seen(groups.size()) {
    for (std::size_t g = 0; g < groups.size(); ++g)
      for (const std::string& layer : groups[g].layers) index_[layer] = g;
  }

  void open(const TextBatch& batch) {
    batch_ = &batch, last_ = nullptr;
    std::fill(seen.begin(), seen.end(), Seen{});
  }

  void see(const std::string& layer, const plan::Tensor& x) override {
    const auto found = index_.find(layer);
    if (found == index_.end() && last_ == &seen.back()) throw SeenEnough();
    last_ = found == index_.end() ? nullptr : &seen[found->second];
    if (last_ && last_->x.values.empty()) last_->x = read(x);
  }

  void join(const plan::Tensor& stream) override {
    if (last_) last_->stream = read(stream);
    if (last_ == &seen.back()) throw SeenEnough();
  }

  std::vector<Seen> seen;  // of each group

 private:
  Matrix read(const plan::Tensor& x) const {
    const std::int64_t width = x.shape[x.shape.dims() - 1], length = batch_->batch.length;
    if (x.elements() / width != batch_->batch.sequences * length) return {};
    const auto lengths = batch_->batch["lengths"].as<const std::int32_t>();
    Matrix values(std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}), width);
    double* out = values.values.data();
    for (std::size_t b = 0; b < lengths.size(); ++b) {
      const float* from = static_cast<const float*>(x.data) + static_cast<std::int64_t>(b) * length * width;
      out = std::copy(from, from + lengths[b] * width, out);
    }
    return values;
  }

  std::map<std::string, std::size_t> index_;
  const TextBatch* batch_ = nullptr;
  Seen* last_ = nullptr;
};

void accumulate(Matrix& sum, Matrix product) {
  if (sum.values.empty())
    sum = std::move(product);
  else
    tt::add(sum, product);
}

void add_moved(MomentGroup::Sums& sums, const Collector::Seen& now, const Collector::Seen& before) {
  if (now.stream.values.empty() || before.stream.values.empty()) return;
  accumulate(sums.cross, tt::multiply_tn(now.x, before.x));
  accumulate(sums.shift, tt::multiply_tn(now.x, tt::difference(before.stream, now.stream)));
}

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
    std::vector<Sequence> sequences =
        read_sequences(files, *tokenizer, {settings.tokens, enough_tokens(widest_layer(spec_))}, std::min(settings.length, common.positions));
    info_.files = files;
    info_.hash = data::hash_files(files);
    counts_.assign(static_cast<std::size_t>(common.vocabulary), 1);
    for (const Sequence& sequence : sequences) {
      (sequence.held ? info_.held_tokens : info_.tokens) += static_cast<std::int64_t>(sequence.ids.size());
      for (const std::int32_t id : sequence.ids) counts_[static_cast<std::size_t>(id)] += 1;
    }
    batches_ = batches_of(std::move(sequences), common);
    engine_ = open();
    find_groups();
  }

  MomentsInfo info() const override { return info_; }

  std::vector<double> row_weights(const std::string& table) override {
    const layers::Parameter* parameter = find(table);
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
    layers::Parameter* parameter = find(layer);
    if (!parameter) return;
    COMERA_CHECK(parameter->shape[0] == weight.rows && parameter->shape[1] == weight.columns);
    write(*parameter, weight.values);
    replaced_ = true;
  }

  std::optional<double> effect(const std::string& layer, const Matrix& weight) override {
    layers::Parameter* parameter = find(layer);
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
    load(*engine_);
    replaced_ = false;
  }

 private:
  // What the model gives for some held-out batches: the hidden states of their tokens, or the classes' logits.
  std::vector<double> outputs() {
    std::vector<double> all;
    std::int64_t tokens = 0;
    for (const TextBatch& batch : batches_) {
      if (!batch.held || tokens >= probe_tokens) continue;
      const train::Scores scores = engine_->evaluate(batch.batch);
      const auto lengths = batch.batch["lengths"].as<const std::int32_t>();
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
    if (replaced_ && !before_) before_ = open();
    std::vector<MomentGroup> moments;
    for (const Group& group : groups) moments.push_back({group.layers, {}, {}});
    Collector now(groups), before(groups);
    for (const TextBatch& batch : batches_) {
      run(*engine_, batch, now);
      if (replaced_) run(*before_, batch, before);
      for (std::size_t g = 0; g < groups.size(); ++g) {
        MomentGroup::Sums& sums = batch.held ? moments[g].held : moments[g].fit;
        if (now.seen[g].x.values.empty()) continue;
        accumulate(sums.moment, tt::gram(now.seen[g].x));
        if (replaced_) add_moved(sums, now.seen[g], before.seen[g]);
      }
    }
    for (const MomentGroup& group : moments)
      if (!group.fit.moment.values.empty() && tt::trace(group.fit.moment) > 0) each(group);
  }

  std::unique_ptr<train::Engine> open() const {
    auto engine = std::make_unique<train::Engine>(machine_, models::factory_of(spec_, machine_.dtype),
                                                  train::EngineOptions{.optimizer = {}, .training = false, .fetch_hidden = true});
    engine->weights().allocate();
    load(*engine);
    return engine;
  }

  void load(train::Engine& engine) const {
    const std::string single = join_path(settings_.model, "model.safetensors");
    train::load_weights(path_exists(single) ? single : settings_.model, engine.weights());
    engine.weights_changed();
  }

  template <class T>
  void write(layers::Parameter& parameter, const std::vector<T>& values) {
    std::copy(values.begin(), values.end(), static_cast<float*>(parameter.value.data));
    engine_->weights_changed();
  }

  // The file may name a weight with or without what stands before the blocks ("bert.").
  layers::Parameter* find(const std::string& layer) {
    const std::string name = layer + ".weight";
    for (layers::Parameter& parameter : engine_->model().parameters().all())
      if (parameter.name == name || parameter.name.ends_with("." + name) || name.ends_with("." + parameter.name)) return &parameter;
    return nullptr;
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

  static void run(train::Engine& engine, const TextBatch& batch, Collector& collector) {
    const layers::ObserveInputs observe(collector);
    collector.open(batch);
    try {
      engine.evaluate(batch.batch);
    } catch (const SeenEnough&) {
    }
  }

  plan::Machine machine_;
  CalibrationSettings settings_;
  models::ModelSpec spec_;
  MomentsInfo info_;
  std::vector<double> counts_;
  std::vector<TextBatch> batches_;
  std::unique_ptr<train::Engine> engine_, before_;  // the model as it is compressed so far, and (once that is another) as it came
  bool replaced_ = false;
  std::vector<Group> groups_;
  std::vector<double> outputs_;  // of the model as it came, for effects
};

}  // namespace

std::int64_t enough_tokens(std::int64_t widest) { return tokens_per_input * std::max<std::int64_t>(widest, 1536); }

std::unique_ptr<InputMoments> calibrate(const plan::Machine& machine, const CalibrationSettings& settings) {
  COMERA_CHECK(machine.dtype == DType::f32);
  return std::make_unique<Calibration>(machine, settings);
}

}  // namespace comera::compress
