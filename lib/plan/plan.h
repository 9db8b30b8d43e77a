// The memory plan of a walk: a table of all tensors with their lifetimes and their places in the arena, made before the
// allocation.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "lib/core/tensor.h"

namespace comera::plan {

// The kind of a tensor in the memory table. All but weights and optimizer live in the step arena.
enum class Category : std::uint8_t { weights, gradients, optimizer, saved, scratch };
constexpr int categories = 5;
const char* name_of(Category category);
using BytesByCategory = std::array<std::size_t, categories>;

// The address of tensors without memory: tensors of a recording, and slabs before bind(). It is never read. It is not
// null, so that calls with optional tensors look the same when recorded.
inline void* const unbound = reinterpret_cast<void*>(static_cast<std::uintptr_t>(4096));

// A tensor in use. `id` is its row in the plan, or -1 if the plan does not own it (weights, inputs).
struct Tensor {
  void* data = nullptr;
  DType dtype = DType::f32;
  Shape shape;
  int id = -1;

  bool empty() const { return shape.dims() == 0; }
  std::int64_t elements() const { return shape.elements(); }
  std::size_t bytes() const { return static_cast<std::size_t>(shape.elements()) * size_of(dtype); }
};

struct PlannedTensor {
  std::string name;
  Shape shape;
  DType dtype = DType::f32;
  Category category = Category::scratch;
  std::size_t bytes = 0;
  int first = 0, last = 0;  // first and last clock tick of its lifetime
  int drops = 1;            // number of drops that end its lifetime
  std::size_t offset = 0;   // in the arena, a multiple of `alignment`
};

constexpr std::size_t alignment = 128;
constexpr std::size_t aligned(std::size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

struct OpCount {
  const char* op = nullptr;
  std::int64_t calls = 0;
  double flops = 0;
};

class Plan {
 public:
  std::vector<PlannedTensor> tensors;
  std::vector<OpCount> ops;
  std::vector<kernels::Path> paths;  // of the calls that have one, in call order
  int ticks = 0;
  std::size_t bytes = 0;        // of the arena
  std::size_t input_bytes = 0;  // of the inputs (lib/plan/inputs.h) that a device receives with the walk
  double flops_before = 0;      // of the calls before Walk::backward_begins() or update_begins()

  // Assigns every tensor an offset. Tensors whose lifetimes overlap never share memory. Without `overlay` every tensor
  // has its own memory.
  void lay_out(bool overlay = true);
  // The first tick with the largest number of live bytes.
  int peak_tick() const;
  // Live bytes of each kind at that tick. Bytes lost by packing are added to scratch.
  BytesByCategory peak_by_category() const;
  double flops() const;
};

}  // namespace comera::plan
