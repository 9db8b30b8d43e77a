// Tensors of equal lifetime in one block: the weights, the optimiser's moments, the tensors that live for a whole step.
#pragma once

#include <string>
#include <vector>

#include "kernels/backend.h"
#include "lib/core/error.h"
#include "lib/plan/plan.h"

namespace comera::plan {

// An allocation failed.
class OutOfMemory : public RunError {
 public:
  OutOfMemory(std::string missing, const char* advice)
      : RunError(missing + "; " + advice), missing_(std::move(missing)) {}
  const std::string& missing() const { return missing_; }  // the message without advice

 private:
  std::string missing_;
};

// A block of device memory, freed by the destructor.
class Arena {
 public:
  Arena() = default;
  // Throws OutOfMemory with the size if there is not enough memory.
  Arena(const kernels::Backend& backend, std::size_t bytes, const char* what);
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;
  ~Arena();

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  const kernels::Backend* backend_ = nullptr;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

class Slab {
 public:
  struct Item {
    std::string name;
    Category category;
    DType dtype;
    Shape shape;
    std::size_t offset;
    std::size_t bytes;
  };

  int add(std::string name, Category category, DType dtype, Shape shape);
  std::size_t bytes() const { return bytes_; }
  BytesByCategory bytes_by_category() const;
  const std::vector<Item>& items() const { return items_; }

  void bind(void* base) { base_ = static_cast<char*>(base); }
  bool bound() const { return base_ != nullptr; }
  // Its data is `unbound` before bind().
  Tensor operator[](int item) const;

 private:
  std::vector<Item> items_;
  std::size_t bytes_ = 0;
  char* base_ = nullptr;
};

}  // namespace comera::plan
