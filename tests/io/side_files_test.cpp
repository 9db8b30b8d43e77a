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
namespace fs = std::filesystem;

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

std::vector<std::string> names_of(const SkippedFiles& skipped) {
  std::vector<std::string> names;
  for (const auto& [name, why] : skipped) names.push_back(name);
  return names;
}

}  // namespace

TEST_CASE("side files: links to folders, pipes and devices do not go along, links to files of the model do") {
  const TemporaryFolder folder;
  make_folders(folder / "elsewhere");
  make_folders(folder / "from/docs");
  for (const char* name : {"elsewhere/secret", "from/docs/a"}) write_file_atomic(folder / name, name);
  fs::create_symlink("docs/a", folder / "from/vocab.txt");
  for (const char* name : {"notes", "docs/more"})
    fs::create_directory_symlink(folder / "elsewhere", folder / ("from/" + std::string(name)));
  fs::create_directory_symlink(".", folder / "from/again");
  fs::create_symlink("/dev/zero", folder / "from/zeros");
  fs::create_symlink("nowhere", folder / "from/nothing");
  REQUIRE(::mkfifo((folder / "from/pipe").c_str(), 0666) == 0);
  const Copied files = copy(folder / "from", folder / "to");
  CHECK(files.copied == std::vector<std::string>{"vocab.txt", "docs/a"});
  CHECK(names_of(files.skipped) == std::vector<std::string>{"again", "notes", "nothing", "pipe", "zeros", "docs/more"});
  CHECK(read_file(folder / "to/vocab.txt") == "from/docs/a");
  CHECK_FALSE(fs::is_symlink(folder / "to/vocab.txt"));
  CHECK(list_folder(folder / "to") == std::vector<std::string>{"docs", "vocab.txt"});
}

TEST_CASE("side files: a link goes along to a file of the folder or of a cache of the hub, not to files of others") {
  const TemporaryFolder folder;
  for (const char* name : {"hub/blobs", "hub/snapshots/1/1_Pooling", "blobs", "hub-of-others/blobs"})
    make_folders(folder / name);
  for (const char* name : {"hub/blobs/aa", "hub/blobs/bb", "blobs/secret", "secret", "hub/secret"})
    write_file_atomic(folder / name, name);
  const std::string from = folder / "hub/snapshots/1";
  fs::create_symlink("../../blobs/aa", from + "/vocab.txt");
  fs::create_symlink("../../../blobs/bb", from + "/1_Pooling/config.json");
  fs::create_symlink("../../../secret", from + "/a.txt");
  fs::create_symlink("../../secret", from + "/b.txt");
  fs::create_symlink(folder / "blobs/secret", from + "/c.txt");  // a folder of that name, but of no cache
  fs::create_symlink("/proc/self/environ", from + "/env.txt");
  fs::create_symlink("a.txt", from + "/twice.txt");
  const Copied files = copy(from, folder / "to");
  CHECK(files.copied == std::vector<std::string>{"vocab.txt", "1_Pooling/config.json"});
  CHECK(names_of(files.skipped) == std::vector<std::string>{"a.txt", "b.txt", "c.txt", "env.txt", "twice.txt"});
  CHECK(files.skipped.at(0).second.starts_with("a link to " + fs::canonical(folder / "secret").string() + ", "));
  // The same cache, with the links of a local folder.
  make_folders(folder / "local");
  fs::create_symlink(folder / "hub/blobs/aa", folder / "local/vocab.txt");
  CHECK(copy(folder / "local", folder / "local-copy").copied == std::vector<std::string>{"vocab.txt"});
  // The folder may be named by a link.
  fs::create_directory_symlink(folder / "hub/snapshots/1", folder / "named");
  fs::create_symlink("vocab.txt", folder / "named/again.txt");
  CHECK(copy(folder / "named", folder / "named-copy").copied.size() == 3);
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
  CHECK(names_of(count.skipped) == std::vector<std::string>{"1000", "1001", "1002", "1003", "1004"});
  make_folders(folder / "large");
  std::ofstream(folder / "large/a") << "x";
  std::ofstream(folder / "large/b") << "x";
  // A sparse file without blocks on the disk.
  std::filesystem::resize_file(folder / "large/a", (std::uint64_t{1} << 30) + 1);
  const Copied bytes = copy(folder / "large", folder / "large-copy");
  CHECK(bytes.copied == std::vector<std::string>{"b"});
  CHECK(bytes.skipped.at(0).first == "a");
}

TEST_CASE("side files: those of the folder and of its modules come before other sub-folders, weights do not count") {
  const TemporaryFolder folder;
  for (const char* name : {"from/1_Pooling", "from/0_many", "from/0_more"}) make_folders(folder / name);
  for (int i = 0; i < 1200; ++i) std::ofstream(folder / fmt::format("from/0_many/{:04}", i)) << "x";
  for (const char* name :
       {"from/0_more/a", "from/config.json", "from/model.safetensors", "from/vocab.txt", "from/1_Pooling/config.json"})
    write_file_atomic(folder / name, name);
  write_file_atomic(folder / "from/modules.json", R"([{"type": "x.Transformer", "path": ""},
                                                      {"type": "x.Pooling", "path": "1_Pooling"}])");
  const Copied files = copy(folder / "from", folder / "to");
  CHECK(files.copied.size() == 1000);
  CHECK(std::vector(files.copied.begin(), files.copied.begin() + 4) ==
        std::vector<std::string>{"modules.json", "vocab.txt", "1_Pooling/config.json", "0_many/0000"});
  REQUIRE(files.skipped.size() == 204);  // each file of the folder that was begun, and the other folder
  CHECK(files.skipped.front().first == "0_many/0997");
  CHECK(files.skipped.back().first == "0_more");
}

TEST_CASE("side files: an interrupted copy continues and keeps existing files") {
  const TemporaryFolder folder;
  for (const char* name : {"from", "to"}) make_folders(folder / name);
  for (const char* name : {"from/a", "from/b", "to/a"}) write_file_atomic(folder / name, name);
  CHECK(copy(folder / "from", folder / "to", CopyOver::keep).copied == std::vector<std::string>{"b"});
  CHECK(read_file(folder / "to/a") == "to/a");
}
