// Chooses the instruction set at start and configures OpenBLAS and libxsmm for it.
#include "kernels/host/cpu_backend.h"

#include <cblas.h>
#include <cpuid.h>
#include <libxsmm.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "kernels/backend.h"

// Internal functions of OpenBLAS that select the core type again, from OPENBLAS_CORETYPE.
extern "C" void gotoblas_dynamic_init();
extern "C" void gotoblas_dynamic_quit();

namespace comera::kernels {

namespace cpu_v3 {
const Backend& table();
double multiply_adds(std::int64_t rounds);
}  // namespace cpu_v3
namespace cpu_v4 {
const Backend& table();
double multiply_adds(std::int64_t rounds);
}  // namespace cpu_v4
namespace cpu_v4bf16 {
const Backend& table();
double multiply_adds(std::int64_t rounds);
}  // namespace cpu_v4bf16
namespace cpu_v4amx {
const Backend& table();
double multiply_adds(std::int64_t rounds);
}  // namespace cpu_v4amx

namespace {

// Sets OpenBLAS's core type from the processor's features, before OpenBLAS initialises itself. OpenBLAS does not
// recognise every processor (it then falls back to SSE3 code, ten times slower), and it obeys a core type inherited
// from the environment. Its own threads are never used: it does not split tall products well, and its split would
// depend on the number of threads.
__attribute__((constructor(101))) void prepare_blas_environment() {
  __builtin_cpu_init();
  const char* core = nullptr;
  if (__builtin_cpu_supports("x86-64-v4")) {
    core = __builtin_cpu_supports("avx512bf16") ? "Cooperlake" : "SkylakeX";
  } else if (__builtin_cpu_supports("x86-64-v3")) {
    core = "Haswell";
  }
  if (core) setenv("OPENBLAS_CORETYPE", core, 1);
  unsetenv("OPENBLAS_L2_SIZE");
  setenv("OPENBLAS_NUM_THREADS", "1", 1);
}

struct Isa {
  const char* name;
  bool (*supported)();
  const Backend& (*table)();
  double (*multiply_adds)(std::int64_t rounds);
  double (*bf16_multiply_adds)(std::int64_t rounds);  // null: no bf16 calls
  int xsmm_target;
  const char* blas_core;
};

bool has_bf16() { return __builtin_cpu_supports("x86-64-v4") && __builtin_cpu_supports("avx512bf16"); }

// Linux gives a process the tile registers after a request.
bool has_amx() {
  constexpr int request_permission = 0x1023, tile_data = 18;    // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  constexpr unsigned amx_bf16 = 1U << 22, amx_tile = 1U << 24;  // of leaf 7, in edx
  static const bool has = [] {
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    return has_bf16() && __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (edx & amx_bf16) != 0 &&
           (edx & amx_tile) != 0 && syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
  }();
  return has;
}

// Best first. v4bf16 runs the kernels of v4, and for bf16 calls those of kernels/cpu/bf16; v4amx is v4bf16 with the
// products of kernels/cpu/amx.
const Isa isas[] = {
    {"v4amx", has_amx, cpu_v4amx::table, cpu_v4::multiply_adds, cpu_v4amx::multiply_adds, LIBXSMM_X86_AVX512_CORE,
     "Cooperlake"},
    {"v4bf16", has_bf16, cpu_v4bf16::table, cpu_v4::multiply_adds, cpu_v4bf16::multiply_adds, LIBXSMM_X86_AVX512_CORE,
     "Cooperlake"},
    {"v4", [] { return __builtin_cpu_supports("x86-64-v4") != 0; }, cpu_v4::table, cpu_v4::multiply_adds, nullptr,
     LIBXSMM_X86_AVX512_CORE, "SkylakeX"},
    {"v3", [] { return __builtin_cpu_supports("x86-64-v3") != 0; }, cpu_v3::table, cpu_v3::multiply_adds, nullptr,
     LIBXSMM_X86_AVX2, "Haswell"},
};

// OpenBLAS selects its core type at program start, before --isa is read.
void use_blas_core(const char* core) {
  if (std::strcmp(openblas_get_corename(), core) == 0) return;
  setenv("OPENBLAS_CORETYPE", core, 1);
  gotoblas_dynamic_quit();
  gotoblas_dynamic_init();
}

// The table of a supported instruction set, with its name as the variant.
const Backend& named_table(const Isa& isa) {
  static std::array<Backend, std::size(isas)> tables;
  static std::mutex filling;
  const std::lock_guard lock(filling);
  Backend& table = tables[static_cast<std::size_t>(&isa - isas)];
  if (*table.variant == '\0') table = isa.table(), table.variant = isa.name;
  return table;
}

const Backend* use(const Isa& isa) {
  openblas_set_num_threads(1);
  use_blas_core(isa.blas_core);
  generate_for(isa.xsmm_target);
  return &named_table(isa);
}

std::mutex generating;

}  // namespace

int generated_target = 0;

void generate_for(int target) {
  const std::lock_guard lock(generating);
  if (generated_target == target) return;
  if (generated_target != 0) libxsmm_finalize();
  libxsmm_init();
  libxsmm_set_target_archid(target);
  __atomic_store_n(&generated_target, target, __ATOMIC_RELEASE);
}

const Backend* cpu_backend(const char* isa, const char** error) {
  const bool automatic = std::strcmp(isa, "auto") == 0;
  for (const Isa& candidate : isas) {
    if (!automatic && std::strcmp(candidate.name, isa) != 0) continue;
    if (candidate.supported()) return use(candidate);
    if (automatic) continue;
    *error = "this machine lacks the instruction set that was asked for; use --isa auto";
    return nullptr;
  }
  *error = automatic ? "this machine lacks AVX2 and FMA (x86-64-v3), the least that this program runs on"
                     : "unknown instruction set; --isa takes auto, v3, v4, v4bf16 or v4amx";
  return nullptr;
}

bool cpu_supports(const char* isa) {
  for (const Isa& known : isas)
    if (std::strcmp(known.name, isa) == 0) return known.supported();
  return false;
}

double run_multiply_adds(const char* isa, DType dtype, std::int64_t rounds) {
  for (const Isa& known : isas) {
    if (std::strcmp(known.name, isa) != 0) continue;
    auto* const run = dtype == DType::bf16 ? known.bf16_multiply_adds : known.multiply_adds;
    return run ? run(rounds) : 0;
  }
  return 0;
}

const char* cpu_blas_description() {
  static char text[160];
  const char* openblas = OPENBLAS_VERSION;  // " OpenBLAS 0.3.21 ", with the spaces
  // libxsmm's target is omitted: the query would initialise the library, which takes 20 ms, and the target follows from
  // the instruction set.
  std::snprintf(text, sizeof text, "%s(%s), libxsmm %s", openblas + (*openblas == ' '), openblas_get_corename(),
                LIBXSMM_VERSION);
  return text;
}

}  // namespace comera::kernels
