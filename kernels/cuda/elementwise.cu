// Elementwise ops: activations, gated activations, dropout, fill, scaled sums, gather and scatter of rows.
#include "kernels/cuda/common/activation.h"
#include "kernels/cuda/common/dropout.h"
#include "kernels/cuda/common/eights.h"
#include "kernels/cuda/common/runtime.h"
#include "kernels/cuda/ops.h"
#include "kernels/elementwise.h"

namespace comera::kernels::cuda {
namespace {

constexpr unsigned threads = 256;

Launch flat(std::int64_t count) { return {grid_for(count, threads), threads}; }

// f(i) for every i of [0, count)
template <class F>
__global__ void for_each(std::int64_t count, F f) {
  begin_kernel();
  for (std::int64_t i = flat_index(); i < count; i += flat_stride()) f(i);
}

// The results of map() for eight elements, x and y their two inputs.
struct Activate {
  Activation activation;
  __device__ void operator()(const Eight& x, const Eight&, Eight& result) const {
    with_constant(activation, [&](auto fixed) {
#pragma unroll
      for (int j = 0; j < 8; ++j) result.v[j] = activate<float>(decltype(fixed)::value, x.v[j]);
    });
  }
};

struct ActivateBackward {
  Activation activation;
  __device__ void operator()(const Eight& x, const Eight& dy, Eight& result) const {
    with_constant(activation, [&](auto fixed) {
#pragma unroll
      for (int j = 0; j < 8; ++j) result.v[j] = dy.v[j] * activation_slope<float>(decltype(fixed)::value, x.v[j]);
    });
  }
};

struct AddScaledTo {
  float scale;
  __device__ void operator()(const Eight& x, const Eight& y, Eight& result) const {
#pragma unroll
    for (int j = 0; j < 8; ++j) result.v[j] = y.v[j] + scale * x.v[j];
  }
};

// result[i] = f(x[i], y[i]) for every i of [0, count), eight in a thread. y may be null; result may be x or y.
template <class T, class F>
__global__ void __launch_bounds__(threads)
    map(std::int64_t count, const T* x, const T* y, T* result, bool aligned, F f) {
  begin_kernel();
  for (std::int64_t at = 8 * flat_index(); at < count; at += 8 * flat_stride()) {
    Eight own_x, own_y = {}, own;
    if (aligned && at + 8 <= count) {
      StoredEight<T> stored_x, stored_y;
      stored_x.load(x + at);
      if (y) stored_y.load(y + at);
      own_x = stored_x.floats(), own_y = stored_y.floats();
    } else {
      own_x = get<Eight>(x, at, count, false);
      if (y) own_y = get<Eight>(y, at, count, false);
    }
    f(own_x, own_y, own);
    put(result, at, count, aligned, own);
  }
}

template <class T>
struct Gate {
  Activation activation;
  GatedRows rows;
  const T *gate, *up;
  T* y;
  COMERA_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t at = rows.place(i);
    y[i] = to_element<T>(activate<float>(activation, to_float(gate[at])) * to_float(up[at]));
  }
};

template <class T>
struct GateBackward {
  Activation activation;
  GatedRows rows;
  const T *gate, *up, *dy;
  T *d_gate, *d_up;
  COMERA_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t at = rows.place(i);
    const float g = to_float(gate[at]), u = to_float(up[at]), d = to_float(dy[i]);
    d_gate[at] = to_element<T>(d * u * activation_slope<float>(activation, g));
    d_up[at] = to_element<T>(d * activate<float>(activation, g));
  }
};

// Eight features of a row share one Philox call.
template <class T>
struct DropEight {
  RowDropout dropout;
  std::int64_t columns, per_row;
  const T* x;
  T* y;
  bool aligned;
  COMERA_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t row = i / per_row, block = i % per_row;
    const StepOfDropout step(dropout);
    const TokenOfDropout token(dropout, row);
    Eight own = get<Eight>(x + row * columns, block * 8, columns, aligned);
    DropoutOfRow(dropout, step.key(), token).apply(block, own.v);
    put(y + row * columns, block * 8, columns, aligned, own);
  }
};

template <class T>
struct Gather {
  std::int64_t columns, ldx;
  const std::int32_t* index;
  const T* x;
  T* y;
  COMERA_DEVICE void operator()(std::int64_t i) const {
    const std::int32_t from = index[i / columns];
    y[i] = from < 0 ? to_element<T>(0) : x[from * ldx + i % columns];
  }
};

template <class T>
struct Scatter {
  std::int64_t columns, lddx, lddy;
  const std::int32_t* index;
  const T* dy;
  T* dx;
  COMERA_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t row = i / columns, column = i % columns;
    const std::int32_t to = index[row];
    if (to < 0) return;
    T& sum = dx[to * lddx + column];
    sum = to_element<T>(to_float(sum) + to_float(dy[row * lddy + column]));
  }
};

template <class T>
const T* in(const void* p) {
  return static_cast<const T*>(p);
}
template <class T>
T* out(void* p) {
  return static_cast<T*>(p);
}

// make(element) returns the functor of a flat kernel for that element type.
template <class Make>
Status run_flat(const Context& context, std::int64_t count, Make make) {
  return with_element(context, [&](auto element) {
    const auto f = make(element);
    return launch(context, flat(count), for_each<decltype(make(element))>, count, f);
  });
}

template <class F>
Status run_map(const Context& context, std::int64_t count, const void* x, const void* y, void* result, F f) {
  return with_element(context, [&]<class T>(T) {
    return launch(context, flat(blocks_for(count, 8)), map<T, F>, count, in<T>(x), in<T>(y), out<T>(result),
                  all_aligned<T>(0, x, y, result), f);
  });
}

Status run(const Context& context, const ActivationForward& a) {
  return run_map(context, a.count, a.x, nullptr, a.y, Activate{a.activation});
}

Status run(const Context& context, const ActivationBackward& a) {
  return run_map(context, a.count, a.x, a.dy, a.dx, ActivateBackward{a.activation});
}

Status run(const Context& context, const GatedForward& a) {
  return run_flat(context, a.count, [&]<class T>(T) {
    return Gate<T>{a.activation, a.rows, in<T>(a.gate), in<T>(a.up), out<T>(a.y)};
  });
}

Status run(const Context& context, const GatedBackward& a) {
  return run_flat(context, a.count, [&]<class T>(T) {
    return GateBackward<T>{a.activation, a.rows,           in<T>(a.gate), in<T>(a.up),
                           in<T>(a.dy),  out<T>(a.d_gate), out<T>(a.d_up)};
  });
}

Status run(const Context& context, const DropoutApply& a) {
  const std::int64_t per_row = blocks_for(a.columns, 8);
  if (a.dropout.probability <= 0)
    return copy_on_device(context, a.y, a.x, static_cast<std::size_t>(a.tokens * a.columns) * size_of(context.dtype));
  return run_flat(context, a.tokens * per_row, [&]<class T>(T) {
    const bool aligned = all_aligned<T>(a.columns, a.x, a.y);
    return DropEight<T>{RowDropout(a.dropout), a.columns, per_row, in<T>(a.x), out<T>(a.y), aligned};
  });
}

Status run(const Context& context, const Fill& a) { return zero_on_device(context, a.data, a.bytes); }

Status run(const Context& context, const AddScaled& a) {
  return run_map(context, a.count, a.x, a.y, a.y, AddScaledTo{static_cast<float>(a.scale)});
}

Status run(const Context& context, const GatherRows& a) {
  return run_flat(context, a.rows * a.columns, [&]<class T>(T) {
    return Gather<T>{a.columns, a.ldx, a.index, in<T>(a.x), out<T>(a.y)};
  });
}

Status run(const Context& context, const ScatterRows& a) {
  return run_flat(context, a.rows * a.columns, [&]<class T>(T) {
    return Scatter<T>{a.columns, a.lddx, a.source_distance(), a.index, in<T>(a.dy), out<T>(a.dx)};
  });
}

}  // namespace

void bind(Op<ActivationForward>& op) { op.run = run; }
void bind(Op<ActivationBackward>& op) { op.run = run; }
void bind(Op<GatedForward>& op) { op.run = run; }
void bind(Op<GatedBackward>& op) { op.run = run; }
void bind(Op<DropoutApply>& op) { op.run = run; }
void bind(Op<Fill>& op) { op.run = run; }
void bind(Op<AddScaled>& op) { op.run = run; }
void bind(Op<GatherRows>& op) { op.run = run; }
void bind(Op<ScatterRows>& op) { op.run = run; }

}  // namespace comera::kernels::cuda
