#include "lib/core/files/scratch_file.h"

#include <catch2/catch.hpp>
#include <vector>

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "tests/core/temporary_folder.h"

using namespace comera;

namespace {

std::vector<std::byte> bytes_of(char value, std::size_t count) {
  return std::vector<std::byte>(count, static_cast<std::byte>(value));
}

}  // namespace

TEST_CASE("scratch file: written data is read back, and the file has no name") {
  const TemporaryFolder folder;
  for (const std::string& place : {folder.path(), folder / "not/there/yet", std::string()}) {
    ScratchFile file(place);
    const std::uint64_t a = file.reserve(3000), b = file.reserve(1000000);
    CHECK(b == a + 3000);
    file.write(b, bytes_of('b', 1000000));
    file.write(a, bytes_of('a', 3000));
    file.write(a + 5, bytes_of('c', 10));
    std::vector<std::byte> back(1000000);
    file.read(b, back);
    CHECK(back == bytes_of('b', 1000000));
    back.resize(16);
    file.read(a, back);
    CHECK(back[4] == std::byte{'a'});
    CHECK(back[5] == std::byte{'c'});
    CHECK(back[15] == std::byte{'a'});
    CHECK(list_folder(folder.path()).empty());
    CHECK_THROWS_AS(file.read(b + 999999, back), RunError);
  }
}

TEST_CASE("scratch file: a released place is used for data of its size") {
  ScratchFile file("");
  const std::uint64_t a = file.reserve(100), b = file.reserve(200);
  file.release(a, 100);
  CHECK(file.reserve(50) == b + 200);
  CHECK(file.reserve(100) == a);
  CHECK(file.reserve(100) == b + 250);
}

TEST_CASE("scratch file: a folder without write access is an error") {
  CHECK_THROWS_AS(ScratchFile("/proc"), InputError);
}
