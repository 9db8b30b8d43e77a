// Times the factorisation of one large weight and its parts: wall and processor seconds, and the error relative to the
// optimum's.
//   bench_low_rank [threads] [rows] [columns] [rank] [full]
#include <time.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

#include "kernels/host/thread_pool.h"
#include "lib/tt/chain.h"
#include "lib/tt/low_rank.h"

namespace {

using namespace comera;
using tt::Matrix;

double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

template <class F>
auto timed(const char* name, F&& f) {
  const auto start = std::chrono::steady_clock::now();
  const double processor = processor_seconds();
  auto result = f();
  std::printf("%-52s wall %6.2f s  processor %6.2f s\n", name,
              std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
              processor_seconds() - processor);
  std::fflush(stdout);
  return result;
}

// A flat spectrum, as independent weights have: the hardest case for an iterative method.
Matrix random_weight(std::int64_t rows, std::int64_t columns) {
  std::mt19937 engine(1);
  std::normal_distribution<double> normal;
  Matrix a(rows, columns);
  for (double& value : a.values) value = normal(engine);
  return a;
}

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](int i, int otherwise) { return argc > i ? std::atoi(argv[i]) : otherwise; };
  kernels::ThreadPool pool(number(1, 2));
  const tt::UsePool use(pool);
  const std::int64_t rank = number(4, 512);
  const Matrix w = random_weight(number(2, 4096), number(3, 11008));
  std::printf("%lld x %lld at rank %lld, %d threads\n", static_cast<long long>(w.rows),
              static_cast<long long>(w.columns), static_cast<long long>(rank), pool.threads());
  const tt::LowRankCurve curve = timed("LowRankCurve at that rank", [&] { return tt::LowRankCurve(w, rank); });
  const double loss = curve.losses()[static_cast<std::size_t>(rank)];
  std::printf("  relative error %.6f, estimated optimum %.6f\n", std::sqrt(loss / curve.losses()[0]),
              std::sqrt(curve.best_loss(rank) / curve.losses()[0]));
  const tt::Chain chain = tt::chain_of_pair(curve.pair(rank));
  const tt::Chain fixed = timed("fix_gauge", [&] { return tt::fix_gauge(chain); });
  const double error = timed("the exact error of the stored pair", [&] { return tt::chain_error(w, fixed); });
  std::printf("  relative error %.6f\n", error);
  if (argc <= 5) return 0;
  const std::vector<double> losses =
      timed("low_rank_losses, the whole spectrum", [&] { return tt::low_rank_losses(w); });
  std::printf("  optimum %.6f, ours above it by %.4f %% of the loss\n",
              std::sqrt(losses[static_cast<std::size_t>(rank)] / losses[0]),
              100 * (loss / losses[static_cast<std::size_t>(rank)] - 1));
  timed("LowRankCurve of every rank", [&] { return tt::LowRankCurve(w).losses()[1]; });
  if (std::string(argv[5]) == "svd") timed("LAPACK gesdd", [&] { return tt::svd(w).values[0]; });
}
