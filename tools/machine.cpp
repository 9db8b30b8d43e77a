#include "tools/machine.h"

#include <algorithm>

#include "kernels/cuda_devices.h"
#include "lib/core/error.h"
#include "lib/core/process.h"

namespace comera::tools {
namespace {

const kernels::Backend& backend_of(const OptionValues& values) {
  const std::string& device = values.text("device");
  if (device == "reference") return kernels::reference_backend();
  if (device == "cuda") {
    std::vector<kernels::CudaDevice> devices;
    fail_input("[device] {}", kernels::sentence_of(kernels::cuda_devices(devices)));
  }
  const char* error = nullptr;
  const kernels::Backend* backend = kernels::cpu_backend(values.text("isa").c_str(), &error);
  if (!backend) fail_input("[device] --isa {}: {}", values.text("isa"), error);
  return *backend;
}

}  // namespace

std::vector<Option> machine_options() {
  return {{.name = "device",
           .type = OptionType::choice,
           .default_text = "cpu",
           .group = "Machine",
           .help = "what computes; reference is slow and exact, for checks",
           .choices = {"cpu", "cuda", "reference"}},
          {.name = "threads",
           .type = OptionType::integer,
           .group = "Machine",
           .help = "threads that compute; results do not depend on it",
           .minimum = 1,
           .maximum = 1024,
           .default_words = "number of processors"},
          {.name = "isa",
           .type = OptionType::choice,
           .default_text = "auto",
           .group = "Machine",
           .help = "instruction set of the CPU",
           .choices = {"auto", "v3", "v4", "v4bf16"}}};
}

OpenMachine open_machine(const OptionValues& values) {
  OpenMachine open;
  const int threads = values.has("threads") ? static_cast<int>(values.integer("threads")) : cpu_count();
  open.machine.backend = &backend_of(values);
  open.threads = std::make_unique<kernels::ThreadPool>(threads);
  open.machine.stream = open.threads.get();
  return open;
}

}  // namespace comera::tools
