#include "kernels/grids.h"

#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "lib/core/half.h"
#include "tests/kernels/harness/cases.h"
#include "tests/kernels/simd/cpu_tables.h"

namespace comera::kernels::test {
namespace {

// Random codes, with scales of both signs and, in between, one below 2^-14 and one of 0.
std::vector<std::uint8_t> random_lines(const GridLines& shape) {
  std::mt19937 random(static_cast<unsigned>(shape.lines * 131 + shape.numbers));
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(shape.lines * shape.line_bytes()));
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random() & 0xFF);
  const auto put = [&](std::size_t at, float value) {
    const std::uint16_t half = float_to_half(value);
    bytes[at] = static_cast<std::uint8_t>(half & 0xFF), bytes[at + 1] = static_cast<std::uint8_t>(half >> 8);
  };
  std::normal_distribution<float> normal;
  const std::int64_t group = group_of(shape.grid);
  std::size_t at = 0;
  for (std::int64_t i = 0; i < shape.lines * shape.groups(); ++i) {
    const std::int64_t numbers = std::min(group, shape.numbers - i % shape.groups() * group);
    const auto next = at + static_cast<std::size_t>(GridLines{shape.grid, 1, numbers, nullptr}.line_bytes());
    put(at, i % 11 == 3 ? 3e-6f : i % 11 == 7 ? 0.0f : normal(random) / 8);
    if (shape.grid == Grid::q4_1) put(at + 2, normal(random));
    for (std::size_t k = at + 2; shape.grid == Grid::q8_0 && k < next; ++k)
      if (bytes[k] == 0x80) bytes[k] = 0x81;  // -128 is no code
    at = next;
  }
  return bytes;
}

struct Shape {
  Grid grid;
  std::int64_t tokens, in, out;
  Activation activation = Activation::none;
  bool bias = true, accumulate = false;
  std::int64_t gap = 0;

  std::string name() const {
    return "grid " + std::to_string(static_cast<int>(grid)) + " K=" + std::to_string(tokens) +
           " M=" + std::to_string(in) + " N=" + std::to_string(out) + " " + name_of(activation) +
           (bias ? "" : " no bias") + (accumulate ? " accumulate" : "") + (gap ? " gaps" : "");
  }
};

GridLines lines_of(Grid grid, std::int64_t lines, std::int64_t numbers, const void* bytes) {
  return {grid, lines, numbers, static_cast<const std::uint8_t*>(bytes)};
}

Case linear(const Shape& s) {
  Case c(s.name());
  c.data("x", s.tokens, s.in, s.in + s.gap).data("b", 1, s.out);
  c.bytes("w", random_lines({s.grid, s.out, s.in, nullptr}));
  s.accumulate ? c.data("y", s.tokens, s.out, s.out + s.gap) : c.empty("y", s.tokens, s.out, s.out + s.gap);
  c.forward = [s](Run& r) {
    r.call(&Backend::grid_linear, [&] {
      GridLinear a;
      a.tokens = s.tokens, a.weight = lines_of(s.grid, s.out, s.in, r.in("w"));
      a.x = r.in("x"), a.ldx = s.in + s.gap, a.bias = s.bias ? r.in("b") : nullptr;
      a.activation = s.activation, a.accumulate = s.accumulate, a.y = r.out("y"), a.ldy = s.out + s.gap;
      return a;
    });
  };
  return c;
}

Case look_up(Grid grid, std::int64_t rows, std::int64_t columns, const std::vector<std::int64_t>& ids, bool bags,
             bool accumulate) {
  Case c("look-up " + std::to_string(static_cast<int>(grid)) + " N=" + std::to_string(columns) + (bags ? " bags" : "") +
         (accumulate ? " accumulate" : ""));
  const auto count = static_cast<std::int64_t>(ids.size());
  const std::vector<std::int64_t> offsets = {0, 2, 2, count};
  const std::int64_t outputs = bags ? 3 : count;
  c.integers("id", ids).integers("offsets", offsets);
  c.bytes("table", random_lines({grid, rows, columns, nullptr}));
  accumulate ? c.data("y", outputs, columns) : c.empty("y", outputs, columns);
  c.forward = [=](Run& r) {
    r.call(&Backend::grid_embedding, [&] {
      const Bags of{outputs, count, r.ints("id"), bags ? r.ints("offsets") : nullptr};
      return GridEmbedding{of, lines_of(grid, rows, columns, r.in("table")), r.out("y"), accumulate};
    });
  };
  return c;
}

// A copy of bytes before and behind which reading ends the program.
class Guarded {
 public:
  explicit Guarded(const std::vector<std::uint8_t>& bytes) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    REQUIRE(bytes.size() <= page);
    map_ = mmap(nullptr, size_ = 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(map_ != MAP_FAILED);
    std::uint8_t* middle = static_cast<std::uint8_t*>(map_) + page;
    REQUIRE(mprotect(middle, page, PROT_READ | PROT_WRITE) == 0);
    at_first_ = std::copy(bytes.begin(), bytes.end(), middle) - std::ssize(bytes);
    at_last_ = std::copy(bytes.begin(), bytes.end(), middle + page - bytes.size()) - std::ssize(bytes);
  }
  ~Guarded() { munmap(map_, size_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  std::array<const std::uint8_t*, 2> copies() const { return {at_first_, at_last_}; }

 private:
  void* map_ = nullptr;
  std::size_t size_ = 0;
  std::uint8_t *at_first_ = nullptr, *at_last_ = nullptr;
};

}  // namespace

static std::vector<Case> grid_cases() {
  std::vector<Case> cases;
  for (const Grid grid : all_grids) {
    cases.push_back(linear({grid, 1, 32, 5}));
    cases.push_back(linear({.grid = grid, .tokens = 1, .in = 77, .out = 70, .activation = Activation::gelu, .gap = 3}));
    cases.push_back(linear({.grid = grid, .tokens = 7, .in = 200, .out = 33, .bias = false, .accumulate = true}));
    cases.push_back(linear({.grid = grid,
                            .tokens = 21,
                            .in = 301,
                            .out = 43,
                            .activation = Activation::silu,
                            .accumulate = true,
                            .gap = 5}));
    cases.push_back(linear({.grid = grid, .tokens = 70, .in = 128, .out = 130, .bias = false}));
    cases.push_back(look_up(grid, 9, 45, {3, 0, 8, 8, 1}, false, false));
    cases.push_back(look_up(grid, 9, 32, {3, 0, 8, 8, 1}, true, true));
  }
  cases.push_back(linear({.grid = Grid::q4_0, .tokens = 3, .in = 5, .out = 2, .activation = Activation::tanh}));
  cases.push_back(linear({.grid = Grid::q4_0, .tokens = 0, .in = 32, .out = 4}));
  cases.push_back(linear({.grid = Grid::q4_0, .tokens = 2, .in = 32, .out = 0}));
  for (const std::int64_t tokens : {1, 5})  // parts of several tiles of lines
    cases.push_back(linear({.grid = Grid::q3_0, .tokens = tokens, .in = 40, .out = 2167}));
  return cases;
}

TEST_CASE("grids: every backend within the derived bound of the reference") { check_backends(grid_cases()); }
TEST_CASE("grids: the same bytes again and for any number of threads") { check_repeat(grid_cases()); }

TEST_CASE("grids: nothing before and behind the weights is read") {
  constexpr std::int64_t in = 70, most = 9;
  for (const Backend* cpu : cpu_tables())
    for (const Grid grid : all_grids)
      for (const std::int64_t out : {1, 4, 7}) {
        const std::vector<std::uint8_t> bytes = random_lines({grid, out, in, nullptr});
        const Guarded guarded(bytes);
        const std::vector<float> x(in * most, 1.0f);
        std::vector<float> wanted(static_cast<std::size_t>(out * most)), y = wanted;
        for (const std::int64_t tokens : {std::int64_t(1), std::int64_t(4), most}) {
          const auto product = [&](const std::uint8_t* weights, std::vector<float>& to) {
            return call_cpu(cpu->grid_linear, GridLinear{.tokens = tokens,
                                                         .weight = {grid, out, in, weights},
                                                         .x = x.data(),
                                                         .ldx = in,
                                                         .y = to.data(),
                                                         .ldy = out});
          };
          REQUIRE(product(bytes.data(), wanted) == Status::ok);
          for (const std::uint8_t* copy : guarded.copies()) {
            CHECK(product(copy, y) == Status::ok);
            CHECK(y == wanted);
          }
        }
      }
}

TEST_CASE("grids: every bit pattern of half precision") {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float expected = half_to_float(static_cast<std::uint16_t>(bits)),
                found = half_value(static_cast<std::uint16_t>(bits));
    if (std::isnan(expected)) {
      CHECK(std::isnan(found));
    } else if (found != expected || std::signbit(found) != std::signbit(expected)) {
      FAIL("bits " << bits << ": " << found << " instead of " << expected);
    }
  }
}

}  // namespace comera::kernels::test
