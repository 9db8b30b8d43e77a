// Cross-entropy over chunks of the vocabulary.
#include "kernels/cross_entropy.h"

#include <cmath>

#include "kernels/cpu/common/element.h"
#include "kernels/cpu/ops.h"
#include "kernels/host/thread_pool.h"

namespace comera::kernels::COMERA_CPU {
namespace {

constexpr std::int64_t chunk = 32768;  // logits per tile

template <class Body>
void for_rows(const Context& context, std::int64_t rows, std::int64_t columns, Body body) {
  const std::int64_t step = max<std::int64_t>(1, chunk / max<std::int64_t>(1, columns));
  parallel_for(context, tiles_of(rows, step), [&](std::int64_t tile) {
    for (std::int64_t row = tile * step; row < min(rows, (tile + 1) * step); ++row) body(row);
  });
}

// Returns the first index where x holds `value`, or 0 if there is none (NaN).
std::int64_t find(const Element* x, std::int64_t count, float value) {
  for (std::int64_t i = 0; i < count; i += F::width) {
    const std::int64_t n = min<std::int64_t>(F::width, count - i);
    const std::uint32_t hits = bits_of(load(x + i, n) == set(value)) & ((1u << n) - 1);
    if (hits != 0) return i + __builtin_ctz(hits);
  }
  return 0;
}

double sum_of_exponentials(const Element* x, std::int64_t count, float maximum) {
  DoubleSum sum;
  const F m = set(maximum);
  sweep(0, count, [&](std::int64_t i, auto lanes) { sum.add(keep_lanes(exp(load(x + i, lanes) - m), lanes)); });
  return sum.total();
}

Status run(const Context& context, const CrossEntropyChunk& a) {
  if (context.dtype != element_type) return Status::unsupported_dtype;
  float *maximum = static_cast<float*>(a.maximum), *sum = static_cast<float*>(a.sum),
        *target_logit = static_cast<float*>(a.target_logit);
  for_rows(context, a.rows, a.columns, [&](std::int64_t row) {
    const Element* x = elements(a.logits) + row * a.ld;
    const float largest = largest_of(x, a.columns);
    double before = 0;
    if (a.start || largest > maximum[row]) {
      if (!a.start) before = sum[row] * std::exp(static_cast<double>(maximum[row]) - largest);
      maximum[row] = largest;
      a.best[row] = static_cast<std::int32_t>(a.first + find(x, a.columns, largest));
    } else {
      before = sum[row];
    }
    sum[row] = static_cast<float>(before + sum_of_exponentials(x, a.columns, maximum[row]));
    const std::int64_t target = a.targets[row] - a.first;
    if (a.targets[row] >= 0 && target >= 0 && target < a.columns) target_logit[row] = number(x[target]);
  });
  return Status::ok;
}

Status run(const Context& context, const CrossEntropyLoss& a) {
  if (context.dtype != DType::f32) return Status::unsupported_dtype;
  const float *maximum = static_cast<const float*>(a.maximum), *sum = static_cast<const float*>(a.sum);
  const float* target_logit = static_cast<const float*>(a.target_logit);
  double loss = 0, correct = 0;
  for (std::int64_t row = 0; row < a.rows; ++row) {
    if (a.targets[row] < 0) continue;
    loss += std::log(static_cast<double>(sum[row])) + (static_cast<double>(maximum[row]) - target_logit[row]);
    correct += a.best[row] == a.targets[row];
  }
  *static_cast<double*>(a.loss) += loss * *a.loss_scale;
  if (a.correct) *a.correct += correct;
  return Status::ok;
}

Status run(const Context& context, const CrossEntropyBackward& a) {
  if (context.dtype != element_type) return Status::unsupported_dtype;
  const float *maximum = static_cast<const float*>(a.maximum), *sum = static_cast<const float*>(a.sum);
  const double scale = *a.loss_scale;
  for_rows(context, a.rows, a.columns, [&](std::int64_t row) {
    Element* x = elements(a.logits) + row * a.ld;
    const bool counted = a.targets[row] >= 0;
    const std::int64_t target = a.targets[row] - a.first;
    const bool here = counted && target >= 0 && target < a.columns;
    const double p = here ? std::exp(static_cast<double>(number(x[target])) - maximum[row]) / sum[row] : 0;
    const F m = set(maximum[row]), factor = set(static_cast<float>(counted ? scale / sum[row] : 0));
    sweep(0, a.columns, [&](std::int64_t i, auto lanes) {
      store(x + i, counted ? exp(load(x + i, lanes) - m) * factor : zero(), lanes);
    });
    if (here) set_number(x[target], static_cast<float>((p - 1) * scale));
  });
  return Status::ok;
}

}  // namespace

void bind(Op<CrossEntropyChunk>& op) { op.run = run; }
void bind(Op<CrossEntropyLoss>& op) { op.run = run; }
void bind(Op<CrossEntropyBackward>& op) { op.run = run; }

}  // namespace comera::kernels::COMERA_CPU
