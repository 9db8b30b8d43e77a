#include "tools/machine.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "kernels/host/cpu_backend.h"
#include "kernels/host/cuda_devices.h"
#include "lib/core/error.h"
#include "lib/core/process.h"
#include "lib/core/terminal/log.h"
#include "lib/plan/precision.h"
#include "lib/report/output/origin.h"

namespace comera::tools {
namespace {

const kernels::Backend& cpu_or_reference(const OptionValues& values, const std::string& isa) {
  if (values.text("device") == "reference") return kernels::reference_backend();
  const char* error = nullptr;
  const kernels::Backend* backend = kernels::cpu_backend(isa.c_str(), &error);
  if (!backend) fail_input("[device] --isa {}: {}", isa, error);
  return *backend;
}

// The number behind "cuda:", or 0.
int gpu_of(const std::string& device) {
  const std::string digits = device.size() > 5 ? device.substr(5) : "0";
  int gpu = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), gpu);
  if ((device.size() > 4 && device[4] != ':') || error != std::errc{} || end != digits.data() + digits.size() ||
      gpu < 0)
    fail_input(
        "[device] --device {}: want cuda or cuda:N with the number of a GPU; comera --version --device cuda lists "
        "them",
        device);
  return gpu;
}

const kernels::CudaDevice& usable(const std::vector<kernels::CudaDevice>& gpus, int gpu) {
  if (gpu >= static_cast<int>(gpus.size()))
    fail_input("[device] --device cuda:{}: this machine has {} GPU{}, numbered from 0; use --device cuda:{}", gpu,
               gpus.size(), gpus.size() == 1 ? "" : "s", gpus.size() - 1);
  const kernels::CudaDevice& found = gpus[static_cast<std::size_t>(gpu)];
  if (10 * found.major + found.minor < kernels::least_capability)
    fail_input(
        "[device] cuda:{} is {} of compute capability {}.{}; the kernels need {}.{} or newer; use another GPU, or "
        "--device cpu",
        gpu, found.name, found.major, found.minor, kernels::least_capability / 10, kernels::least_capability % 10);
  return found;
}

kernels::CudaDevice open_cuda(const std::string& device, const std::string& launches, OpenMachine& open) {
  const int gpu = gpu_of(device);
  std::vector<kernels::CudaDevice> gpus;
  const kernels::CudaState state = kernels::cuda_devices(gpus);
  if (state != kernels::CudaState::ready) fail_input("[device] {}", kernels::sentence_of(state));
  const kernels::CudaDevice& found = usable(gpus, gpu);
  std::string error;
  const kernels::Backend* backend = kernels::cuda_backend(&error);
  if (!backend) fail_input("[device] {}", error);
  void* stream = nullptr;
  if (backend->device.open(gpu, &stream) != kernels::Status::ok)
    fail_input("[device] cuda:{} does not start: {}; check nvidia-smi, or use --device cpu", gpu,
               backend->device.failure());
  backend->device.overlap_launches(launches == "overlapped");
  open.stream = {stream, backend->device.close};
  open.machine.backend = backend;
  open.machine.stream = stream;
  return found;
}

std::unique_ptr<kernels::ThreadPool> start_pool(int threads) try {
  return std::make_unique<kernels::ThreadPool>(threads);
} catch (const std::system_error& error) {
  fail_run("[machine] {} threads do not start: {}; use fewer --threads, or allow more (ulimit -u)", threads,
           error.code().message());
}

// The plainest first.
std::vector<std::string> isa_choices() {
  std::vector<std::string> choices(std::begin(kernels::cpu_isas), std::end(kernels::cpu_isas));
  choices.emplace_back("auto");
  std::reverse(choices.begin(), choices.end());
  return choices;
}

}  // namespace

std::vector<Option> machine_options() {
  return {
      {.name = "device",
       .type = OptionType::string,
       .default_text = "cpu",
       .group = "Machine",
       .help = "device that computes: cpu, cuda (cuda:N for GPU number N), or reference (slow and simple, for checks)",
       .metavar = "DEVICE",
       .suggested = {"cpu", "cuda", "reference"},
       .synonyms = {"gpu", "accelerator", "cuda"}},
      {.name = "threads",
       .type = OptionType::integer,
       .group = "Machine",
       .help = "threads that compute; results do not depend on their number",
       .minimum = 1,
       .maximum = 1024,
       .default_words = "number of processors",
       .synonyms = {"jobs", "num-threads", "cpus", "cores"}},
      {.name = "isa",
       .type = OptionType::choice,
       .default_text = "auto",
       .group = "Machine",
       .help = "instruction set of the CPU",
       .choices = isa_choices(),
       .synonyms = {"instruction-set"}},
      {.name = "launches",
       .type = OptionType::choice,
       .default_text = "overlapped",
       .group = "Machine",
       .help = "overlapped: a kernel starts while the one before ends, on GPUs of compute capability 9.0 and newer; "
               "ordered: it starts afterwards. Results are the same",
       .choices = {"overlapped", "ordered"},
       .synonyms = {"programmatic-dependent-launch", "pdl"}}};
}

std::vector<Option> precision_options() {
  return {
      {.name = "dtype",
       .type = OptionType::choice,
       .default_text = "fp32",
       .group = "Machine",
       .help =
           "arithmetic: fp32; bf16: activations in bf16, weights and sums in fp32 (GPUs, and processors with "
           "AVX512-BF16: v4bf16, v4amx); GPUs alone: tf32, products in TF32; fp8, bf16 with products of TT layers in "
           "fp8",
       .choices = plan::precisions(),
       .result_relevant = true,
       .synonyms = {"precision", "fp16", "bf16", "half", "mixed-precision", "torch-dtype"}}};
}

OpenMachine open_machine(const OptionValues& values, const std::string& dtype, const std::string& isa) {
  OpenMachine open;
  std::optional<kernels::CudaDevice> gpu;
  const std::string& device = values.text("device");
  open.threads = start_pool(values.has("threads") ? static_cast<int>(values.integer("threads")) : cpu_count());
  if (device.starts_with("cuda")) {
    gpu = open_cuda(device, values.text("launches"), open);
  } else if (device == "cpu" || device == "reference") {
    open.machine.backend = &cpu_or_reference(values, isa.empty() ? values.text("isa") : isa);
    open.machine.stream = open.threads.get();
  } else {
    fail_input("[device] --device {}: want cpu, cuda, cuda:N or reference", device);
  }
  plan::set_precision(open.machine, dtype, gpu ? &*gpu : nullptr);
  report::computes_with(open.machine.backend->variant);
  return open;
}

OpenMachine open_machine_to_plan(const OptionValues& values) {
  const std::string& dtype = values.text("dtype");
  OptionValues host = values;
  if (values.text("device").starts_with("cuda")) {
    gpu_of(values.text("device"));  // throws for a word that names no GPU anywhere
    try {
      return open_machine(values, dtype);
    } catch (const InputError& error) {
      log_info("the plan uses the workspaces of the CPU's kernels: {}", error.what());
    }
    host.set("device", "cpu");
  }
  OpenMachine open = open_machine(host);
  plan::set_planned_precision(open.machine, dtype);
  open.only_plans =
      host.text("device") != values.text("device") || !plan::cpu_computes(dtype, open.machine.backend->variant);
  return open;
}

}  // namespace comera::tools
