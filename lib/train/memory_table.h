// The memory of a run: planned bytes by place, and the memory that the process took.
#pragma once

#include <string>
#include <vector>

#include "lib/plan/slab.h"
#include "lib/plan/walk.h"

namespace comera::train {

struct MemoryTable {
  struct Row {
    std::string group;  // "weights", "moments", "halves", "copies of weights", "gradients", or a tensor's place in the
                        // model ("layer.attention.t1")
    plan::Kind kind = plan::Kind::scratch;
    std::size_t bytes = 0;
    int tensors = 0;
  };
  std::vector<Row> rows;      // largest first
  plan::BytesByKind bytes{};  // memory.{weights, gradients, optimizer, saved, scratch}
  std::size_t peak = 0;       // of all arenas together
  double flops = 0;           // of one optimiser step at the shapes planned

  std::size_t of(plan::Kind kind) const { return bytes[static_cast<int>(kind)]; }
  void add(const std::string& group, const plan::BytesByKind& slab, int tensors);
  // The tensors of a plan that live where their sum is largest, by place; the numbers of repeated layers are left out.
  void add(const plan::Plan& plan);
};

// Bytes of a device that nobody has taken, or 0 where its driver does not say.
std::size_t free_on(const kernels::Device& device);

// Memory taken beyond what it was when the meter was made: resident memory of this process, or what the driver says of
// a device.
class MemoryMeter {
 public:
  MemoryMeter();                                       // of this process
  explicit MemoryMeter(const plan::Machine& machine);  // of its device, where it has one
  // The most since then; on a device what is taken now, where arenas only grow.
  std::size_t peak() const;
  std::size_t process_peak() const;  // the whole process, start-up included

 private:
  kernels::Device device_;
  std::uint64_t base_ = 0;
};

}  // namespace comera::train
