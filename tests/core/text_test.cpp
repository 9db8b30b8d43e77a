#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/core/glob.h"
#include "lib/core/hash.h"
#include "lib/core/terminal/log.h"
#include "tests/core/temporary_folder.h"

using namespace comera;

TEST_CASE("glob: names") {
  CHECK(glob_match("encoder.*.query", "encoder.layer.3.attention.query"));
  CHECK(glob_match("*", ""));
  CHECK(glob_match("a?c", "abc"));
  CHECK(glob_match("layer.[0-2].*", "layer.1.x"));
  CHECK_FALSE(glob_match("layer.[!0-2].*", "layer.1.x"));
  CHECK(glob_match("[]a]", "]"));
  CHECK(glob_match("a[b", "a[b"));
  CHECK(glob_match("\\*", "*"));
  CHECK_FALSE(glob_match("\\*", "a"));
  CHECK(glob_match("*a*b*c*", "xxaxxbxxcxx"));
  CHECK_FALSE(glob_match("*a*b*c", "xxaxxbxxcxx"));
  CHECK_FALSE(glob_match("abc", "abcd"));
  CHECK_FALSE(glob_match(std::string(60, '*') + "b", std::string(5000, 'a')));
}

TEST_CASE("glob: files") {
  const std::string folder = std::filesystem::temp_directory_path() / "comera_glob_test";
  make_folders(folder);
  for (const char* name : {"b.tsv", "a.tsv", "c[1].txt"}) std::ofstream(join_path(folder, name)) << "x";
  CHECK(glob_files(join_path(folder, "*.tsv")) == std::vector<std::string>{folder + "/a.tsv", folder + "/b.tsv"});
  CHECK(glob_files(join_path(folder, "c[1].txt")) == std::vector<std::string>{folder + "/c[1].txt"});
  CHECK_THROWS_AS(glob_files(join_path(folder, "*.json")), InputError);
  CHECK_THROWS_AS(glob_files(join_path(folder, "none")), InputError);
  CHECK(hash_file(join_path(folder, "a.tsv")) == hash_text("x"));
  remove_tree(folder);
}

TEST_CASE("hash: the published value of the empty input, and pieces give the same value as one block") {
  CHECK(hash_text("") == "99aa06d3014798d86001c324468d497f");
  Hasher hasher;
  hasher.update("hel");
  hasher.update("lo");
  CHECK(hasher.hex() == hash_text("hello"));
  CHECK(hash_text("hello") != hash_text("hellp"));
}

TEST_CASE("log: the file gets all messages at any level") {
  const std::string path = std::filesystem::temp_directory_path() / "comera_log_test.txt";
  std::remove(path.c_str());
  set_up_log({LogLevel::error, path});
  log_warning("disk {} full", "half");
  log_detail("detail");
  set_up_log({});
  CHECK(read_file(path) == "warning: disk half full\ndetail\n");
  CHECK_FALSE(log_shows(LogLevel::detail));
  CHECK_THROWS_AS(set_up_log({LogLevel::info, "/nowhere/at/all"}), InputError);
  std::remove(path.c_str());
}

TEST_CASE("log: control characters of names are shown, in messages too") {
  CHECK(printable("a\033[1m\n") == "a\\x1b[1m\\x0a");
  CHECK(printable("\xc2\x9b"
                  "1m \xc2\xa0\xc3\x9b") == "\\xc2\\x9b1m \xc2\xa0\xc3\x9b");  // U+009B starts a terminal command too
  const TemporaryFolder folder;
  set_up_log({LogLevel::error, folder / "log"});
  log_warning("label {}\n\tis not known", "\033]0;x\007");
  set_up_log({});
  CHECK(read_file(folder / "log") == "warning: label \\x1b]0;x\\x07\n\tis not known\n");
}
