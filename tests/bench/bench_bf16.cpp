// Times the products of linear layers in float32 against products of bf16 factors with float32 sums, by AVX512-BF16 and
// by AMX. float32 is the best of three: the op of the CPU backend, OpenBLAS, and libxsmm over blocks of 64 rows
// (weights packed or transposed beforehand). bf16 begins and ends with float32 tensors: rounding and packing of both
// factors count, and are printed apart. One thread; processor milliseconds, medians of interleaved rounds.
//   bench_bf16 [rounds] [text that names must contain]
#include <cblas.h>
#include <immintrin.h>
#include <libxsmm.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/host/cpu_backend.h"
#include "kernels/host/thread_pool.h"
#include "kernels/linear.h"

// GCC 12 warns about undefined operands inside its own intrinsics.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wrestrict"

#define COMERA_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))
#define COMERA_AMX __attribute__((target("avx512f,avx512bw,amx-tile,amx-bf16")))

namespace {

using namespace comera::kernels;

double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}
double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Aligned like the tensors of an arena.
template <class T>
struct LineAllocator {
  using value_type = T;
  T* allocate(std::size_t count) { return static_cast<T*>(std::aligned_alloc(64, (count * sizeof(T) + 63) / 64 * 64)); }
  void deallocate(T* p, std::size_t) { std::free(p); }
  bool operator==(const LineAllocator&) const { return true; }
};
using Floats = std::vector<float, LineAllocator<float>>;
using Words = std::vector<std::uint32_t, LineAllocator<std::uint32_t>>;  // pairs of bf16

Floats numbers(std::int64_t count, float scale = 1) {
  Floats v(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < v.size(); ++i)
    v[i] = scale * (static_cast<float>((i * 2654435761u >> 7) % 2001) / 1000 - 1);
  return v;
}

// c[m, n] = a b; a is [m, k], or stored transposed [k, m]; b is [k, n], or stored transposed [n, k]. All contiguous;
// m, n and k are multiples of 32.
struct Shape {
  std::int64_t m, n, k;
  bool transpose_a = false, transpose_b = false;
};

// A tile of a factor: 16 rows of 16 pairs. Tiles of a: a row of c per row, two neighbours of k per pair. Tiles of b:
// two neighbours of k per row, a column of c per pair.
constexpr std::int64_t tile_words = 256, block_rows = 256, block_k = 1024;

COMERA_BF16 __m512i rounded(const float* low, const float* high) {
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(_mm512_loadu_ps(high), _mm512_loadu_ps(low)));
}

// 16 rows of 32 neighbours.
COMERA_BF16 void pack_straight(const float* from, std::int64_t ld, std::uint32_t* tile) {
  for (std::int64_t i = 0; i < 16; ++i) _mm512_store_si512(tile + 16 * i, rounded(from + i * ld, from + i * ld + 16));
}

// 32 rows of 16 columns; a pair holds two rows.
COMERA_BF16 void pack_pairs(const float* from, std::int64_t ld, std::uint32_t* tile) {
  alignas(64) std::uint16_t order[32];
  for (std::uint16_t i = 0; i < 32; ++i) order[i] = static_cast<std::uint16_t>(i / 2 + i % 2 * 16);
  const __m512i interleave = _mm512_load_si512(order);
  for (std::int64_t i = 0; i < 16; ++i)
    _mm512_store_si512(tile + 16 * i,
                       _mm512_permutexvar_epi16(interleave, rounded(from + 2 * i * ld, from + (2 * i + 1) * ld)));
}

// Exchanges the rows and the pairs of a tile.
COMERA_BF16 void transpose_tile(std::uint32_t* tile) {
  __m512i r[16], t[16];
  for (int i = 0; i < 16; ++i) r[i] = _mm512_load_si512(tile + 16 * i);
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2)
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]), t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]), r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]), r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88), t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    _mm512_store_si512(tile + 16 * i, _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88));
    _mm512_store_si512(tile + 16 * (i + 8), _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd));
    _mm512_store_si512(tile + 16 * (i + 4), _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88));
    _mm512_store_si512(tile + 16 * (i + 12), _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xdd));
  }
}

// A factor in panels of 32 rows of a, or columns of b; in a panel two tiles per 32 of k. Calls pack(panel, k, tile) for
// all tiles, in the order in which the factor lies in memory.
template <class Pack>
void for_tiles(std::int64_t panels, std::int64_t k, bool k_outside, std::uint32_t* to, Pack pack) {
  const std::int64_t outer = k_outside ? k : panels, inner = k_outside ? panels : k;
  for (std::int64_t o = 0; o < outer; o += 32)
    for (std::int64_t i = 0; i < inner; i += 32)
      for (std::int64_t half = 0; half < 32; half += 16) {
        const std::int64_t panel = k_outside ? i : o, p = k_outside ? o : i;
        pack(panel + half, p, to + (panel / 32 * (k / 32) + p / 32) * 2 * tile_words + half / 16 * tile_words);
      }
}

// Rows [row, row + rows) of a at [first, first + k).
COMERA_BF16 void pack_a(const Shape& s, const float* a, std::int64_t row, std::int64_t rows, std::int64_t first,
                        std::int64_t k, std::uint32_t* to) {
  for_tiles(rows, k, s.transpose_a, to, [&](std::int64_t i, std::int64_t p, std::uint32_t* tile) COMERA_BF16 {
    if (s.transpose_a)
      pack_pairs(a + (first + p) * s.m + row + i, s.m, tile), transpose_tile(tile);
    else
      pack_straight(a + (row + i) * s.k + first + p, s.k, tile);
  });
}

// All of b, in blocks of block_k.
COMERA_BF16 void pack_b(const Shape& s, const float* b, std::uint32_t* to) {
  for (std::int64_t first = 0; first < s.k; first += block_k) {
    const std::int64_t k = std::min(block_k, s.k - first);
    for_tiles(s.n, k, !s.transpose_b, to + first * s.n / 2,
              [&](std::int64_t j, std::int64_t p, std::uint32_t* tile) COMERA_BF16 {
                if (s.transpose_b)
                  pack_straight(b + j * s.k + first + p, s.k, tile), transpose_tile(tile);
                else
                  pack_pairs(b + (first + p) * s.n + j, s.n, tile);
              });
  }
}

// c[32, 32] = or += the product of two packed panels.
using Kernel = void (*)(std::int64_t k, const std::uint32_t* a, const std::uint32_t* b, bool accumulate, float* c,
                        std::int64_t ldc);

COMERA_AMX void amx_kernel(std::int64_t k, const std::uint32_t* a, const std::uint32_t* b, bool accumulate, float* c,
                           std::int64_t ldc) {
  const std::int64_t stride = ldc * 4;
  if (accumulate) {
    _tile_loadd(0, c, stride);
    _tile_loadd(1, c + 16, stride);
    _tile_loadd(2, c + 16 * ldc, stride);
    _tile_loadd(3, c + 16 * ldc + 16, stride);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (std::int64_t p = 0; p < k; p += 32, a += 2 * tile_words, b += 2 * tile_words) {
    _tile_loadd(4, a, 64);
    _tile_loadd(6, b, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, b + tile_words, 64);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, a + tile_words, 64);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, c, stride);
  _tile_stored(1, c + 16, stride);
  _tile_stored(2, c + 16 * ldc, stride);
  _tile_stored(3, c + 16 * ldc + 16, stride);
}

COMERA_BF16 void avx_kernel(std::int64_t k, const std::uint32_t* a, const std::uint32_t* b, bool accumulate, float* c,
                            std::int64_t ldc) {
  for (std::int64_t i = 0; i < 32; i += 8) {
    __m512 sum[8][2];
    for (int r = 0; r < 8; ++r)
      for (int h = 0; h < 2; ++h)
        sum[r][h] = accumulate ? _mm512_loadu_ps(c + (i + r) * ldc + 16 * h) : _mm512_setzero_ps();
    const std::uint32_t* rows = a + i * 16;  // 16 words per row of a tile
    for (std::int64_t p = 0; p < k / 32; ++p)
      for (std::int64_t q = 0; q < 16; ++q) {
        const auto b0 = reinterpret_cast<__m512bh>(_mm512_load_si512(b + 2 * p * tile_words + 16 * q));
        const auto b1 = reinterpret_cast<__m512bh>(_mm512_load_si512(b + (2 * p + 1) * tile_words + 16 * q));
#pragma GCC unroll 8
        for (int r = 0; r < 8; ++r) {
          const auto x =
              reinterpret_cast<__m512bh>(_mm512_set1_epi32(static_cast<int>(rows[2 * p * tile_words + 16 * r + q])));
          sum[r][0] = _mm512_dpbf16_ps(sum[r][0], x, b0), sum[r][1] = _mm512_dpbf16_ps(sum[r][1], x, b1);
        }
      }
    for (int r = 0; r < 8; ++r)
      for (int h = 0; h < 2; ++h) _mm512_storeu_ps(c + (i + r) * ldc + 16 * h, sum[r][h]);
  }
}

// GFLOP/s of one instruction in registers, without memory.
template <class Loop>
double peak(Loop loop, double flops) {
  double best = 1e9;
  for (int i = 0; i < 20; ++i) {
    const double start = processor_seconds();
    loop();
    best = std::min(best, processor_seconds() - start);
  }
  return flops / best * 1e-9;
}
constexpr int peak_rounds = 20000, peak_sums = 24;

COMERA_BF16 void float_loop() {
  __m512 sum[peak_sums];
  for (auto& s : sum) s = _mm512_set1_ps(1);
  const __m512 x = _mm512_set1_ps(0.5f);
  for (int i = 0; i < peak_rounds; ++i)
#pragma GCC unroll 24
    for (auto& s : sum) s = _mm512_fmadd_ps(s, x, x);
  for (auto& s : sum) asm volatile("" ::"v"(s));
}
COMERA_BF16 void bf16_loop() {
  __m512 sum[peak_sums];
  for (auto& s : sum) s = _mm512_set1_ps(1);
  const auto x = reinterpret_cast<__m512bh>(_mm512_setzero_si512());
  for (int i = 0; i < peak_rounds; ++i)
#pragma GCC unroll 24
    for (auto& s : sum) s = _mm512_dpbf16_ps(s, x, x);
  for (auto& s : sum) asm volatile("" ::"v"(s));
}
COMERA_AMX void amx_loop() {
  for (int i = 0; i < peak_rounds; ++i) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
}

struct Memory {
  Words a, b;
  explicit Memory(const Shape& s)
      : a(static_cast<std::size_t>(block_rows * block_k / 2)), b(static_cast<std::size_t>(s.n * s.k / 2)) {}
};

COMERA_BF16 void stream_rows(const float* block, float* c, std::int64_t ldc) {
  for (std::int64_t i = 0; i < 32; ++i)
    for (int h = 0; h < 32; h += 16) _mm512_stream_ps(c + i * ldc + h, _mm512_load_ps(block + 32 * i + h));
}

// b is packed. Large results of one block of k are streamed past the cache, like those of the backend.
void multiply_packed(const Shape& s, Kernel kernel, const float* a, Memory& memory, float* c) {
  alignas(64) float block[32 * 32];
  const bool streams = s.k <= block_k && s.m * s.n >= 1 << 20;
  for (std::int64_t row = 0; row < s.m; row += block_rows) {
    const std::int64_t rows = std::min(block_rows, s.m - row);
    for (std::int64_t first = 0; first < s.k; first += block_k) {
      const std::int64_t k = std::min(block_k, s.k - first);
      pack_a(s, a, row, rows, first, k, memory.a.data());
      for (std::int64_t j = 0; j < s.n; j += 32)
        for (std::int64_t i = 0; i < rows; i += 32) {
          float* to = c + (row + i) * s.n + j;
          kernel(k, memory.a.data() + i * k / 2, memory.b.data() + (first * s.n + j * k) / 2, first > 0,
                 streams ? block : to, streams ? 32 : s.n);
          if (streams) stream_rows(block, to, s.n);
        }
    }
  }
}

COMERA_AMX void configure_tiles() {
  alignas(64) struct {
    std::uint8_t palette = 1, start = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {};
    std::uint8_t rows[16] = {};
  } tiles;
  for (int i = 0; i < 8; ++i) tiles.row_bytes[i] = 64, tiles.rows[i] = 16;
  asm volatile("" ::"r"(&tiles) : "memory");  // the intrinsic declares a read of 8 bytes alone
  _tile_loadconfig(&tiles);
}

// Linux gives a process the tile registers after a request.
bool has_amx() {
  constexpr int request_permission = 0x1023, tile_data = 18;
  unsigned a = 7, b = 0, c = 0, d = 0;
  asm volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
  return (d >> 22 & 1) != 0 && (d >> 24 & 1) != 0 && syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

// c = a b by libxsmm, 64 rows of c at a time. b is [k, n].
struct RowLoop {
  static constexpr std::int64_t rows = 64;
  Shape s;
  libxsmm_smmfunction kernel;
  explicit RowLoop(const Shape& s) : s(s) {
    const int n = static_cast<int>(s.n), k = static_cast<int>(s.k), flags = LIBXSMM_GEMM_FLAG_NONE;
    const float alpha = 1, beta = 0;
    kernel = libxsmm_smmdispatch(n, rows, k, &n, &k, &n, &alpha, &beta, &flags, nullptr);
  }
  void operator()(const float* a, const float* b, float* c) const {
    for (std::int64_t i = 0; i < s.m; i += rows) kernel(b, a + i * s.k, c + i * s.n);
  }
};

struct Candidate {
  std::string name;
  std::function<void()> run;
  std::vector<double> seconds = {};
};

class Bench {
 public:
  Bench(int rounds, std::string filter) : rounds_(rounds), filter_(std::move(filter)) {
    const char* error = nullptr;
    backend_ = cpu_backend("auto", &error);
    if (!backend_) {
      std::fprintf(stderr, "%s\n", error);
      std::exit(2);
    }
    amx_ = has_amx();
    avx_ = cpu_supports("v4bf16");
    if (amx_) configure_tiles();
    std::printf("%s; AVX512-BF16: %s; AMX: %s; 1 thread, %d rounds\n", cpu_blas_description(), avx_ ? "yes" : "no",
                amx_ ? "yes" : "no", rounds_);
    constexpr double lanes = 2.0 * peak_rounds * peak_sums * 16;
    if (avx_) std::printf("GFLOP/s in registers: float32 %.0f", peak(float_loop, lanes));
    if (avx_) std::printf(", AVX512-BF16 %.0f", peak(bf16_loop, 2 * lanes));
    if (amx_) std::printf(", AMX %.0f", peak(amx_loop, 2.0 * peak_rounds * 4 * 16 * 16 * 32));
    std::printf(
        "\n\n| product | float32 ms | by | AVX512-BF16 ms | ratio | AMX ms | ratio | of it: b packed | a packed |\n");
    std::printf("|---|---:|---|---:|---:|---:|---:|---:|---:|\n");
  }

  void time(const std::string& name, const Shape& s) {
    if (!avx_ || name.find(filter_) == std::string::npos) return;
    const Floats a = numbers(s.m * s.k), b = numbers(s.k * s.n, .05f);
    Floats c = numbers(s.m * s.n), wanted = c, straight_b = b;
    Memory memory(s);
    const auto sgemm = [&](Floats& to) {
      cblas_sgemm(CblasRowMajor, s.transpose_a ? CblasTrans : CblasNoTrans, s.transpose_b ? CblasTrans : CblasNoTrans,
                  static_cast<int>(s.m), static_cast<int>(s.n), static_cast<int>(s.k), 1, a.data(),
                  static_cast<int>(s.transpose_a ? s.m : s.k), b.data(), static_cast<int>(s.transpose_b ? s.k : s.n), 0,
                  to.data(), static_cast<int>(s.n));
    };
    std::vector<Candidate> all{{"op", [&] { run_op(s, a, b, c); }}, {"OpenBLAS", [&] { sgemm(c); }}};
    if (!s.transpose_a)
      all.push_back({"libxsmm", [&, loop = RowLoop(s)] { loop(a.data(), straight_b.data(), c.data()); }});
    const std::size_t in_float = all.size();
    all.push_back({"pack b", [&] { pack_b(s, b.data(), memory.b.data()); }});
    all.push_back({"pack a", [&] { pack_all_of_a(s, a.data(), memory); }});
    all.push_back({"AVX512-BF16", [&] { multiply_packed(s, avx_kernel, a.data(), memory, c.data()); }});
    if (amx_) all.push_back({"AMX", [&] { multiply_packed(s, amx_kernel, a.data(), memory, c.data()); }});
    for (int round = -1; round < rounds_; ++round)
      for (Candidate& candidate : all) {
        const double start = processor_seconds();
        candidate.run();
        if (round >= 0) candidate.seconds.push_back(processor_seconds() - start);
      }
    sgemm(wanted);
    for (std::size_t i = in_float + 2; i < all.size(); ++i) all[i].run(), check(s, all[i].name, c, wanted);
    print(name, all, in_float);
  }

 private:
  void run_op(const Shape& s, const Floats& a, const Floats& b, Floats& c) {
    const Context context{.stream = &pool_};
    if (s.transpose_a && s.m * s.n <= 1 << 17) {  // the path of TT layers: sums of groups of rows
      const Product product{.tokens = s.k,
                            .in = s.m,
                            .out = s.n,
                            .x = a.data(),
                            .ldx = s.m,
                            .g = b.data(),
                            .ldg = s.n,
                            .result = c.data(),
                            .ld_result = s.n};
      workspace_.resize(backend_->product.workspace_bytes(context, product) / sizeof(float) + 16);
      Context with = context;
      with.workspace = workspace_.data(), with.workspace_bytes = workspace_.size() * sizeof(float);
      backend_->product.run(with, product);
      return;
    }
    MatMul product{};
    product.m = s.m, product.n = s.n, product.k = s.k, product.a = a.data(), product.b = b.data(), product.c = c.data();
    product.lda = s.transpose_a ? s.m : s.k, product.ldb = s.transpose_b ? s.k : s.n, product.ldc = s.n;
    product.transpose_a = s.transpose_a, product.transpose_b = s.transpose_b;
    backend_->matmul.run(context, product);
  }

  static void pack_all_of_a(const Shape& s, const float* a, Memory& memory) {
    for (std::int64_t row = 0; row < s.m; row += block_rows)
      for (std::int64_t first = 0; first < s.k; first += block_k)
        pack_a(s, a, row, std::min(block_rows, s.m - row), first, std::min(block_k, s.k - first), memory.a.data());
  }

  // Both factors round by at most 2^-8 of their size; sums of k such errors with random signs.
  static void check(const Shape& s, const std::string& name, const Floats& found, const Floats& wanted) {
    double error = 0, norm = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      const double difference = static_cast<double>(found[i]) - wanted[i];
      error += difference * difference, norm += static_cast<double>(wanted[i]) * wanted[i];
    }
    if (std::sqrt(error) <= 0x1p-7 * std::sqrt(norm)) return;
    std::fprintf(stderr, "%s, %lld x %lld x %lld: error %.3g of the norm\n", name.c_str(), static_cast<long long>(s.m),
                 static_cast<long long>(s.n), static_cast<long long>(s.k), std::sqrt(error / norm));
    std::exit(1);
  }

  void print(const std::string& name, std::vector<Candidate>& all, std::size_t in_float) const {
    const auto ms = [&](std::size_t i) { return 1e3 * median_of(all[i].seconds); };
    std::size_t best = 0;
    for (std::size_t i = 1; i < in_float; ++i)
      if (ms(i) < ms(best)) best = i;
    const double pack = ms(in_float), avx = pack + ms(in_float + 2);
    std::printf("| %s | %.2f | %s | %.2f | %.2fx |", name.c_str(), ms(best), all[best].name.c_str(), avx,
                ms(best) / avx);
    if (amx_) {
      const double amx = pack + ms(in_float + 3);
      std::printf(" %.2f | %.2fx |", amx, ms(best) / amx);
    } else {
      std::printf(" | |");
    }
    std::printf(" %.2f | %.2f |\n", pack, ms(in_float + 1));
    std::fflush(stdout);
  }

  ThreadPool pool_{1};
  const Backend* backend_ = nullptr;
  Floats workspace_;
  int rounds_;
  std::string filter_;
  bool amx_ = false, avx_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  Bench bench(argc > 1 ? std::atoi(argv[1]) : 15, argc > 2 ? argv[2] : "");
  constexpr std::int64_t tokens = 4096;
  for (const auto& [in, out] : {std::pair<std::int64_t, std::int64_t>{768, 768}, {768, 3072}, {3072, 768}}) {
    const std::string size = " " + std::to_string(in) + "-" + std::to_string(out);
    bench.time("dense" + size + " X W", {tokens, out, in});
    bench.time("dense" + size + " dY W^T", {tokens, in, out, false, true});
    bench.time("dense" + size + " X^T dY", {in, out, tokens, true, false});
  }
  for (const std::int64_t width : {768, 3072}) {
    const std::string size = " " + std::to_string(width) + ", rank 32: ";
    bench.time("TT" + size + "X A", {tokens, 32, width});
    bench.time("TT" + size + "T B", {tokens, width, 32});
    bench.time("TT" + size + "dY B^T", {tokens, 32, width, false, true});
    bench.time("TT" + size + "U A^T", {tokens, width, 32, false, true});
    bench.time("TT" + size + "X^T U", {width, 32, tokens, true, false});
    bench.time("TT" + size + "T^T dY", {32, width, tokens, true, false});
  }
}
