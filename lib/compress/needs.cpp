#include "lib/compress/needs.h"

#include <algorithm>

#include "lib/compress/calibration/calibration.h"
#include "lib/compress/calibration/calibration_text.h"
#include "lib/compress/calibration/drawn_words.h"
#include "lib/compress/calibration/probe.h"
#include "lib/compress/calibration/streamed_weights.h"

namespace comera::compress {
namespace {

constexpr std::uint64_t number = sizeof(double);
constexpr std::uint64_t program = 96 << 20;  // bytes of the program, its tokenizer and the buffers of BLAS
// Words whose rows measure effects.
constexpr auto drawn_words = static_cast<std::uint64_t>(DrawnWords::per_token * Probe::tokens);

struct Sizes {
  std::uint64_t in, out;

  explicit Sizes(const Candidate& candidate)
      : in(static_cast<std::uint64_t>(candidate.in())), out(static_cast<std::uint64_t>(candidate.out())) {}
  std::uint64_t numbers() const { return in * out; }
};

// The moments of a wide layer are stored in the scratch file.
bool is_wide(const Candidate& candidate) {
  return moment_bytes(candidate.in()) > CalibrationSettings().moments_in_memory;
}

// Of a wide layer memory holds one moment, the weight and its target, and more of that
// size: for a grid what is left to round and its gradient, for factors the outputs of fitted and held-out text and the
// product. Factors of smaller weights are found at several strengths at a time. Narrow layers have the moments of three
// parts of the text in memory, the factorisation, the weight and its target.
std::uint64_t linear_bytes(const LayerJob& job) {
  const Sizes at(job.candidate);
  const std::uint64_t moment = number * at.in * at.in, weight = number * at.numbers();
  if (!is_wide(job.candidate)) return 8 * moment + 4 * number * at.in * std::min(at.in, at.out) + 2 * weight;
  const std::uint64_t halves = job.on_grid() ? 9 : at.numbers() > std::uint64_t{1} << 24 ? 11 : 14;  // of the weight
  return moment + halves * weight / 2;
}

// Beside the table, its trial in double and in float; weights in memory are as large as that. Factors of a table are
// measured while its weight is in memory too, and the trial of a table that also decodes while it is fitted.
std::uint64_t table_bytes(const LayerJob& job) {
  const std::uint64_t halves = job.on_grid() && !job.candidate.also_decodes ? 4 : 6;  // of the table
  return number * Sizes(job.candidate).numbers() * halves / 2;
}

// True if the change of the model's outputs is measured, for which rows of its word table stay in memory (Probe).
bool measures_effects(const std::vector<LayerJob>& jobs) {
  return std::ranges::any_of(
      jobs, [](const LayerJob& job) { return job.effect || (job.candidate.also_decodes && job.on_grid()); });
}

}  // namespace

CalibrationNeeds calibration_needs(const std::vector<LayerJob>& jobs, const io::ModelFolder& folder,
                                   const models::Spec* model, std::size_t sizes, std::uint64_t refinement) {
  std::uint64_t input = 0, stream = 0, linear = 0, tables = 0, rows = 0, linears = 0, stored = 0;
  for (const LayerJob& job : jobs) {
    const Sizes at(job.candidate);
    std::uint64_t& most = job.candidate.table ? tables : linears;
    if (!job.ruled_dense()) most = std::max(most, job.candidate.table ? table_bytes(job) : linear_bytes(job));
    if (job.candidate.table) {
      rows = std::max(rows, at.in);
      continue;
    }
    input = std::max(input, at.in);
    stream = std::max(stream, std::min(at.in, at.out));
    linear += at.numbers();
    // Moments and products of three and two parts of the text, and what a fit on a grid keeps of the moment.
    if (is_wide(job.candidate)) stored = std::max(stored, number * at.in * (3 * at.in + 2 * at.out + 2 * at.in));
  }
  std::uint64_t largest = 0, all = 0;
  for (const io::ModelFolder::Entry& entry : folder.entries()) {
    const std::uint64_t bytes = sizeof(float) * static_cast<std::uint64_t>(entry.tensor.elements());
    largest = std::max(largest, bytes);
    all += bytes;
  }
  const std::uint64_t cached = std::min<std::uint64_t>(StreamedWeights::small, all);
  const std::uint64_t fits = std::max({tables, linears + cached, largest});
  const auto fitted_tokens = static_cast<std::uint64_t>(enough_tokens(static_cast<std::int64_t>(input)) * 4 / 3);
  // The text runs through all layers, compressed or not.
  if (model) {
    rows = std::max(rows, static_cast<std::uint64_t>(model->vocabulary));
    input = std::max(input, static_cast<std::uint64_t>(std::max(model->intermediate, model->hidden)));
    stream = std::max(stream, static_cast<std::uint64_t>(model->hidden));
  }
  // Logits, the inner products of a block and the inputs of a layer, and the residual stream.
  const std::uint64_t activations = sizeof(float) * tokens_of_batch * (rows + 3 * input + 2 * stream);
  const std::uint64_t drawn = measures_effects(jobs) ? sizeof(float) * std::min(drawn_words, rows) * stream : 0;
  // The block outputs of every token, including the held-out quarter: the residual stream and its norm, of the dense
  // model and at every size of the model as compressed so far. Two layers of a block have targets: their outputs and
  // the residual stream before them. Refinement also stores the inputs of the first block, and outputs of the dense
  // model of its own.
  const std::uint64_t outputs = 2 * (1 + sizes + 2 + (refinement > 0 ? 2 : 0)) * stream * fitted_tokens;
  // Before a block is refined, weights and activations of the model are freed.
  return {program + drawn + std::max(activations + fits, refinement),
          stored + sizeof(float) * (outputs + sizes * linear)};
}

}  // namespace comera::compress
