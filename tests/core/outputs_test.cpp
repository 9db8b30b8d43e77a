#include "lib/core/files/outputs.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "tests/core/temporary_folder.h"

using namespace comera;
using Catch::Matchers::Contains;

namespace {

// The error message for one input and one output; "" if both are allowed.
std::string said(const std::string& input, const std::string& output) {
  try {
    check_outputs("verb", {{"MODEL", input}}, {{"--output", output}});
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("outputs: one that is an input, holds one or lies in one is refused, however it is written") {
  const TemporaryFolder place;
  make_folders(place / "m/deep");
  std::ofstream(place / "m/data") << "x";
  std::filesystem::create_directory_symlink(place / "m", place / "link");
  std::filesystem::create_directory_symlink(place / "m/deep", place / "inside");
  std::filesystem::create_symlink(place / "m/data", place / "file");
  std::filesystem::create_symlink(place / "m/later", place / "dangling");
  const std::string model = place / "m";
  for (const std::string& same :
       {place / "m", place / "m/", place / "m/.", place / "./m//deep/..", place / "link", place / "link/"}) {
    CAPTURE(same);
    CHECK_THAT(said(model, same), Contains("[verb] --output " + same + ": is MODEL " + model));
    CHECK_THAT(said(same, model), Contains(": is MODEL"));
  }
  for (const std::string& within : {place / "m/new", place / "m/new/deeper", place / "link/new", place / "inside",
                                    place / "inside/new", place / "file", place / "dangling"})
    CHECK_THAT(said(model, within), Contains(": lies in MODEL"));
  for (const std::string& around : {place.path(), std::string("/"), place / "link/.."})
    CHECK_THAT(said(model, around), Contains(": holds MODEL"));
  CHECK_THAT(said(place / "file", model), Contains(": holds MODEL"));
  CHECK_THAT(said(place / "file", place / "link/data"), Contains(": is MODEL"));
  for (const char* fine : {"n", "m2", "m.partial", "data", "deep"}) CHECK(said(model, place / fine).empty());
  CHECK(said(place / "m/data", place / "m/other").empty());
  CHECK(said(place / "m/data", place / "m/data.txt").empty());
  CHECK(said(place / "none", place / "m").empty());
  CHECK_THAT(said(place / "none/deeper", place / "none"), Contains(": holds MODEL"));
}

TEST_CASE("outputs: a hard link is the same file, and devices are not checked") {
  const TemporaryFolder place;
  std::ofstream(place / "a") << "x";
  std::filesystem::create_hard_link(place / "a", place / "b");
  CHECK_THAT(said(place / "a", place / "b"), Contains(": is MODEL"));
  CHECK(said("/dev/null", "/dev/null").empty());
}

TEST_CASE("outputs: a file of an input folder is refused by its other names") {
  const TemporaryFolder place;
  make_folders(place / "m/deep");
  make_folders(place / "blobs/more");
  for (const char* name : {"blobs/1", "blobs/2", "blobs/more/3", "blobs/4"}) std::ofstream(place / name) << "x";
  std::filesystem::create_symlink("../blobs/1", place / "m/weights");
  std::filesystem::create_hard_link(place / "blobs/2", place / "m/deep/config");
  std::filesystem::create_directory_symlink("../blobs/more", place / "m/docs");
  std::filesystem::create_symlink("../blobs/none", place / "m/dangling");
  CHECK_THAT(said(place / "m", place / "blobs/1"), Contains(": is a file of MODEL") && Contains("m/weights"));
  CHECK_THAT(said(place / "m/", place / "blobs/2"), Contains(": is a file of MODEL") && Contains("m/deep/config"));
  for (const char* fine : {"blobs/more/3", "blobs/4", "blobs/new"}) CHECK(said(place / "m", place / fine).empty());
}

TEST_CASE("outputs: relative names of missing paths are checked too") {
  CHECK_THROWS_WITH(check_outputs("verb", {}, {{"--a", "not-there"}, {"--b", "./not-there"}}), Contains("both name"));
  CHECK_THAT(said("not-there/data", "./not-there"), Contains(": holds MODEL"));
  CHECK_THAT(said("not-there/data", "."), Contains(": holds MODEL"));
}

TEST_CASE("outputs: two outputs must differ") {
  const TemporaryFolder place;
  std::filesystem::create_directory_symlink(place.path(), place / "link");
  CHECK_THROWS_WITH(check_outputs("verb", {}, {{"--output", place / "a"}, {"--log-file", place / "link/a"}}),
                    Contains("--output and --log-file both name"));
  CHECK_NOTHROW(check_outputs("verb", {}, {{"--output", place / "a"}, {"--log-file", place / "b"}}));
}

TEST_CASE("outputs: options declare the files that they read and write") {
  const TemporaryFolder place;
  for (const char* name : {"a.txt", "b.txt"}) std::ofstream(place / name) << "x";
  OptionTable table("verb", "does something");
  table.positional({.name = "MODEL", .help = "a model", .minimum = 0})
      .add({{.name = "data", .type = OptionType::list, .help = "files", .files = FileUse::read},
            {.name = "text", .type = OptionType::list, .help = "columns"},
            {.name = "teacher", .type = OptionType::path, .help = "a folder"},
            {.name = "output", .type = OptionType::path, .help = "a folder", .files = FileUse::written}});
  const auto refused = [&](const std::vector<std::string>& words) {
    const ParsedCommand command = parse_command(table, words, [](const std::string&) { return nullptr; });
    try {
      check_outputs(command.values);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK_THAT(refused({"--data", place / "*.txt", "--output", place / "b.txt"}),
             Contains(": is --data " + (place / "b.txt")));
  CHECK_THAT(refused({"--data", place / "*.txt", "--output", place.path()}), Contains(": holds --data"));
  CHECK_THAT(refused({"--teacher", place.path(), "--output", place / "new"}), Contains(": lies in --teacher"));
  CHECK_THAT(refused({place.path(), "--output", place.path()}), Contains(": is MODEL"));
  CHECK(refused({"--data", place / "*.txt", "--text", place / "new", "--output", place / "new"}).empty());
}
