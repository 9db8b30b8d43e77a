#include "lib/data/files/files.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "lib/core/error.h"
#include "lib/data/files/byte_stream.h"
#include "tests/data/scratch.h"

using namespace comera;
using namespace comera::data;
using Catch::Matchers::Contains;

TEST_CASE("data files: a byte in the middle of a large file changes the hash") {
  const Scratch scratch;
  const std::string path = scratch.write("large.txt", "begin");
  constexpr std::uint64_t bytes = std::uint64_t{96} << 20;
  std::filesystem::resize_file(path, bytes);  // a sparse file without blocks on the disk
  const std::string before = hash_files({path});
  CHECK(hash_files({path}) == before);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(bytes / 2);
  file.put('x');
  file.close();
  CHECK(hash_files({path}) != before);
}

TEST_CASE("data files: a pipe is refused without waiting for its writer") {
  const Scratch scratch;
  const std::string path = scratch.path("pipe");
  REQUIRE(::mkfifo(path.c_str(), 0666) == 0);
  CHECK_THROWS_WITH(resolve_files({path}), Contains("pipe: is a pipe; give a regular file"));
  CHECK_THROWS_WITH(ByteStream::open(path), Contains("is a pipe"));
}
