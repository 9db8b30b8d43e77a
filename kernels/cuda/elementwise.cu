// Elementwise ops: activations, gated activations, dropout, fill, scaled sums, gather and scatter of rows.
#include "kernels/cuda/common/activation.h"
#include "kernels/cuda/common/dropout.h"
#include "kernels/cuda/common/element.h"
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

template <class T>
struct Activate {
  Activation activation;
  const T* x;
  T* y;
  COMERA_DEVICE void operator()(std::int64_t i) const {
    y[i] = to_element<T>(activate<float>(activation, to_float(x[i])));
  }
};

template <class T>
struct ActivateBackward {
  Activation activation;
  const T *x, *dy;
  T* dx;
  COMERA_DEVICE void operator()(std::int64_t i) const {
    dx[i] = to_element<T>(to_float(dy[i]) * activation_slope<float>(activation, to_float(x[i])));
  }
};

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
  Dropout dropout;
  std::int64_t columns, per_row;
  const T* x;
  T* y;
  COMERA_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t row = i / per_row, block = i % per_row;
    float factors[8];
    DropoutOfRow(dropout, row).eight(block, factors);
    for (std::int64_t j = 0; j < 8 && block * 8 + j < columns; ++j) {
      const std::int64_t at = row * columns + block * 8 + j;
      y[at] = to_element<T>(to_float(x[at]) * factors[j]);
    }
  }
};

template <class T>
struct AddScaledTo {
  float scale;
  const T* x;
  T* y;
  COMERA_DEVICE void operator()(std::int64_t i) const { y[i] = to_element<T>(to_float(y[i]) + scale * to_float(x[i])); }
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

Status run(const Context& context, const ActivationForward& a) {
  return run_flat(context, a.count, [&]<class T>(T) { return Activate<T>{a.activation, in<T>(a.x), out<T>(a.y)}; });
}

Status run(const Context& context, const ActivationBackward& a) {
  return run_flat(context, a.count, [&]<class T>(T) {
    return ActivateBackward<T>{a.activation, in<T>(a.x), in<T>(a.dy), out<T>(a.dx)};
  });
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
    return DropEight<T>{a.dropout, a.columns, per_row, in<T>(a.x), out<T>(a.y)};
  });
}

Status run(const Context& context, const Fill& a) { return zero_on_device(context, a.data, a.bytes); }

Status run(const Context& context, const AddScaled& a) {
  return run_flat(context, a.count, [&]<class T>(T) {
    return AddScaledTo<T>{static_cast<float>(a.scale), in<T>(a.x), out<T>(a.y)};
  });
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
