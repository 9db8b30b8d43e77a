// Energy of the processor packages as the system counts it (Linux powercap, RAPL), or of a device as its driver does,
// where it may be read.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/backend.h"

namespace comera::report {

class EnergyMeter {
 public:
  // Package zones below `root`; without a readable one joules() is always empty.
  explicit EnergyMeter(const std::string& root = "/sys/class/powercap");
  // The meter of a backend's machine: its device if it has one, else the processor's packages.
  static EnergyMeter of(const kernels::Device& device);
  // Since the meter was made or last asked; counters that ran over are mended.
  std::optional<double> joules();

 private:
  struct Zone {
    std::string file;
    double last = 0, range = 0;  // microjoules
  };
  std::optional<double> device_joules() const;

  std::vector<Zone> zones_;
  const kernels::Device* device_ = nullptr;
  std::optional<double> last_;  // of the device
};

}  // namespace comera::report
