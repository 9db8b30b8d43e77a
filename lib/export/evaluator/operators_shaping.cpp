// Evaluator operators that move elements, or create them from shapes.
#include <algorithm>
#include <map>

#include "lib/export/evaluator/values.h"

namespace comera::exporting {
namespace {

// out[i] = in[places[i]]
template <class T>
ValueOf<T> picked(const ValueOf<T>& in, const Dims& dims, const std::vector<std::int64_t>& places) {
  ValueOf<T> out = ValueOf<T>::like(dims, in);
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto from = static_cast<std::size_t>(places[i]);
    if (in.is_real)
      out.reals[i] = in.reals[from];
    else
      out.integers[i] = in.integers[from];
  }
  return out;
}

Dims strides_of(const Dims& dims) {
  Dims strides(dims.size(), 1);
  for (std::size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return strides;
}

// Indices of a view: element (i_1, ..) is at begin + sum i_k steps_k.
std::vector<std::int64_t> places_of(const Dims& dims, const Dims& steps, std::int64_t begin) {
  std::vector<std::int64_t> found(static_cast<std::size_t>(count_of(dims)));
  Dims index(dims.size(), 0);
  for (std::int64_t& one : found) {
    one = begin;
    for (std::size_t d = dims.size(); d-- > 0;) {
      begin += steps[d];
      if (++index[d] < dims[d]) break;
      begin -= steps[d] * dims[d];
      index[d] = 0;
    }
  }
  return found;
}

template <class T>
Dims integers_of(const Call<T>& call, std::size_t index) {
  if (call.in(index).is_real) call.fail("integers were wanted");
  return call.in(index).integers;
}

template <class T>
ValueOf<T> identity(const Call<T>& call) {
  return call.in(0);
}

template <class T>
ValueOf<T> gather(const Call<T>& call) {
  const ValueOf<T>&x = call.in(0), &indices = call.in(1);
  const std::size_t axis = call.axis(call.integer("axis", 0), x.dims.size());
  const std::int64_t size = x.dims[axis],
                     inner = count_of({x.dims.begin() + static_cast<std::ptrdiff_t>(axis) + 1, x.dims.end()});
  const std::int64_t outer = count_of({x.dims.begin(), x.dims.begin() + static_cast<std::ptrdiff_t>(axis)});
  std::vector<std::int64_t> places;
  for (std::int64_t o = 0; o < outer; ++o)
    for (const std::int64_t given : integers_of(call, 1)) {
      const std::int64_t index = given < 0 ? given + size : given;
      if (index < 0 || index >= size) call.fail("an index is out of range");
      for (std::int64_t i = 0; i < inner; ++i) places.push_back((o * size + index) * inner + i);
    }
  Dims dims(x.dims.begin(), x.dims.begin() + static_cast<std::ptrdiff_t>(axis));
  dims.insert(dims.end(), indices.dims.begin(), indices.dims.end());
  dims.insert(dims.end(), x.dims.begin() + static_cast<std::ptrdiff_t>(axis) + 1, x.dims.end());
  return picked(x, dims, places);
}

template <class T>
ValueOf<T> reshape(const Call<T>& call) {
  ValueOf<T> out = call.in(0);
  Dims dims = integers_of(call, 1);
  std::int64_t known = 1;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 0) dims[i] = i < out.dims.size() ? out.dims[i] : 0;
    if (dims[i] != -1) known *= dims[i];
  }
  for (std::int64_t& dim : dims)
    if (dim == -1) dim = known == 0 ? 0 : out.count() / known;
  if (count_of(dims) != out.count()) call.fail("the number of elements changes");
  out.dims = dims;
  return out;
}

template <class T>
ValueOf<T> unsqueeze(const Call<T>& call) {
  ValueOf<T> out = call.in(0);
  Dims axes = integers_of(call, 1);
  std::sort(axes.begin(), axes.end());
  for (const std::int64_t axis : axes) {
    if (axis < 0 || axis > static_cast<std::int64_t>(out.dims.size())) call.fail("its axis is out of range");
    out.dims.insert(out.dims.begin() + axis, 1);
  }
  return out;
}

template <class T>
ValueOf<T> transpose(const Call<T>& call) {
  const ValueOf<T>& x = call.in(0);
  const onnx::AttributeProto* order = call.attribute("perm");
  if (!order || order->ints_size() != static_cast<int>(x.dims.size())) call.fail("its order does not fit its input");
  const Dims strides = strides_of(x.dims);
  Dims dims, steps;
  for (const std::int64_t from : order->ints()) {
    const std::size_t axis = call.axis(from, x.dims.size());
    dims.push_back(x.dims[axis]);
    steps.push_back(strides[axis]);
  }
  return picked(x, dims, places_of(dims, steps, 0));
}

// Inputs: starts, ends, axes. Only steps of 1.
template <class T>
ValueOf<T> slice(const Call<T>& call) {
  const ValueOf<T>& x = call.in(0);
  const Dims starts = integers_of(call, 1), ends = integers_of(call, 2), axes = integers_of(call, 3);
  if (call.has(4)) call.fail("steps are not evaluated");
  Dims dims = x.dims;
  const Dims strides = strides_of(x.dims);
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::size_t axis = call.axis(axes[i], x.dims.size());
    const auto clamp = [&](std::int64_t value) {
      return std::clamp<std::int64_t>(value < 0 ? value + x.dims[axis] : value, 0, x.dims[axis]);
    };
    dims[axis] = std::max<std::int64_t>(0, clamp(ends.at(i)) - clamp(starts.at(i)));
    begin += clamp(starts[i]) * strides[axis];
  }
  return picked(x, dims, places_of(dims, strides, begin));
}

template <class T>
ValueOf<T> concat(const Call<T>& call) {
  const ValueOf<T>& first = call.in(0);
  const std::size_t axis = call.axis(call.integer("axis", 0), first.dims.size());
  Dims dims = first.dims;
  dims[axis] = 0;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    Dims others = call.in(i).dims;
    if (others.size() != dims.size() || call.in(i).is_real != first.is_real) call.fail("its inputs do not fit");
    dims[axis] += others[axis];
    others[axis] = first.dims[axis];
    if (others != first.dims) call.fail("its inputs do not fit");
  }
  ValueOf<T> out = ValueOf<T>::like(dims, first);
  const std::int64_t outer = count_of({dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(axis)});
  std::ptrdiff_t place = 0;
  for (std::int64_t o = 0; o < outer; ++o)
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      const ValueOf<T>& x = call.in(i);
      const std::ptrdiff_t length = x.count() / outer;
      if (x.is_real)
        std::copy_n(x.reals.begin() + o * length, length, out.reals.begin() + place);
      else
        std::copy_n(x.integers.begin() + o * length, length, out.integers.begin() + place);
      place += length;
    }
  return out;
}

template <class T>
ValueOf<T> expand(const Call<T>& call) {
  const ValueOf<T>& x = call.in(0);
  const Dims wanted = integers_of(call, 1);
  Dims dims(std::max(wanted.size(), x.dims.size()), 1), steps(dims.size(), 0);
  std::copy(wanted.begin(), wanted.end(), dims.end() - static_cast<std::ptrdiff_t>(wanted.size()));
  const Dims strides = strides_of(x.dims);
  const std::size_t lead = dims.size() - x.dims.size();
  for (std::size_t i = 0; i < x.dims.size(); ++i) {
    if (x.dims[i] == 1) continue;
    if (dims[lead + i] != 1 && dims[lead + i] != x.dims[i]) call.fail("its input does not broadcast");
    dims[lead + i] = x.dims[i];
    steps[lead + i] = strides[i];
  }
  return picked(x, dims, places_of(dims, steps, 0));
}

template <class T>
ValueOf<T> shape(const Call<T>& call) {
  ValueOf<T> out = ValueOf<T>::of_integers({static_cast<std::int64_t>(call.in(0).dims.size())});
  out.integers = call.in(0).dims;
  return out;
}

template <class T>
ValueOf<T> range(const Call<T>& call) {
  const std::int64_t start = integers_of(call, 0).at(0), limit = integers_of(call, 1).at(0),
                     step = integers_of(call, 2).at(0);
  if (step != 1) call.fail("only steps of 1 are evaluated");
  ValueOf<T> out = ValueOf<T>::of_integers({std::max<std::int64_t>(0, limit - start)});
  for (std::size_t i = 0; i < out.integers.size(); ++i) out.integers[i] = start + static_cast<std::int64_t>(i);
  return out;
}

// Sums along an axis from its first element to each.
template <class T>
ValueOf<T> cum_sum(const Call<T>& call) {
  ValueOf<T> out = call.in(0);
  if (out.is_real || call.attribute("exclusive") || call.attribute("reverse"))
    call.fail("only sums of integers from the first to each are evaluated");
  const std::size_t axis = call.axis(integers_of(call, 1).at(0), out.dims.size());
  const std::int64_t stride = strides_of(out.dims)[axis];
  for (std::int64_t i = 0; i < out.count(); ++i)
    if (i / stride % out.dims[axis] > 0)
      out.integers[static_cast<std::size_t>(i)] += out.integers[static_cast<std::size_t>(i - stride)];
  return out;
}

// Writes whole slices of the first axis. The indices are [E, 1].
template <class T>
ValueOf<T> scatter_nd(const Call<T>& call) {
  ValueOf<T> out = call.in(0);
  const ValueOf<T>&places = call.in(1), &updates = call.in(2);
  if (out.dims.empty() || places.dims.size() != 2 || places.dims[1] != 1 || updates.is_real != out.is_real)
    call.fail("its inputs do not fit");
  const std::int64_t length = count_of({out.dims.begin() + 1, out.dims.end()});
  if (updates.count() != places.dims[0] * length) call.fail("its inputs do not fit");
  std::int64_t from = 0;
  for (const std::int64_t place : integers_of(call, 1)) {
    if (place < 0 || place >= out.dims[0]) call.fail("an index is out of range");
    if (out.is_real)
      std::copy_n(updates.reals.begin() + from, length, out.reals.begin() + place * length);
    else
      std::copy_n(updates.integers.begin() + from, length, out.integers.begin() + place * length);
    from += length;
  }
  return out;
}

// Only zeros, because graphs of this room use no other value.
template <class T>
ValueOf<T> constant_of_shape(const Call<T>& call) {
  if (call.attribute("value")) call.fail("only zeros are evaluated");
  return ValueOf<T>::of_reals(integers_of(call, 0));
}

template <class T>
ValueOf<T> eye_like(const Call<T>& call) {
  if (call.in(0).dims.size() != 2) call.fail("it takes a matrix");
  ValueOf<T> out = ValueOf<T>::of_reals(call.in(0).dims);
  for (std::int64_t i = 0; i < std::min(out.dims[0], out.dims[1]); ++i)
    out.reals[static_cast<std::size_t>(i * out.dims[1] + i)] = 1;
  return out;
}

// Casts between integers and reals. Half-precision values are exact in both float and double.
template <class T>
ValueOf<T> cast(const Call<T>& call) {
  const ValueOf<T>& x = call.in(0);
  const std::int64_t to = call.integer("to", 0);
  if (to == onnx::TensorProto::FLOAT) {
    if (x.is_real) return x;
    ValueOf<T> out = ValueOf<T>::of_reals(x.dims);
    std::transform(x.integers.begin(), x.integers.end(), out.reals.begin(),
                   [](std::int64_t value) { return static_cast<T>(value); });
    return out;
  }
  if ((to != onnx::TensorProto::INT64 && to != onnx::TensorProto::BOOL) || x.is_real)
    call.fail("this conversion is not evaluated");
  ValueOf<T> out = x;
  if (to == onnx::TensorProto::BOOL)
    for (std::int64_t& value : out.integers) value = value != 0;
  return out;
}

}  // namespace

template <class T>
Operator<T> find_shaping(const std::string& op) {
  static const std::map<std::string, Operator<T>> all{
      {"Identity", identity<T>},   {"Gather", gather<T>},
      {"Reshape", reshape<T>},     {"Unsqueeze", unsqueeze<T>},
      {"Transpose", transpose<T>}, {"Slice", slice<T>},
      {"Concat", concat<T>},       {"Expand", expand<T>},
      {"Shape", shape<T>},         {"Range", range<T>},
      {"Cast", cast<T>},           {"ConstantOfShape", constant_of_shape<T>},
      {"EyeLike", eye_like<T>},    {"ScatterND", scatter_nd<T>},
      {"CumSum", cum_sum<T>},
  };
  const auto found = all.find(op);
  return found == all.end() ? nullptr : found->second;
}

template Operator<float> find_shaping<float>(const std::string& op);
template Operator<double> find_shaping<double>(const std::string& op);

}  // namespace comera::exporting
