#include "lib/engine/memory_table.h"

#include <algorithm>
#include <map>
#include <utility>

#include "lib/core/memory.h"

namespace comera::engine {
namespace {

// "layer.3.attention.t1" -> "layer.attention.t1"
std::string place_of(const std::string& name) {
  std::string place;
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    const std::string part = name.substr(begin, end - begin);
    if (part.find_first_not_of("0123456789") != std::string::npos) place += (place.empty() ? "" : ".") + part;
    begin = end + 1;
  }
  return place;
}

}  // namespace

std::size_t free_on(const kernels::Device& device) {
  std::size_t free = 0, total = 0;
  return device.free_bytes(&free, &total) == kernels::Status::ok ? free : 0;
}

void MemoryTable::add(const std::string& group, const plan::BytesByCategory& slab, int tensors) {
  for (int category = 0; category < plan::categories; ++category) {
    if (slab[category] == 0) continue;
    rows.push_back({group, static_cast<plan::Category>(category), slab[category], tensors});
    bytes[category] += slab[category];
    peak += slab[category];
  }
}

void MemoryTable::add(const plan::Plan& plan) {
  std::map<std::pair<std::string, plan::Category>, Row> places;
  const int tick = plan.peak_tick();
  for (const plan::PlannedTensor& tensor : plan.tensors) {
    if (tick < tensor.first || tick > tensor.last) continue;
    const std::string place = place_of(tensor.name);
    Row& row = places.try_emplace({place, tensor.category}, Row{place, tensor.category, 0, 0}).first->second;
    row.bytes += plan::aligned(tensor.bytes);
    ++row.tensors;
  }
  for (const auto& [key, row] : places) rows.push_back(row);
  const plan::BytesByCategory at_peak = plan.peak_by_category();
  for (int category = 0; category < plan::categories; ++category) bytes[category] += at_peak[category];
  peak += plan.bytes;
}

MemoryMeter::MemoryMeter() {
  reset_peak_memory();
  base_ = current_memory();
}

MemoryMeter::MemoryMeter(const plan::Machine& machine) : MemoryMeter() {
  device_ = machine.backend->device;
  if (device_.free_bytes) base_ = free_on(device_);
}

std::size_t MemoryMeter::peak() const {
  if (!device_.free_bytes) return std::max(peak_memory(), base_) - base_;
  return base_ - std::min<std::uint64_t>(base_, free_on(device_));
}
std::size_t MemoryMeter::process_peak() const { return peak_memory(); }

}  // namespace comera::engine
