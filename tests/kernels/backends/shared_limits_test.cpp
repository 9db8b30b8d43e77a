// Limits of shared memory against a driver that keeps a list of what it was told.
#include "kernels/cuda/common/shared_limits.h"

#include <catch2/catch.hpp>
#include <vector>

namespace comera::kernels::cuda {
namespace {

struct Driver {
  std::size_t largest = 227 * 1024;
  Status answer = Status::ok;
  std::vector<std::size_t> told = {};
  SharedLimits limits = {};

  Status launch(const void* kernel, std::size_t bytes, int device = 0) {
    return limits.raise(
        device, kernel, bytes, [&] { return largest; },
        [&](std::size_t limit) {
          told.push_back(limit);
          return answer;
        });
  }
};

using Told = std::vector<std::size_t>;
const char kernels[2] = {};

}  // namespace

TEST_CASE("shared limits: the driver is told once per kernel and device, and never a lower limit") {
  Driver driver;
  for (const std::size_t kilobytes : {20, 48, 100, 60, 200, 49, 227})
    CHECK(driver.launch(kernels, kilobytes * 1024) == Status::ok);
  CHECK(driver.told == Told{driver.largest});
  CHECK(driver.launch(kernels + 1, 60 * 1024) == Status::ok);
  CHECK(driver.launch(kernels, 60 * 1024, 1) == Status::ok);
  CHECK(driver.told == Told(3, driver.largest));
}

TEST_CASE("shared limits: a launch beyond the device is left to the driver, and a refused limit is tried again") {
  Driver driver;
  driver.answer = Status::failed;
  CHECK(driver.launch(kernels, 228 * 1024) == Status::failed);
  CHECK(driver.launch(kernels, 100 * 1024) == Status::failed);
  driver.answer = Status::ok;
  CHECK(driver.launch(kernels, 100 * 1024) == Status::ok);
  CHECK(driver.launch(kernels, 120 * 1024) == Status::ok);
  CHECK(driver.told == Told{228 * 1024, driver.largest, driver.largest});
}

}  // namespace comera::kernels::cuda
