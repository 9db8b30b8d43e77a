// The three checks that run a table of cases.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <complex>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include "kernels/cuda/common/runtime.h"
#include "kernels/cuda/emulator/threads.h"
#include "kernels/host/cpu_backend.h"
#include "kernels/host/thread_pool.h"
#include "tests/kernels/harness/bounds.h"
#include "tests/kernels/harness/element.h"
#include "tests/kernels/harness/gpu.h"
#include "tests/kernels/harness/harness.h"

namespace comera::kernels::test {
namespace {

using Complex = std::complex<double>;

const Column reference_column{"reference", &reference_backend(), nullptr, {}};

Column cuda_emulator() {
  using cuda::emulator::Order;
  Column column{"cuda emulator", &cuda::table(), nullptr, {}};
  for (Order order : {Order::rising, Order::falling, Order::shuffled})
    column.variations.emplace_back([order] { cuda::emulator::set_order(order); });
  return column;
}

std::vector<Column> find_columns() {
  std::vector<Column> found{{"reference f32", &reference_backend(), nullptr, {}}};
  for (const char* isa : cpu_isas) {
    const char* error = nullptr;
    const Backend* backend = cpu_backend(isa, &error);
    if (backend) {
      found.push_back({std::string("cpu ") + isa, backend, nullptr, {}});
    } else {
      WARN("SKIPPED: cpu " << isa << ": " << error);
    }
  }
  found.push_back(cuda_emulator());
  if (gpu().backend) {
    found.push_back({"cuda gpu", gpu().backend, gpu().stream, {}});
  } else if (std::getenv("COMERA_REQUIRE_GPU")) {
    FAIL_CHECK("no GPU: " << gpu().why);
  } else {
    WARN("SKIPPED: cuda gpu: " << gpu().why);
  }
  if (const char* wanted = std::getenv("COMERA_COLUMN"))
    std::erase_if(found, [&](const Column& column) { return column.name != wanted; });
  return found;
}

void execute(Run& run) {
  run.forward();
  run.backward();
}

void report_problems(const Case& c, const Run& run) {
  for (const std::string& problem : run.problems()) FAIL_CHECK(c.name << ": " << problem);
}

void print(const Column& column, const Summary& summary) {
  for (const auto& [op, seen] : summary) {
    if (seen.calls > 0)
      std::printf("%-24s %-14s %4d calls, largest error %.3f of its bound\n", op.c_str(), column.name.c_str(),
                  seen.calls, seen.largest);
    if (seen.missing > 0) WARN("SKIPPED: " << column.name << " lacks " << op << ", " << seen.missing << " calls");
  }
}

std::vector<Complex> numbers_of(Run& run, const Case& c, const std::string& name, Representation representation) {
  const Tensor& t = c.tensor(name);
  const std::uint8_t* data = run.buffers().at(name).data();
  std::vector<Complex> values;
  for (std::int64_t i = 0; i < t.rows; ++i)
    for (std::int64_t j = 0; j < t.columns; ++j) {
      const std::uint8_t* element = data + (i * t.ld + j) * element_bytes(t.kind, representation);
      Complex value;
      std::memcpy(&value, element, element_bytes(t.kind, representation));
      values.push_back(value);
    }
  return values;
}

constexpr double step = 1e-60;  // its square is negligible relative to 1

// d objective / d input[index] by the complex step, and the sum of absolute contributions of the outputs.
struct Derivative {
  double value = 0, magnitude = 0;
};
Derivative complex_step(const Case& c, const std::string& input, std::int64_t index) {
  Run run(c, reference_column, Representation::c128);
  const Tensor& t = c.tensor(input);
  const Complex moved(t.start[index], step);
  std::memcpy(run.buffers().at(input).data() + (index / t.columns * t.ld + index % t.columns) * sizeof moved, &moved,
              sizeof moved);
  run.forward();
  Derivative d;
  for (const Case::Output& output : c.outputs) {
    const std::vector<Complex> values = numbers_of(run, c, output.value, Representation::c128);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double weight = output.weight.empty() ? 1 : c.tensor(output.weight).start[i];
      d.value += weight * values[i].imag() / step;
      d.magnitude += std::abs(weight * values[i].imag() / step);
    }
  }
  return d;
}

// Returns all elements of a small tensor or a sample of a large one, and fewer if the forward is expensive.
std::vector<std::int64_t> sample(const Case& c, std::int64_t count) {
  std::int64_t size = 0;
  for (const Tensor& t : c.tensors) size += t.rows * t.columns;
  std::vector<std::int64_t> indices(count);
  for (std::int64_t i = 0; i < count; ++i) indices[i] = i;
  std::mt19937 random(1);
  std::shuffle(indices.begin(), indices.end(), random);
  indices.resize(std::min<std::int64_t>(count, size > 4000 ? 4 : 24));
  return indices;
}

double check_gradient(const Case& c, Run& backward, const Case::Gradient& g) {
  const std::vector<Complex> result = numbers_of(backward, c, g.gradient, Representation::f64);
  const Tensor& start = c.tensor(g.gradient);
  double largest = 0, size = 0;
  for (const Complex& value : result) size = std::max(size, std::abs(value.real()));
  for (std::int64_t i : sample(c, static_cast<std::int64_t>(result.size()))) {
    const Derivative wanted = complex_step(c, g.input, i);
    const double got = result[i].real() - (g.accumulated ? start.start[i] : 0);
    // An accumulated gradient was rounded relative to the sum, which includes its start value.
    const double scale = std::max(wanted.magnitude, size) + (g.accumulated ? std::abs(start.start[i]) : 0);
    const double error = got == wanted.value ? 0 : std::abs(got - wanted.value) / scale;
    largest = std::max(largest, error);
    if (!(error <= 1e-11))
      FAIL_CHECK(c.name << ": " << g.gradient << "[" << i << "] is " << got << ", the complex step gives "
                        << wanted.value);
  }
  return largest;
}

void check_same(const Case& c, const Column& column, Run& first, void* stream, const char* how) {
  Run again(c, column, Representation::f32, stream);
  execute(again);
  for (const auto& [name, buffer] : first.buffers())
    if (!same_bytes(buffer, again.buffers().at(name)))
      FAIL_CHECK(c.name << ": " << column.name << ": " << name << " has other bytes " << how);
}

}  // namespace

const std::vector<Column>& columns() {
  static const std::vector<Column> found = find_columns();
  return found;
}

std::vector<Case> chosen(std::vector<Case> cases) {
  const char *wanted = std::getenv("COMERA_CASE"), *full = std::getenv("COMERA_FULL");
  std::erase_if(
      cases, [&](const Case& c) { return (c.full && !full) || (wanted && c.name.find(wanted) == std::string::npos); });
  return cases;
}

void check_gradients(const std::vector<Case>& cases) {
  double largest = 0;
  int checked = 0;
  for (const Case& c : chosen(cases)) {
    if (c.gradients.empty()) continue;
    Run run(c, reference_column, Representation::f64);
    execute(run);
    report_problems(c, run);
    for (const Case::Gradient& g : c.gradients) largest = std::max(largest, check_gradient(c, run, g)), ++checked;
  }
  std::printf("%d gradients, largest relative difference from the complex step %.1e\n", checked, largest);
  CHECK((checked > 0 || std::getenv("COMERA_CASE")));
}

void check_backends(const std::vector<Case>& cases) {
  for (const Column& column : columns()) {
    Summary summary;
    for (const Case& c : chosen(cases)) {
      Run run(c, column, Representation::f32);
      Summary of_case;
      run.compare_with_reference(&of_case);
      execute(run);
      report_problems(c, run);
      for (const auto& [op, seen] : of_case) {
        if (column.on_device() && seen.calls > 0) print_share(seen.largest, op, column.name, c.name);
        Seen& sum = summary[op];
        sum = {sum.calls + seen.calls, sum.missing + seen.missing, std::max(sum.largest, seen.largest)};
      }
    }
    print(column, summary);
    CHECK((!summary.empty() || std::getenv("COMERA_CASE")));
  }
}

void check_repeat(const std::vector<Case>& cases) {
  int checked = 0;
  for (const Column& column : columns())
    for (const Case& c : chosen(cases)) {
      ++checked;
      Run first(c, column, Representation::f32);
      execute(first);
      report_problems(c, first);
      for (const auto& [a, b] : c.equal)
        if (!same_bytes(first.buffers().at(a), first.buffers().at(b)))
          FAIL_CHECK(c.name << ": " << column.name << ": " << a << " and " << b << " differ");
      check_same(c, column, first, nullptr, "the second time");
      for (const auto& vary : column.variations) {
        vary();
        check_same(c, column, first, nullptr, "with threads in another order");
      }
      for (int threads : {1, 2, 3}) {
        if (column.on_device()) break;
        ThreadPool pool(threads);
        check_same(c, column, first, &pool,
                   threads == 1   ? "with 1 thread"
                   : threads == 2 ? "with 2 threads"
                                  : "with 3 threads");
      }
    }
  CHECK((checked > 0 || std::getenv("COMERA_CASE")));
}

}  // namespace comera::kernels::test
