// `comera version`.
#include "lib/core/version.h"

#include <fmt/core.h>

#include <algorithm>

#include "kernels/backend.h"
#include "kernels/host/cpu_backend.h"
#include "kernels/host/cuda_devices.h"
#include "lib/core/join.h"
#include "lib/core/process.h"
#include "lib/report/output/fit.h"
#include "lib/report/output/json.h"
#include "tools/verbs.h"

namespace comera::tools {
namespace {

using report::Json;

Json cpu_facts() {
  Json json;
  json["name"] = cpu_name();
  json["processors"] = cpu_count();
  json["instruction_sets"] = Json::array();
  for (const char* isa : kernels::cpu_isas)
    if (kernels::cpu_supports(isa)) json["instruction_sets"].push_back(isa);
  json["features"] = cpu_features();
  json["blas"] = kernels::cpu_blas_description();
  return json;
}

Json cuda_facts() {
  std::vector<kernels::CudaDevice> devices;
  const kernels::CudaState state = kernels::cuda_devices(devices);
  Json json;
  json["available"] = state == kernels::CudaState::ready;
  if (state != kernels::CudaState::ready) json["reason"] = kernels::sentence_of(state);
  json["devices"] = Json::array();
  for (const kernels::CudaDevice& device : devices)
    json["devices"].push_back({{"name", device.name},
                               {"bytes", device.bytes},
                               {"compute_capability", fmt::format("{}.{}", device.major, device.minor)}});
  return json;
}

std::string words(const Json& list) { return join(list.get<std::vector<std::string>>(), " "); }

std::string as_text(const Json& facts) {
  const Json& cpu = facts["cpu"];
  return fmt::format("comera {}\n  commit            {}\n  compiler          {}, {}\n  cpu               {}, {}\n",
                     facts["version"].get<std::string>(), facts["commit"].get<std::string>(),
                     facts["compiler"].get<std::string>(), facts["build"].get<std::string>(),
                     cpu["name"].get<std::string>(), counted_cpus(cpu["processors"].get<int>())) +
         fmt::format("  instruction sets  {}\n  features          {}\n  blas              {}\n",
                     words(cpu["instruction_sets"]), words(cpu["features"]), cpu["blas"].get<std::string>());
}

std::string as_text_cuda(const Json& cuda) {
  if (!cuda["available"].get<bool>()) return cuda["reason"].get<std::string>() + "\n";
  std::string out;
  for (const Json& device : cuda["devices"])
    out += fmt::format("cuda:{}  {}, {}, compute capability {}\n", std::count(out.begin(), out.end(), '\n'),
                       device["name"].get<std::string>(), format_bytes(device["bytes"].get<std::uint64_t>()),
                       device["compute_capability"].get<std::string>());
  return out;
}

}  // namespace

OptionTable version_table() {
  OptionTable table("version", "print the program's version and its hardware");
  table.add({{.name = "device",
              .type = OptionType::choice,
              .default_text = "cpu",
              .group = "Output",
              .help = "device to describe",
              .choices = {"cpu", "cuda"}},
             json_option()});
  table.add(common_options());
  return table;
}

int run_version(const OptionValues& values) {
  const bool cuda = values.text("device") == "cuda";
  Json facts = report::document("version");
  facts["commit"] = version().commit;
  facts["compiler"] = version().compiler;
  facts["build"] = version().build;
  if (cuda)
    facts["cuda"] = cuda_facts();
  else
    facts["cpu"] = cpu_facts();
  if (values.flag("json"))
    print_out(report::dump(facts) + "\n");
  else
    print_out(report::wrap_for_stdout(cuda ? as_text_cuda(facts["cuda"]) : as_text(facts)));
  return 0;
}

}  // namespace comera::tools
