#include "lib/io/model_folder.h"

#include <catch2/catch.hpp>
#include <cstdlib>

#include "lib/core/error.h"
#include "lib/io/tt_format.h"
#include "tests/core/temporary_folder.h"
#include "tests/io/refused_folder.h"

using namespace comera;
using namespace comera::io;
using Catch::Matchers::Contains;

namespace {

const float values[8] = {1, 2, 3, 4, 5, 6, 7, 8};

TensorToWrite tensor(const std::string& name) { return {name, StoredType::F32, {2, 4}, values}; }

}  // namespace

TEST_CASE("model folder: a single file, its config in order, its tensors by name") {
  const TemporaryFolder folder;
  write_safetensors(folder / "model.safetensors", {tensor("layer.10.weight"), tensor("layer.9.weight")},
                    {{"format", "pt"}});
  write_file_atomic(folder / "config.json", R"({"z": 1, "a": {"unknown": [1, 2]}})");
  const ModelFolder model(folder.path());
  CHECK(model.config().dump() == R"({"z":1,"a":{"unknown":[1,2]}})");
  CHECK(model.entries()[0].tensor.name == "layer.9.weight");
  CHECK(model.read_floats("layer.10.weight", {2, 4}) == std::vector<float>(values, values + 8));
  CHECK_THROWS_WITH(model.read_floats("layer.10.weight", {4, 2}),
                    Contains("layer.10.weight") && Contains("expected [4, 2], found [2, 4]"));
  CHECK_THROWS_WITH(model.read_floats("layer.11.weight", {2, 4}), Contains("has no tensor layer.11.weight"));
  CHECK(model.bytes() == file_size(folder / "model.safetensors"));
  const ModelFolder file(folder / "model.safetensors");
  CHECK(file.entries().size() == 2);
  CHECK_FALSE(file.has_config());
}

TEST_CASE("model folder: shards") {
  const TemporaryFolder folder;
  write_safetensors(folder / "model-00001-of-00002.safetensors", {tensor("a")}, {});
  write_safetensors(folder / "model-00002-of-00002.safetensors", {tensor("b")}, {});
  const std::string index = folder / "model.safetensors.index.json";
  write_file_atomic(
      index, R"({"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}})");
  CHECK(ModelFolder(folder.path()).files().size() == 2);
  CHECK(ModelFolder(folder.path()).read_floats("b", {2, 4})[7] == 8);
  write_file_atomic(index, R"({"weight_map": {"a": "model-00002-of-00002.safetensors"}})");
  CHECK_THAT(message(folder.path()), Contains("tensor a is not in model-00002-of-00002.safetensors"));
  write_file_atomic(index, R"({"weight_map": {"a": "model-00003-of-00002.safetensors"}})");
  CHECK_THAT(message(folder.path()), Contains("model-00003-of-00002.safetensors") && Contains("No such file"));
  for (const char* file : {"../x.safetensors", "/etc/passwd", "x/y.safetensors", "x.bin"}) {
    write_file_atomic(index, Json{{"weight_map", {{"a", file}}}}.dump());
    CHECK_THAT(message(folder.path()), Contains("same folder"));
  }
  write_file_atomic(index, R"({"weight_map": {"a": 3}})");
  CHECK_THAT(message(folder.path()), Contains("same folder"));
  write_file_atomic(index, R"({})");
  CHECK_THAT(message(folder.path()), Contains("weight_map"));
  write_file_atomic(index, R"({"weight_map": {}})");
  CHECK_THAT(message(folder.path()), Contains("names no tensor"));
}

TEST_CASE("model folder: what is not a model says what to do") {
  const TemporaryFolder folder;
  CHECK_THAT(message(folder / "none"), Contains("no such file or folder"));
  CHECK_THAT(message(folder.path()), Contains("neither model.safetensors nor"));
  write_file_atomic(folder / "tf_model.h5", "x");
  CHECK_THAT(message(folder.path()), Contains("tf_model.h5") && Contains("not read"));
  write_file_atomic(folder / "pytorch_model.bin", "x");
  CHECK_THAT(message(folder.path()),
             Contains("pytorch_model.bin") && Contains("pickled") && Contains("save_pretrained"));
  // The content of a file decides its kind; its name counts only where the content is unknown.
  write_file_atomic(folder / "pytorch_model.bin", std::string(20, '\1'));
  CHECK_THAT(message(folder / "pytorch_model.bin"), Contains("no safetensors file") && Contains("pickled"));
  write_file_atomic(folder / "pytorch_model.bin", "a sentence");
  CHECK_THAT(message(folder / "pytorch_model.bin"), Contains("is text") && !Contains("pickled"));
  write_safetensors(folder / "model.safetensors", {tensor("a")}, {});
  write_file_atomic(folder / "config.json", "[1]");
  CHECK_THAT(message(folder.path()), Contains("config.json") && Contains("not a JSON object"));
  write_file_atomic(folder / "config.json", "{\"a\": 1,}");
  CHECK_THAT(message(folder.path()), Contains("config.json") && Contains("not valid JSON"));
  write_file_atomic(folder / "config.json", "{\"a\": 1, \"a\": 2}");
  CHECK_THAT(message(folder.path()), Contains("twice"));
  write_file_atomic(folder / "config.json", "{\"a\": " + std::string(100000, '['));
  CHECK_THAT(message(folder.path()), Contains("nests deeper"));
}

TEST_CASE("model folder: side files are copied, weights in other formats are listed") {
  const TemporaryFolder folder;
  make_folders(folder / "from/1_Pooling");
  make_folders(folder / "from/2_Dense");
  for (const char* name :
       {"vocab.txt", "1_Pooling/config.json", "2_Dense/model.safetensors", "consolidated.safetensors",
        "pytorch_model.bin", "config.json", "model.safetensors", "metrics.jsonl", ".git"})
    write_file_atomic(folder / ("from/" + std::string(name)), name);
  make_folders(folder / "to");
  const CopiedFiles files = copy_side_files(folder / "from", folder / "to", CopyLayout::same);
  CHECK(files.copied == std::vector<std::string>{"vocab.txt", "1_Pooling/config.json", "2_Dense/model.safetensors"});
  CHECK(files.left_out == std::vector<std::string>{"pytorch_model.bin"});
  CHECK(read_file(folder / "to/1_Pooling/config.json") == "1_Pooling/config.json");
  CHECK(list_folder(folder / "to") == std::vector<std::string>{"1_Pooling", "2_Dense", "vocab.txt"});
}

TEST_CASE("model folder: numbers in names sort by value") {
  CHECK(natural_less("layer.2.w", "layer.10.w"));
  CHECK_FALSE(natural_less("layer.10.w", "layer.2.w"));
  CHECK(natural_less("a", "a.1"));
  CHECK_FALSE(natural_less("a.1", "a.1"));
  CHECK(natural_less("a.01", "a.1"));
}

TEST_CASE("model folder: real checkpoints open and are described from their headers") {
  const char* data = std::getenv("COMERA_DATA");
  if (!data) {
    WARN("COMERA_DATA is not set: real checkpoints are not opened");
    return;
  }
  const std::string folder = std::string(data) + "/checkpoints/";
  const ModelFolder bert(folder + "all-MiniLM-L6-v2");
  std::int64_t parameters = 0;
  for (const TensorForm& form : describe(bert)) {
    // Position ids are a buffer, not a weight.
    if (form.name.ends_with("position_ids")) continue;
    parameters += form.parameters;
    if (form.name == "embeddings.word_embeddings.weight")
      CHECK((form.kind == "embedding" && form.shape == FileShape{30522, 384}));
    if (form.name == "encoder.layer.5.attention.self.query.weight")
      CHECK((form.kind == "linear" && form.form == "dense"));
    if (form.name == "encoder.layer.5.output.LayerNorm.weight") CHECK(form.kind == "norm");
  }
  CHECK(parameters == 22'713'216);  // published: 22.7M
  CHECK(bert.config()["hidden_size"] == 384);
  for (const char* name : {"stories15M", "stories260K"}) {
    const ModelFolder llama(folder + name);
    CHECK(llama.find("model.embed_tokens.weight"));
    CHECK(describe(llama).size() == llama.entries().size());
  }
}

TEST_CASE("model folder: sharded weights read back, and their size is computed in advance") {
  const TemporaryFolder folder;
  const float values[] = {1, 2, 3, 4};
  const std::vector<std::vector<TensorToWrite>> shards{
      {{"a.weight", StoredType::F32, {2, 2}}, {"b.bias", StoredType::BF16, {2}}}, {{"c.weight", StoredType::F16, {4}}}};
  const auto fill = [&](const TensorToWrite& tensor, TensorSink& sink) {
    sink.floats(std::span(values).first(static_cast<std::size_t>(elements_of(tensor.shape))));
  };
  write_weights(folder.path(), shards, {{"format", "pt"}}, fill);
  const ModelFolder model(folder.path());
  CHECK(model.files().size() == 2);
  CHECK(model.bytes() == weights_bytes(shards, {{"format", "pt"}}));
  CHECK(model.read_floats("c.weight", {4}) == std::vector<float>{1, 2, 3, 4});
  const ModelFolder::Entry& a = *model.find("a.weight");
  model.file_of(a).forget(a.tensor);
  CHECK(model.read_floats("a.weight", {2, 2}) == std::vector<float>{1, 2, 3, 4});
  CHECK(model.read_floats("b.bias", {2}) == std::vector<float>{1, 2});
}
