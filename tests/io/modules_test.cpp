#include "lib/io/modules.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "lib/core/error.h"
#include "lib/io/model_folder.h"
#include "tests/core/temporary_folder.h"
#include "tests/io/refused_folder.h"

using namespace comera;
using namespace comera::io;
using Catch::Matchers::Contains;

namespace {

const float values[4] = {1, 2, 3, 4};

std::string module_json(const std::string& kind, const std::string& path) {
  return Json{{"type", "sentence_transformers.models." + kind}, {"path", path}}.dump();
}

std::string list_of(std::initializer_list<std::string> modules) { return fmt::format("[{}]", fmt::join(modules, ",")); }

void write(const TemporaryFolder& folder, const std::string& name, const std::string& text) {
  make_folders(parent_path(folder / name));
  write_file_atomic(folder / name, text);
}

void write_layout(const TemporaryFolder& folder, const std::string& place) {
  write(folder, "from/modules.json", list_of({module_json("Transformer", place), module_json("Pooling", "1_Pooling")}));
  for (const char* name : {"vocab.txt", "README.md", "config.json", "pytorch_model.bin", "deeper/a.txt"})
    write(folder, "from/0_Transformer/" + std::string(name), name);
  for (const char* name : {"1_Pooling/config.json", "2_Dense/model.safetensors", "2_Dense/config.json", "LICENSE",
                           "README.md", "report.json"})
    write(folder, "from/" + std::string(name), "{}");
  write_safetensors(folder / "from/0_Transformer/model.safetensors", {{"a", StoredType::F32, {2, 2}, values}}, {});
}

}  // namespace

TEST_CASE("modules: the transformer is opened at the place in modules.json") {
  for (const char* place : {"0_Transformer", "0_Transformer/"}) {
    const TemporaryFolder folder;
    write_layout(folder, place);
    write(folder, "from/0_Transformer/config.json", R"({"model_type": "bert"})");
    const ModelFolder model(folder / "from");
    CHECK(model.place() == "0_Transformer");
    CHECK(model.path() == folder / "from");
    CHECK(model.config_path() == folder / "from/0_Transformer/config.json");
    CHECK(model.config()["model_type"] == "bert");
    CHECK(model.read_floats("a", {2, 2})[3] == 4);
  }
  const TemporaryFolder flat;
  write_safetensors(flat / "model.safetensors", {{"a", StoredType::F32, {2, 2}, values}}, {});
  for (const std::string& text :
       {list_of({module_json("Transformer", "")}), list_of({module_json("Transformer", ".")}), std::string("[]")}) {
    write(flat, "modules.json", text);
    CHECK(ModelFolder(flat.path()).place().empty());
  }
}

TEST_CASE("modules: side files keep the layout, or the transformer moves to the top") {
  const TemporaryFolder folder;
  write_layout(folder, "0_Transformer");
  const CopiedFiles same = copy_side_files(folder / "from", folder / "same", CopyLayout::same);
  CHECK(same.copied == std::vector<std::string>{"LICENSE", "README.md", "modules.json", "0_Transformer/README.md",
                                                "0_Transformer/vocab.txt", "0_Transformer/deeper/a.txt",
                                                "1_Pooling/config.json", "2_Dense/config.json",
                                                "2_Dense/model.safetensors"});
  CHECK(same.left_out == std::vector<std::string>{"0_Transformer/pytorch_model.bin"});
  CHECK(read_file(folder / "same/modules.json") == read_file(folder / "from/modules.json"));
  copy_side_files(folder / "from", folder / "top", CopyLayout::on_top);
  CHECK(list_folder(folder / "top") == std::vector<std::string>{"0_Transformer", "1_Pooling", "2_Dense", "LICENSE",
                                                                "README.md", "modules.json", "vocab.txt"});
  CHECK(list_folder(folder / "top/0_Transformer") == std::vector<std::string>{"deeper"});
  CHECK(read_file(folder / "top/README.md") == "README.md");
  CHECK(transformer_place(folder / "top").empty());
  CHECK(read_modules(folder / "top")[1].path == "1_Pooling");
}

TEST_CASE("modules: paths that leave the folder are refused") {
  const TemporaryFolder folder;
  write_layout(folder, "0_Transformer");
  const auto said = [&](const std::string& text) {
    write(folder, "from/modules.json", text);
    return message(folder / "from");
  };
  for (const char* path : {"/etc", "..", "../from/0_Transformer", "0_Transformer/../..", "a//b", "/"})
    CHECK_THAT(said(list_of({module_json("Transformer", path)})),
               Contains("modules.json") && Contains("leaves the folder"));
  CHECK_THAT(said(list_of({module_json("Normalize", "../2_Normalize")})), Contains("leaves the folder"));
  CHECK_THAT(said(R"([{"type": "x.Transformer", "path": 3}])"), Contains("path of a module is 3; it must be text"));
  CHECK_THAT(said(R"([{"type": ["x.Transformer"], "path": ""}])"), Contains("type of a module"));
  CHECK_THAT(said(list_of({module_json("Transformer", "0_BERT")})), Contains("'0_BERT', which is no folder"));
  CHECK_THAT(said(list_of({module_json("Transformer", "LICENSE")})), Contains("'LICENSE', which is no folder"));
  CHECK_THAT(said(list_of({module_json("Transformer", ""), module_json("Transformer", "0_Transformer")})),
             Contains("more than one transformer"));
  CHECK_THAT(said("{}"), Contains("not a list of modules"));
  CHECK_THAT(said(list_of({module_json("Transformer", "1_Pooling")})),
             Contains("from/1_Pooling: holds neither model.safetensors"));
  make_folders(folder / "elsewhere");
  std::filesystem::create_directory_symlink(folder / "elsewhere", folder / "from/link");
  CHECK_THAT(said(list_of({module_json("Transformer", "link")})), Contains("is a link that leaves the folder"));
  std::filesystem::create_directory_symlink("0_Transformer", folder / "from/alias");
  write(folder, "from/0_Transformer/config.json", "{}");
  CHECK(said(list_of({module_json("Transformer", "alias")})) == "accepted");
}
