// Where the bytes of a run go, from the plans alone; and what the process really took.
#pragma once

#include <string>
#include <vector>

#include "lib/plan/slab.h"

namespace comera::train {

struct MemoryTable {
  struct Row {
    std::string group;  // "weights", "moments", "halves", "gradients", or a tensor's place in the model ("layer.attention.t1")
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

// Resident memory of this process beyond what it was when the meter was made.
class MemoryMeter {
 public:
  MemoryMeter();
  std::size_t peak() const;          // the most since then
  std::size_t process_peak() const;  // the whole process, start-up included

 private:
  std::uint64_t base_ = 0;
};

}  // namespace comera::train
