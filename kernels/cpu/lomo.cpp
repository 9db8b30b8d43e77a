// Updates inside the backward.
#include "kernels/lomo.h"

#include "kernels/cpu/common/simd.h"
#include "kernels/cpu/common/workspace.h"
#include "kernels/cpu/ops.h"
#include "kernels/host/thread_pool.h"

namespace comera::kernels::COMERA_CPU {
namespace {

// The rows are cut into at most this many bands; their sums are added in order.
constexpr std::int64_t most_bands = 32, least_rows_of_band = 8;

std::int64_t bands_of(std::int64_t rows) { return min(most_bands, tiles_of(rows, least_rows_of_band)); }
Range band_of(std::int64_t rows, std::int64_t index) { return part_of(rows, 1, bands_of(rows), index); }

double* doubles(Workspace& workspace, std::int64_t count) {
  return static_cast<double*>(static_cast<void*>(workspace.floats(2 * count)));
}

struct Sums {
  double *rows, *columns;  // of squares: [rows], [columns]
  double* bands;           // [bands, columns]
  std::size_t bytes;

  Sums(void* memory, const AdaLomoMeans& a) {
    Workspace workspace(memory);
    rows = doubles(workspace, a.rows), columns = doubles(workspace, a.columns);
    bands = doubles(workspace, bands_of(a.rows) * a.columns);
    bytes = workspace.used();
  }
};

std::size_t workspace_bytes(const Context&, const AdaLomoMeans& a) { return Sums(nullptr, a).bytes; }

// Adds the squares of a row to `columns`; returns their sum.
double add_squares(const float* g, std::int64_t count, double* columns) {
  DoubleSum sum;
  double rest = 0;
  std::int64_t j = 0;
  for (; j + F::width <= count; j += F::width) {
    const F x = load(g + j);
    const D low = low_half(x), high = high_half(x);
    store(columns + j, fma(low, low, load(columns + j)));
    store(columns + j + D::width, fma(high, high, load(columns + j + D::width)));
    sum.add_product(x, x);
  }
  for (; j < count; ++j) {
    const double x = static_cast<double>(g[j]);
    columns[j] += x * x, rest += x * x;
  }
  return sum.total() + rest;
}

void sum_squares(const Context& context, const AdaLomoMeans& a, const Sums& sums) {
  const auto* g = static_cast<const float*>(a.gradient);
  parallel_for(context, bands_of(a.rows), [&](std::int64_t index) {
    double* columns = sums.bands + index * a.columns;
    for (std::int64_t j = 0; j < a.columns; ++j) columns[j] = 0;
    const Range band = band_of(a.rows, index);
    for (std::int64_t i = band.first; i < band.last; ++i)
      sums.rows[i] = add_squares(g + i * a.columns, a.columns, columns);
  });
  for (std::int64_t j = 0; j < a.columns; ++j) {
    sums.columns[j] = 0;
    for (std::int64_t band = 0; band < bands_of(a.rows); ++band) sums.columns[j] += sums.bands[band * a.columns + j];
  }
}

Status run(const Context& context, const AdaLomoMeans& a) {
  if (context.dtype != DType::f32) return Status::unsupported_dtype;
  if (context.workspace_bytes < workspace_bytes(context, a)) return Status::workspace_too_small;
  const Sums sums(context.workspace, a);
  sum_squares(context, a, sums);
  double total = 0;
  for (std::int64_t i = 0; i < a.rows; ++i) total += sums.rows[i];
  *a.applied += total;
  if (!may_apply(*a.applied, *a.loss)) return Status::ok;
  const double old = share_of_old(a);
  const auto mix = [&](double* mean, const double* squares, std::int64_t size, std::int64_t count) {
    for (std::int64_t i = 0; i < size; ++i)
      mean[i] = old * mean[i] + (1 - old) * (squares[i] / static_cast<double>(count) + a.floor);
  };
  mix(a.row, sums.rows, a.rows, a.columns), mix(a.column, sums.columns, a.columns, a.rows);
  return Status::ok;
}

struct Scales {
  float* columns;  // 1 / sqrt(column)
  AdaLomoSums* bands;
  std::size_t bytes;

  Scales(void* memory, std::int64_t rows, std::int64_t width) {
    Workspace workspace(memory);
    columns = workspace.floats(width);
    constexpr auto words = static_cast<std::int64_t>(sizeof(AdaLomoSums) / sizeof(float));
    bands = static_cast<AdaLomoSums*>(static_cast<void*>(workspace.floats(words * bands_of(rows))));
    bytes = workspace.used();
  }
};

float inverse_root(double x) { return static_cast<float>(1 / __builtin_sqrt(x)); }

std::size_t workspace_bytes(const Context&, const AdaLomoFactors& a) {
  return Scales(nullptr, a.rows, a.columns).bytes;
}

Status run(const Context& context, const AdaLomoFactors& a) {
  if (context.dtype != DType::f32) return Status::unsupported_dtype;
  if (context.workspace_bytes < workspace_bytes(context, a)) return Status::workspace_too_small;
  const Scales scales(context.workspace, a.rows, a.columns);
  for (std::int64_t j = 0; j < a.columns; ++j) scales.columns[j] = inverse_root(a.column[j]);
  parallel_for(context, bands_of(a.rows), [&](std::int64_t index) {
    AdaLomoSums sums;
    const Range band = band_of(a.rows, index);
    for (std::int64_t i = band.first; i < band.last; ++i) {
      const float *g = f32(a.gradient) + i * a.columns, *w = f32(a.value) + i * a.columns;
      DoubleSum updates, values;
      sweep(0, a.columns, [&](std::int64_t j, auto lanes) {
        const F update = load(g + j, lanes) * load(scales.columns + j, lanes), value = load(w + j, lanes);
        updates.add_product(update, update), values.add_product(value, value);
      });
      sums.update += updates.total() / a.row[i], sums.value += values.total(), sums.rows += a.row[i];
    }
    scales.bands[index] = sums;
  });
  AdaLomoSums total;
  for (std::int64_t band = 0; band < bands_of(a.rows); ++band) {
    const AdaLomoSums& sums = scales.bands[band];
    total.update += sums.update, total.value += sums.value, total.rows += sums.rows;
  }
  write_factors(a, total);
  return Status::ok;
}

std::size_t workspace_bytes(const Context&, const LomoAdd& a) {
  return a.row ? Scales(nullptr, 0, a.columns).bytes : 0;
}

Status run(const Context& context, const LomoAdd& a) {
  if (context.dtype != DType::f32) return Status::unsupported_dtype;
  if (context.workspace_bytes < workspace_bytes(context, a)) return Status::workspace_too_small;
  if (a.factors[1] == 0) return Status::ok;
  const Scales scales(context.workspace, 0, a.columns);
  for (std::int64_t j = 0; a.row && j < a.columns; ++j) scales.columns[j] = inverse_root(a.column[j]);
  const F own = set(static_cast<float>(a.factors[0]));
  const auto by = static_cast<float>(a.factors[1]);
  parallel_for(context, bands_of(a.rows), [&](std::int64_t index) {
    const Range band = band_of(a.rows, index);
    for (std::int64_t i = band.first; i < band.last; ++i) {
      const float* g = f32(a.gradient) + i * a.columns;
      float* w = f32(a.value) + i * a.columns;
      const F factor = set(a.row ? by * inverse_root(a.row[i]) : by);
      sweep(0, a.columns, [&](std::int64_t j, auto lanes) {
        const F gradient = load(g + j, lanes);
        const F update = a.row ? gradient * load(scales.columns + j, lanes) : gradient;
        store(w + j, fma(factor, update, own * load(w + j, lanes)), lanes);
      });
    }
  });
  return Status::ok;
}

Status run(const Context&, const LomoFactors& a) {
  write_factors(a);
  return Status::ok;
}

}  // namespace

void bind(Op<LomoFactors>& op) { op.run = run; }
void bind(Op<AdaLomoMeans>& op) { op.run = run, op.workspace_bytes = workspace_bytes; }
void bind(Op<AdaLomoFactors>& op) { op.run = run, op.workspace_bytes = workspace_bytes; }
void bind(Op<LomoAdd>& op) { op.run = run, op.workspace_bytes = workspace_bytes; }

}  // namespace comera::kernels::COMERA_CPU
