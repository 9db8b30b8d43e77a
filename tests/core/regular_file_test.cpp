#include "lib/core/files/regular_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/core/hash.h"
#include "tests/core/temporary_folder.h"

using namespace comera;
using Catch::Matchers::Contains;

TEST_CASE("regular file: pipes and devices are refused at once, links to files are followed") {
  const TemporaryFolder folder;
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0666) == 0);
  std::filesystem::create_symlink("/dev/zero", folder / "zeros");
  std::filesystem::create_symlink("pipe", folder / "to-pipe");
  std::ofstream(folder / "a") << "hello";
  std::filesystem::create_symlink("a", folder / "link");
  for (const char* name : {"pipe", "to-pipe", "zeros"}) {
    CHECK_THROWS_WITH(read_file(folder / name), Contains(name) && Contains("give a regular file"));
    CHECK_THROWS_AS(MappedFile(folder / name), InputError);
    CHECK_THROWS_AS(hash_file(folder / name), InputError);
    CHECK_THROWS_AS(copy_file(folder / name, folder / "copy"), InputError);
  }
  CHECK_FALSE(path_exists(folder / "copy"));
  CHECK(read_file(folder / "link") == "hello");
  CHECK(hash_file(folder / "link") == hash_text("hello"));
  CHECK_THROWS_AS(hash_file(folder.path()), InputError);
  CHECK_THROWS_AS(hash_file(folder / "none"), InputError);
}

TEST_CASE("regular file: kind_of() returns the kind of a path") {
  const TemporaryFolder folder;
  std::ofstream(folder / "a") << "x";
  make_folders(folder / "b");
  std::filesystem::create_symlink("a", folder / "to-a");
  std::filesystem::create_directory_symlink("b", folder / "to-b");
  std::filesystem::create_symlink("nowhere", folder / "to-nothing");
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0666) == 0);
  CHECK(kind_of(folder / "none") == PathKind::none);
  CHECK(kind_of(folder / "a") == PathKind::file);
  CHECK(kind_of(folder / "b") == PathKind::folder);
  CHECK(kind_of(folder / "to-a") == PathKind::linked_file);
  CHECK(kind_of(folder / "to-b") == PathKind::linked_folder);
  CHECK(kind_of(folder / "to-nothing") == PathKind::other);
  CHECK(kind_of(folder / "pipe") == PathKind::other);
}
