// The memory of a run: planned bytes by group, and the memory that the process took.
#pragma once

#include <string>
#include <vector>

#include "lib/plan/slab.h"
#include "lib/plan/walk.h"

namespace comera::engine {

struct MemoryTable {
  struct Row {
    // "weights", "moments", "factors", "copies of weights", "gradients", or a tensor's place in the model
    // ("layer.attention.t1")
    std::string group;
    plan::Category category = plan::Category::scratch;
    std::size_t bytes = 0;
    int tensors = 0;
  };
  std::vector<Row> rows;          // largest first
  plan::BytesByCategory bytes{};  // memory.{weights, gradients, optimizer, saved, scratch}
  std::size_t peak = 0;           // of all arenas together
  double flops = 0;               // of one optimiser step at the planned shapes
  double forward_flops = 0;       // of these, the forwards and the merging of cores
  double backward_flops = 0;      // ... the backwards with what they compute again; the rest is the update

  std::size_t of(plan::Category category) const { return bytes[static_cast<int>(category)]; }
  void add(const std::string& group, const plan::BytesByCategory& slab, int tensors);
  // Adds the tensors of a plan that are alive at its peak, by place. Numbers of repeated layers are left out.
  void add(const plan::Plan& plan);
};

// Free bytes of a device, or 0 if its driver does not report them.
std::size_t free_on(const kernels::Device& device);

// Memory taken since the meter was made: resident memory of this process, or the driver's count for a device.
class MemoryMeter {
 public:
  MemoryMeter();                                       // of this process
  explicit MemoryMeter(const plan::Machine& machine);  // of its device if it has one
  // The peak since then. On a device: the current amount, because arenas only grow there.
  std::size_t peak() const;
  std::size_t process_peak() const;  // the whole process, start-up included

 private:
  kernels::Device device_;
  std::uint64_t base_ = 0;
};

}  // namespace comera::engine
