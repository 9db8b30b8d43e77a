// A product with outputs of a TT layer that are computed where they are multiplied: within the bound of the reference,
// and the bytes of the two ops that it joins.
#include "kernels/tt_output_product.h"

#include "kernels/tt_linear.h"
#include "tests/kernels/harness/call.h"
#include "tests/kernels/harness/cases.h"
#include "tests/kernels/harness/placed.h"

namespace comera::kernels::test {
namespace {

struct Shape {
  std::int64_t tokens, rank, in, out;
  Activation activation = Activation::gelu;
  bool bias = true;
  std::int64_t gap = 0;  // between the rows of T1, G and the result

  std::string name() const {
    return "K=" + std::to_string(tokens) + " R=" + std::to_string(rank) + " N=" + std::to_string(in) +
           " P=" + std::to_string(out) + " " + name_of(activation) + (bias ? "" : " no bias") + (gap ? " gaps" : "");
  }
};

// Edges of tiles of rows, of panels of columns, and of groups of tokens.
const std::vector<Shape> shapes = {
    {1, 16, 1, 1},      {5, 16, 7, 9, Activation::silu, false, 3}, {65, 32, 130, 16, Activation::tanh, true, 8},
    {300, 32, 272, 48}, {530, 16, 300, 33, Activation::none},      {1100, 48, 129, 32, Activation::gelu_tanh},
};

TtOutputProduct sizes_of(const Shape& s) {
  TtOutputProduct a;
  a.tokens = s.tokens, a.rank = s.rank, a.in = s.in, a.out = s.out, a.activation = s.activation;
  a.ld_t1 = s.rank + s.gap, a.ldg = a.ld_result = s.out + s.gap;
  return a;
}

Case product(const Shape& s) {
  Case c(s.name());
  c.data("t1", s.tokens, s.rank, s.rank + s.gap).data("right", s.rank, s.in, 0, 0.5).data("bias", 1, s.in);
  c.data("g", s.tokens, s.out, s.out + s.gap).data("result", s.in, s.out, s.out + s.gap);
  c.forward = [s](Run& r) {
    r.call(&Backend::tt_output_product, [&] {
      TtOutputProduct a = sizes_of(s);
      a.t1 = r.in("t1"), a.right = r.in("right"), a.bias = s.bias ? r.in("bias") : nullptr;
      a.g = r.in("g"), a.result = r.out("result");
      return a;
    });
  };
  return c;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Shape& s : shapes) all.push_back(product(s));
  return all;
}

void check_bytes(const Shape& s, DType dtype) {
  const auto numbers = [](std::int64_t count, unsigned seed) { return cuda::numbers(count, seed); };
  cuda::Call call(dtype);
  const cuda::Floats before = numbers(s.in * (s.out + s.gap), 5);
  TtOutputProduct a = sizes_of(s);
  a.t1 = call.activations(numbers(s.tokens * a.ld_t1, 1)), a.right = call.activations(numbers(s.rank * s.in, 2));
  a.bias = s.bias ? call.f32(numbers(s.in, 3)) : nullptr;
  a.g = call.activations(numbers(s.tokens * a.ldg, 4)), a.result = call.f32(before);
  call.run(cuda::backend().tt_output_product, a);

  TtLinearForward forward;
  forward.tokens = s.tokens, forward.width = a.ld_t1, forward.activation = s.activation, forward.t1_is_given = true;
  forward.t1 = const_cast<void*>(a.t1), forward.outputs = 1;
  TtOutput& o = forward.output[0];
  o.out = o.ldy = s.in, o.rank = s.rank, o.right = a.right, o.bias = a.bias;
  o.y = call.activations(cuda::Floats(static_cast<std::size_t>(s.tokens * s.in), NAN));
  call.run(cuda::backend().tt_linear_forward, forward);
  Product p;
  p.tokens = s.tokens, p.in = p.ldx = s.in, p.out = s.out, p.x = o.y;
  p.g = a.g, p.ldg = a.ldg, p.result = call.f32(before), p.ld_result = a.ld_result;
  call.run(cuda::backend().product, p);
  CHECK(call.read_f32(a.result, before.size()) == call.read_f32(p.result, before.size()));
}

}  // namespace

TEST_CASE("tt_output_product: every backend within the derived bound of the reference") { check_backends(cases()); }
TEST_CASE("tt_output_product: the same bytes again and for any number of threads") { check_repeat(cases()); }

TEST_CASE("tt_output_product: the bytes of the output in memory and a product") {
  int checked = 0;
  for (const Column& column : columns()) {
    if (!column.backend->tt_output_product.run || column.backend == &reference_backend()) continue;
    const cuda::OnColumn on(column);
    for (const DType dtype : {DType::f32, DType::bf16}) {
      if (dtype == DType::bf16 && !column.has_bf16()) continue;
      for (const Shape& s : shapes) {
        CAPTURE(column.name, s.name(), dtype == DType::bf16);
        check_bytes(s, dtype);
        ++checked;
      }
    }
  }
  CHECK(checked > 0);
}

TEST_CASE("tt_output_product: a result that needs the output in memory is refused") {
  TtOutputProduct a;
  a.tokens = 1, a.rank = 16, a.in = small_product, a.out = 2;
  for (const Column& column : columns()) {
    if (!column.backend->tt_output_product.run || column.backend == &reference_backend()) continue;
    CHECK(column.backend->tt_output_product.run(context_of(column), a) == Status::unsupported_shape);
  }
}

}  // namespace comera::kernels::test
