// Stores past the caches: they write the right floats for any alignment of rows, and are not much slower than plain
// stores.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <vector>

#include "kernels/host/cpu_backend.h"
#include "tests/kernels/simd/stream_probe.h"

namespace comera::kernels {
namespace {

struct Set {
  const char* name;
  WriteRows write;
};

std::vector<Set> machine() {
  std::vector<Set> list;
  if (cpu_supports("v3")) list.push_back({"v3", cpu_v3::write_rows});
  if (cpu_supports("v4")) list.push_back({"v4", cpu_v4::write_rows});
  if (list.empty()) WARN("SKIPPED: no AVX2 on this machine");
  return list;
}

struct Freed {
  void operator()(float* p) const { std::free(p); }
};
using Lines = std::unique_ptr<float[], Freed>;
Lines lines_of(std::int64_t floats) {
  Lines lines(static_cast<float*>(std::aligned_alloc(64, static_cast<std::size_t>(floats + 15) / 16 * 64)));
  std::fill_n(lines.get(), floats, -1.0f);
  return lines;
}

// Processor time of this thread in seconds. Other programs disturb it least.
double seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}
double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Ratio of the times of streaming and plain stores: medians of alternating runs.
double streamed_to_plain(const Set& set, std::int64_t rows, std::int64_t columns, const float* x, float* y,
                         std::int64_t ldy) {
  std::vector<double> times[2];
  for (int run = 0; run < 7; ++run)
    for (const bool streaming : {false, true}) {
      const double start = seconds();
      set.write(streaming, rows, columns, x, y, ldy);
      times[streaming].push_back(seconds() - start);
    }
  return median(times[1]) / median(times[0]);
}

}  // namespace

TEST_CASE("stream: rows of any alignment are written completely, and nothing else") {
  constexpr std::int64_t rows = 70, most = 300;
  const Lines x = lines_of(64 * most);
  for (std::int64_t i = 0; i < 64 * most; ++i) x[static_cast<std::size_t>(i)] = static_cast<float>(i);
  for (const Set& set : machine())
    for (const std::int64_t columns : {1, 7, 8, 15, 16, 17, 31, 40, 128, 136, 300})
      for (const std::int64_t offset : {0, 1, 4, 8, 12, 16, 24})
        for (const std::int64_t gap : {0, 3, 8, 16}) {
          const std::int64_t ld = columns + gap, floats = offset + rows * ld + 16;
          const Lines y = lines_of(floats);
          set.write(true, rows, columns, x.get(), y.get() + offset, ld);
          std::int64_t wrong = 0;
          for (std::int64_t i = 0; i < floats; ++i) {
            const std::int64_t at = i - offset, row = at / ld, column = at % ld;
            const bool inside = at >= 0 && row < rows && column < columns;
            wrong +=
                y[static_cast<std::size_t>(i)] != (inside ? static_cast<float>(row % 64 * columns + column) : -1.0f);
          }
          INFO(set.name << ", " << columns << " columns from " << offset << ", gap " << gap);
          CHECK(wrong == 0);
        }
}

// A line that was partly streamed and partly stored cost 5 to 10 times a plain store. The rows begin at a line, half a
// line after one, and one lane after one; in the last two cases nothing is streamed, so both stores are equal. A
// disturbed measurement is repeated; two equal stores still were seen to differ by a third on a shared machine.
TEST_CASE("stream: a streamed store does not lose to a plain one") {
  constexpr std::int64_t rows = 4096, columns = 3072;
  const Lines x = lines_of(64 * columns), y = lines_of(rows * (columns + 8) + 64);
  for (const Set& set : machine())
    for (const std::int64_t offset : {0, 8, 1})
      for (const std::int64_t gap : {0, 8}) {
        double best = 1e9;
        for (int attempt = 0; attempt < 9 && best > 1.4; ++attempt)
          best = std::min(best, streamed_to_plain(set, rows, columns, x.get(), y.get() + offset, columns + gap));
        std::printf("%s, rows from float %d on, gap %d: streamed %.2f of plain\n", set.name, static_cast<int>(offset),
                    static_cast<int>(gap), best);
        CHECK(best <= 1.4);
      }
}

}  // namespace comera::kernels
