#include "lib/core/hub_hint.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "lib/core/error.h"
#include "lib/core/glob.h"
#include "tests/core/temporary_folder.h"

using namespace comera;
using Catch::Matchers::Contains;

TEST_CASE("hub hint: a missing path like a hub name gets the download command") {
  CHECK(hub_hint("BAAI/bge-small-en-v1.5") ==
        "; to fetch it from the Hugging Face hub: hf download BAAI/bge-small-en-v1.5 --local-dir bge-small-en-v1.5");
  CHECK(hub_hint("nyu-mll/glue", HubRepository::dataset) ==
        "; to fetch it from the Hugging Face hub: hf download nyu-mll/glue --repo-type dataset --local-dir glue");
  for (const char* path : {"model", "/a/b", "./model", "../model", "a/b/c", "a b/c", "runs/", "~/x", "data/train.tsv",
                           "data/text.txt.zst"})
    CHECK(hub_hint(path).empty());
  CHECK_THROWS_WITH(glob_files("org/name"),
                    Contains("org/name: no such file") && Contains("hf download org/name --repo-type dataset"));
}

TEST_CASE("hub hint: a path into an existing folder gets no hint") {
  const TemporaryFolder folder;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  std::filesystem::create_directory("runs");
  CHECK(hub_hint("runs/first").empty());
  CHECK_FALSE(hub_hint("org/first").empty());
  std::filesystem::current_path(before);
}
