// A tensor in the memory of a backend, for tests without a table of cases.
#pragma once

#include <catch2/catch.hpp>
#include <vector>

#include "tests/kernels/harness/harness.h"

namespace comera::kernels::test {

inline Context context_of(const Column& column) { return {DType::f32, column.stream, nullptr, 0, false, false}; }

template <class T>
class Placed {
 public:
  Placed(const Column& column, const std::vector<T>& values)
      : column_(column), bytes_(values.size() * sizeof(T)), data_(column.backend->memory.allocate(bytes_)) {
    REQUIRE(column.backend->memory.upload(context_of(column), data_, values.data(), bytes_) == Status::ok);
  }
  Placed(const Placed&) = delete;
  Placed& operator=(const Placed&) = delete;
  ~Placed() { column_.backend->memory.release(data_, bytes_); }

  T* data() const { return static_cast<T*>(data_); }
  std::vector<T> read() const {
    std::vector<T> values(bytes_ / sizeof(T));
    REQUIRE(column_.backend->memory.download(context_of(column_), values.data(), data_, bytes_) == Status::ok);
    return values;
  }

 private:
  const Column& column_;
  std::size_t bytes_;
  void* data_;
};

}  // namespace comera::kernels::test
