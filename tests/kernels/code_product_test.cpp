// A product with numbers that are restored from codes where they are multiplied: the bytes of the two ops that it
// joins.
#include "kernels/code_product.h"

#include "tests/kernels/harness/codes.h"
#include "tests/kernels/harness/placed.h"

namespace comera::kernels::test {
namespace {

// Edges of groups of columns, of panels, and of groups of tokens.
const std::vector<GroupCodes> shapes = {{1, 1, 8},      {13, 64, 8}, {65, 65, 8},  {300, 300, 8},
                                        {1100, 129, 8}, {7, 63, 4},  {6, 64, 4},   {300, 129, 4},
                                        {130, 257, 4},  {6, 1, 16},  {300, 65, 16}};

void check_bytes(const GroupCodes& shape, std::int64_t out, DType dtype) {
  cuda::Call call(dtype);
  const cuda::Floats before = cuda::numbers(shape.columns * out, 5);
  const std::int64_t count = shape.rows * shape.columns;
  const CodedRows made = cuda::coded(call, shape, call.activations(cuda::numbers(count, 1)));
  CodeProduct a{.shape = shape, .codes = made.codes, .ranges = made.ranges, .out = out};
  a.g = call.activations(cuda::numbers(shape.rows * (out + 3), 2)), a.ldg = out + 3;
  a.result = call.f32(before), a.ld_result = out;
  call.run(cuda::backend().code_product, a);

  Product p;
  p.tokens = shape.rows, p.in = p.ldx = shape.columns, p.out = p.ld_result = out, p.x = cuda::restored(call, made);
  p.g = a.g, p.ldg = a.ldg, p.result = call.f32(before);
  call.run(cuda::backend().product, p);
  CHECK(call.read_f32(a.result, before.size()) == call.read_f32(p.result, before.size()));
}

}  // namespace

TEST_CASE("code_product: the bytes of the numbers in memory and a product") {
  int checked = 0;
  for (const Column& column : columns()) {
    if (!column.backend->code_product.run) continue;
    const cuda::OnColumn on(column);
    for (const DType dtype : {DType::f32, DType::bf16}) {
      if (dtype == DType::bf16 && !column.has_bf16()) continue;
      for (const GroupCodes& shape : shapes)
        for (const std::int64_t out : {1, 48}) {
          CAPTURE(column.name, shape.rows, shape.columns, shape.bits, out, dtype == DType::bf16);
          check_bytes(shape, out, dtype);
          ++checked;
        }
    }
  }
  CHECK(checked > 0);
}

TEST_CASE("code_product: a result that needs the numbers in memory is refused") {
  const CodeProduct a{.shape = {1, small_product, 8}, .out = 2};
  for (const Column& column : columns()) {
    if (!column.backend->code_product.run || column.backend == &reference_backend()) continue;
    CHECK(column.backend->code_product.run(context_of(column), a) == Status::unsupported_shape);
  }
}

}  // namespace comera::kernels::test
