// Reads the energy of the processor packages from the system's counters (Linux powercap, RAPL), or that of a device
// from its driver, if they are readable.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/backend.h"

namespace comera::report {

class EnergyMeter {
 public:
  // Uses the package zones below `root`. Without a readable zone joules() is always empty.
  explicit EnergyMeter(const std::string& root = "/sys/class/powercap");
  // Makes the meter of a backend's machine: its device if it has one, else the processor's packages.
  static EnergyMeter of(const kernels::Device& device);
  // Energy since construction or the last call. Counter overflow is corrected.
  std::optional<double> joules();

 private:
  struct Zone {
    std::string file;
    double last = 0, range = 0;  // microjoules
  };
  std::optional<double> device_joules() const;

  std::vector<Zone> zones_;
  const kernels::Device* device_ = nullptr;
  std::optional<double> last_;  // last counter of the device
};

}  // namespace comera::report
