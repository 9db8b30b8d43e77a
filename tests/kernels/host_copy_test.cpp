#include "kernels/host_copy.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <vector>

#include "tests/kernels/harness/placed.h"

namespace comera::kernels::test {
namespace {

using Floats = std::vector<float>;

// Host memory as the backend's copies want it.
class Pinned {
 public:
  Pinned(const Column& column, std::size_t count) : column_(column), count_(count) {
    const Device& device = column.backend->device;
    data_ = static_cast<float*>(device.allocate_pinned ? device.allocate_pinned(count * sizeof(float))
                                                       : std::calloc(count, sizeof(float)));
    REQUIRE(data_);
  }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  ~Pinned() {
    const Device& device = column_.backend->device;
    device.allocate_pinned ? device.release_pinned(data_) : std::free(data_);
  }
  float* data() const { return data_; }
  Floats read() const { return {data_, data_ + count_}; }

 private:
  const Column& column_;
  std::size_t count_;
  float* data_ = nullptr;
};

void copy(const Column& column, CopyTo direction, int ticket, void* to, const void* from, std::size_t bytes) {
  REQUIRE(column.backend->host_copy.run(context_of(column), {direction, ticket, to, from, bytes}) == Status::ok);
}
void join(const Column& column, CopyTo direction, int ticket) {
  REQUIRE(column.backend->host_join.run(context_of(column), {direction, ticket}) == Status::ok);
}

}  // namespace

// The tickets of the two directions are apart, and copies are joined in any order.
TEST_CASE("host_copy: numbers go to the host and come back, with several copies on their way") {
  for (const Column& column : columns()) {
    CAPTURE(column.name);
    const Placed<float> first(column, Floats{1, 2, 3}), second(column, Floats{4, 5, 6}), back(column, Floats(6));
    const Pinned host(column, 6);
    copy(column, CopyTo::host, 3, host.data(), first.data(), 12);
    copy(column, CopyTo::host, 0, host.data() + 3, second.data(), 12);
    join(column, CopyTo::host, 0);
    join(column, CopyTo::host, 3);
    copy(column, CopyTo::device, 3, back.data(), host.data() + 3, 12);
    copy(column, CopyTo::device, copy_tickets - 1, back.data() + 3, host.data(), 12);
    copy(column, CopyTo::host, 3, host.data(), second.data(), 0);
    join(column, CopyTo::device, copy_tickets - 1);
    join(column, CopyTo::device, 3);
    CHECK(back.read() == Floats{4, 5, 6, 1, 2, 3});
    if (column.backend->device.wait) REQUIRE(column.backend->device.wait(context_of(column)) == Status::ok);
    CHECK(host.read() == Floats{1, 2, 3, 4, 5, 6});
  }
}

}  // namespace comera::kernels::test
