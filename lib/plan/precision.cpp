#include "lib/plan/precision.h"

#include <fmt/core.h>

#include <algorithm>

#include "lib/core/error.h"
#include "lib/core/join.h"

namespace comera::plan {
namespace {

struct Precision {
  const char* name;
  int least;  // compute capability of a GPU, 10 * major + minor
  // Least instruction set of the CPU backend that has it; "": every host backend has it; null: none.
  const char* isa;
  DType dtype;
  bool tf32, fp8;
};

constexpr Precision all[] = {{"fp32", 0, "", DType::f32, false, false},
                             {"tf32", 80, nullptr, DType::f32, true, false},
                             {"bf16", 80, "v4bf16", DType::bf16, false, false},
                             {"fp8", 89, nullptr, DType::bf16, false, true}};

const Precision& precision_named(const std::string& name) {
  const auto* const found =
      std::find_if(std::begin(all), std::end(all), [&](const Precision& precision) { return precision.name == name; });
  if (found == std::end(all)) fail_input("[device] --dtype {}: want one of {}", name, join(precisions(), ", "));
  return *found;
}

void assign(Machine& machine, const Precision& precision) {
  machine.dtype = precision.dtype;
  machine.tf32 = precision.tf32, machine.fp8 = precision.fp8;
}

// Returns the precisions of the CPU backend with this instruction set.
std::vector<std::string> precisions_of(const std::string& isa) {
  std::vector<std::string> names = precisions();
  std::erase_if(names, [&](const std::string& name) { return !cpu_computes(name, isa); });
  return names;
}

}  // namespace

std::vector<std::string> precisions() {
  std::vector<std::string> names;
  for (const Precision& precision : all) names.emplace_back(precision.name);
  return names;
}

bool cpu_computes(const std::string& precision, const std::string& isa) {
  const char* needed = precision_named(precision).isa;
  if (!needed) return false;
  return *needed == '\0' || isa == needed || (isa == "v4amx" && cpu_computes(precision, "v4bf16"));
}

void set_precision(Machine& machine, const std::string& name, const kernels::CudaDevice* gpu) {
  const Precision& found = precision_named(name);
  const kernels::Backend& backend = *machine.backend;
  if (!gpu && !cpu_computes(name, backend.variant))
    fail_input(
        "[device] --dtype {} needs a GPU{}: --device {} computes in {}{}; add --device cuda, or leave out --dtype",
        name, found.isa ? fmt::format(" or the CPU's instruction set {} (AVX512-BF16)", found.isa) : "", backend.name,
        join(precisions_of(backend.variant), " and "),
        *backend.variant == '\0' ? "" : fmt::format(" with {}", backend.variant));
  if (gpu && 10 * gpu->major + gpu->minor < found.least)
    fail_input(
        "[device] --dtype {}: {} of compute capability {}.{} lacks it, GPUs of {}.{} or newer have it; use another "
        "GPU, or --dtype fp32",
        name, gpu->name, gpu->major, gpu->minor, found.least / 10, found.least % 10);
  assign(machine, found);
}

void set_planned_precision(Machine& machine, const std::string& name) { assign(machine, precision_named(name)); }

}  // namespace comera::plan
