#include "lib/core/files/mapped_ranges.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "tests/core/temporary_folder.h"

using namespace comera;
using Catch::Matchers::Contains;

TEST_CASE("mapped ranges: a file that is cut while it is read ends the process with a sentence") {
  const TemporaryFolder folder;
  write_file_atomic(folder / "weights", std::string(100'000, 'w'));
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(::open((folder / "said").c_str(), O_CREAT | O_WRONLY, 0666), STDERR_FILENO);
    const MappedFile other(folder / "weights");
    const MappedFile file(folder / "weights");
    if (::truncate((folder / "weights").c_str(), 5000) != 0) ::_exit(3);
    ::_exit(file.text()[90'000] == 'w' ? 4 : 5);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 1);
  CHECK_THAT(read_file(folder / "said"), Contains("/weights: cannot be read any more: it was cut"));
}

TEST_CASE("mapped ranges: a cut of less than a page is detected") {
  const TemporaryFolder folder;
  write_file_atomic(folder / "weights", std::string(5000, 'w'));
  MappedFile file(folder / "weights");
  require_whole_range(file.bytes().data());
  REQUIRE(::truncate((folder / "weights").c_str(), 4999) == 0);
  CHECK_THROWS_WITH(require_whole_range(file.bytes().data()), Contains("has 4999 bytes, but had 5000"));
  const void* begin = file.bytes().data();
  file = MappedFile();
  require_whole_range(begin);
}
