#include "lib/core/files/free_space.h"

#include <catch2/catch.hpp>

#include "tests/core/temporary_folder.h"

using namespace comera;

TEST_CASE("free space: of the disk that has the path, or will have it") {
  const TemporaryFolder folder;
  REQUIRE(free_space(folder.path()));
  CHECK(*free_space(folder.path()) > 0);
  CHECK(free_space(folder / "none/deeper"));
  CHECK_FALSE(free_space("/proc/self"));  // a file system without a disk
}
