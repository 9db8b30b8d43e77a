#include "lib/io/side_files.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "tests/core/temporary_folder.h"

using namespace comera;
using namespace comera::io;

namespace {

struct Copied {
  std::vector<std::string> copied;
  SkippedFiles skipped;
};

Copied copy(const std::string& from, const std::string& to, CopyOver over = CopyOver::replace) {
  Copied result;
  result.copied = copy_side_files(from, Folder::made(to), CopyLayout::same, over, result.skipped).copied;
  return result;
}

}  // namespace

TEST_CASE("side files: links to folders, pipes and devices do not go along, links to files do") {
  const TemporaryFolder folder;
  make_folders(folder / "elsewhere");
  make_folders(folder / "from/docs");
  for (const char* name : {"elsewhere/secret", "elsewhere/blob", "from/docs/a"}) write_file_atomic(folder / name, name);
  namespace fs = std::filesystem;
  fs::create_symlink("../elsewhere/blob", folder / "from/vocab.txt");
  for (const char* name : {"notes", "docs/more"})
    fs::create_directory_symlink(folder / "elsewhere", folder / ("from/" + std::string(name)));
  fs::create_directory_symlink(".", folder / "from/again");
  fs::create_symlink("/dev/zero", folder / "from/zeros");
  fs::create_symlink("nowhere", folder / "from/nothing");
  REQUIRE(::mkfifo((folder / "from/pipe").c_str(), 0666) == 0);
  const Copied files = copy(folder / "from", folder / "to");
  CHECK(files.copied == std::vector<std::string>{"docs/a", "vocab.txt"});
  std::vector<std::string> names;
  for (const auto& [name, why] : files.skipped) names.push_back(name);
  CHECK(names == std::vector<std::string>{"again", "docs/more", "notes", "nothing", "pipe", "zeros"});
  CHECK(read_file(folder / "to/vocab.txt") == "elsewhere/blob");
  CHECK_FALSE(fs::is_symlink(folder / "to/vocab.txt"));
  CHECK(list_folder(folder / "to") == std::vector<std::string>{"docs", "vocab.txt"});
}

TEST_CASE("side files: what goes along is bounded in count, depth and bytes") {
  const TemporaryFolder folder;
  std::string deep = folder / "deep";
  for (int level = 0; level < 10; ++level) {
    make_folders(deep);
    write_file_atomic(join_path(deep, "a"), "x");
    deep = join_path(deep, "d");
  }
  const Copied levels = copy(folder / "deep", folder / "deep-copy");
  CHECK(levels.copied.size() == 9);
  REQUIRE(levels.skipped.size() == 1);
  CHECK(levels.skipped[0].second == "deeper than eight folders");
  make_folders(folder / "many");
  for (int i = 0; i < 1005; ++i) std::ofstream(folder / fmt::format("many/{:04}", i)) << "x";
  const Copied count = copy(folder / "many", folder / "many-copy");
  CHECK(count.copied.size() == 1000);
  CHECK(count.skipped.at(0).first == "1000");
  make_folders(folder / "large");
  std::ofstream(folder / "large/a") << "x";
  std::ofstream(folder / "large/b") << "x";
  // A sparse file without blocks on the disk.
  std::filesystem::resize_file(folder / "large/a", (std::uint64_t{1} << 30) + 1);
  const Copied bytes = copy(folder / "large", folder / "large-copy");
  CHECK(bytes.copied == std::vector<std::string>{"b"});
  CHECK(bytes.skipped.at(0).first == "a");
}

TEST_CASE("side files: an interrupted copy continues and keeps existing files") {
  const TemporaryFolder folder;
  for (const char* name : {"from", "to"}) make_folders(folder / name);
  for (const char* name : {"from/a", "from/b", "to/a"}) write_file_atomic(folder / name, name);
  CHECK(copy(folder / "from", folder / "to", CopyOver::keep).copied == std::vector<std::string>{"b"});
  CHECK(read_file(folder / "to/a") == "to/a");
}
