#include "lib/report/bench/energy.h"

#include <fstream>
#include <utility>

#include "lib/core/files/file.h"

namespace comera::report {
namespace {

std::optional<double> read_number(const std::string& path) {
  std::ifstream file(path);
  double value = 0;
  if (!(file >> value)) return std::nullopt;
  return value;
}

std::string read_word(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

}  // namespace

EnergyMeter::EnergyMeter(const std::string& root) {
  if (!is_folder(root)) return;
  for (const std::string& name : list_folder(root)) {
    const std::string zone = join_path(root, name);
    if (!read_word(join_path(zone, "name")).starts_with("package")) continue;
    const std::string file = join_path(zone, "energy_uj");
    if (const auto now = read_number(file))
      zones_.push_back({file, *now, read_number(join_path(zone, "max_energy_range_uj")).value_or(0)});
  }
}

EnergyMeter EnergyMeter::of(const kernels::Device& device) {
  if (!device.open) return EnergyMeter();
  EnergyMeter meter("");
  meter.device_ = &device;
  meter.last_ = meter.device_joules();
  return meter;
}

std::optional<double> EnergyMeter::device_joules() const {
  double used = 0;
  return device_->joules && device_->joules(&used) == kernels::Status::ok ? std::optional(used) : std::nullopt;
}

std::optional<double> EnergyMeter::joules() {
  if (device_) {
    const std::optional<double> before = std::exchange(last_, device_joules());
    return before && last_ ? std::optional(*last_ - *before) : std::nullopt;
  }
  if (zones_.empty()) return std::nullopt;
  double microjoules = 0;
  for (Zone& zone : zones_) {
    const auto now = read_number(zone.file);
    if (!now) return std::nullopt;
    microjoules += *now - zone.last + (*now < zone.last ? zone.range : 0);
    zone.last = *now;
  }
  return microjoules * 1e-6;
}

}  // namespace comera::report
