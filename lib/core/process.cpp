#include "lib/core/process.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <fstream>
#include <sstream>
#include <string_view>

namespace comera {
namespace {

std::string cpu_info(std::string_view key) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(key)) return line.substr(std::min(line.find(':') + 2, line.size()));
  return "";
}

}  // namespace

std::string cpu_name() {
  const std::string name = cpu_info("model name");
  return name.empty() ? "unknown processor" : name;
}

std::vector<std::string> cpu_features() {
  static constexpr std::string_view wanted[] = {"avx2",        "fma",         "avx512f",     "avx512bw",
                                                "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_bf16"};
  std::vector<std::string> features;
  std::istringstream flags(cpu_info("flags"));
  for (std::string flag; flags >> flag;)
    if (std::find(std::begin(wanted), std::end(wanted), flag) != std::end(wanted)) features.push_back(flag);
  return features;
}

int cpu_count() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

std::string counted_cpus(int count) { return std::to_string(count) + (count == 1 ? " processor" : " processors"); }

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

std::string utc_time() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace comera
