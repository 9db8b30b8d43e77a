// Energy of the processor packages as the system counts it (Linux powercap, RAPL), where it may be read.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace comera::report {

class EnergyMeter {
 public:
  // Package zones below `root`; without a readable one joules() is always empty.
  explicit EnergyMeter(const std::string& root = "/sys/class/powercap");
  // Since the meter was made or last asked; counters that ran over are mended.
  std::optional<double> joules();

 private:
  struct Zone {
    std::string file;
    double last = 0, range = 0;  // microjoules
  };
  std::vector<Zone> zones_;
};

}  // namespace comera::report
