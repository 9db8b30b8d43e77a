#include "lib/compress/extract.h"

#include <catch2/catch.hpp>
#include <random>

#include "lib/core/error.h"
#include "lib/tt/low_rank.h"
#include "tests/core/temporary_folder.h"

using namespace comera;
using namespace comera::compress;
using Catch::Matchers::Contains;

namespace {

std::vector<float> random_floats(std::size_t count, unsigned seed, float scale = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

constexpr std::int64_t out = 24, in = 40;

// Two models with a linear weight, a table, a norm and an equal weight.
class Models {
 public:
  explicit Models(const char* type = "llama", io::StoredType stored = io::StoredType::F32) {
    const std::vector<float> weight = random_floats(out * in, 1), norm = random_floats(in, 2);
    std::vector<float> tuned = weight, other = norm;
    const std::vector<float> change = random_floats(out * in, 3, 0.05f);
    for (std::size_t i = 0; i < tuned.size(); ++i) tuned[i] += change[i];
    other[0] += 1;
    write("base", weight, norm, type, stored);
    write("tuned", tuned, other, type, stored);
  }
  ExtractSettings settings(const char* output) const {
    ExtractSettings settings;
    settings.base = folder_ / "base", settings.tuned = folder_ / "tuned", settings.output = folder_ / output;
    return settings;
  }
  tt::Matrix weight(const char* name, const std::string& adapter = "") const {
    const std::vector<float> values =
        io::ModelFolder(folder_ / name, adapter).read_floats("layer.proj.weight", {out, in});
    return {out, in, {values.begin(), values.end()}};
  }
  std::string in_folder(const std::string& name) const { return folder_ / name; }

 private:
  void write(const char* name, const std::vector<float>& weight, const std::vector<float>& norm, const char* type,
             io::StoredType stored) {
    make_folders(folder_ / name);
    const auto tensor = [&](const char* of, io::FileShape shape, const std::vector<float>& values) {
      return io::TensorToWrite{of, stored, std::move(shape), values.data(), true};
    };
    const std::vector<float> same = random_floats(64, 4);
    io::write_safetensors(join_path(folder_ / name, "model.safetensors"),
                          {tensor("layer.proj.weight", {out, in}, weight), tensor("layer.norm.weight", {in}, norm),
                           tensor("layer.same.weight", {8, 8}, same)},
                          {});
    write_file_atomic(join_path(folder_ / name, "config.json"), fmt::format("{{\"model_type\": \"{}\"}}", type));
  }

  TemporaryFolder folder_;
};

double distance(const tt::Matrix& a, const tt::Matrix& b) { return std::sqrt(tt::squared_norm(tt::difference(a, b))); }

}  // namespace

TEST_CASE("extract: the stated error is that of the merged weight, and no rank has a smaller one") {
  for (const char* type : {"llama", "gpt2"})
    for (const io::StoredType stored : {io::StoredType::F32, io::StoredType::F16}) {
      INFO(type << " " << io::name_of(stored));
      const Models models(type, stored);
      const tt::Matrix base = models.weight("base"), tuned = models.weight("tuned");
      const double size = std::sqrt(tt::squared_norm(tuned));
      const std::vector<double> losses = tt::low_rank_losses(tt::difference(tuned, base));
      for (const std::int64_t rank : {1, 5, 24}) {
        const std::string name = fmt::format("rank-{}", rank);
        ExtractSettings settings = models.settings(name.c_str());
        settings.rank = rank;
        const Extracted made = extract(settings);
        REQUIRE(made.layers.size() == 1);
        const ExtractedLayer& layer = made.layers[0];
        CHECK(layer.name == "layer.proj");
        CHECK(layer.rank == rank);
        CHECK(layer.parameters() == rank * (out + in));
        CHECK(layer.change == Approx(distance(tuned, base) / size));
        const double found = distance(tuned, models.weight("base", models.in_folder(name))) / size;
        CHECK(std::abs(found - *layer.rel_error) < 1e-7);
        // The best loss of this rank, and rounding of each element to its type.
        const double rounding = stored == io::StoredType::F32 ? 0x1p-22 : 0x1p-10;
        const double best = std::sqrt(losses[static_cast<std::size_t>(rank)]) / size;
        CHECK(found <= best + rounding);
        CHECK(found >= best - rounding);
        CHECK(made.others == std::vector<std::string>{"layer.norm.weight"});
        CHECK(made.equal == 1);
        CHECK(made.bytes == file_size(join_path(models.in_folder(name), "adapter_model.safetensors")));
        CHECK(list_folder(models.in_folder(name)).size() == 2);
      }
    }
}

TEST_CASE("extract: a tolerance gets the smallest rank that reaches it") {
  const Models models;
  const double size = std::sqrt(tt::squared_norm(models.weight("tuned")));
  const std::vector<double> losses = tt::low_rank_losses(tt::difference(models.weight("tuned"), models.weight("base")));
  ExtractSettings settings = models.settings("adapter");
  settings.tolerance = 0.02;
  settings.type = io::StoredType::F16;
  const Extracted made = extract(settings);
  const ExtractedLayer& layer = made.layers[0];
  CHECK(*layer.rel_error <= 0.02);
  CHECK(std::sqrt(losses[static_cast<std::size_t>(layer.rank - 1)]) / size > 0.02);
  CHECK(distance(models.weight("tuned"), models.weight("base", models.in_folder("adapter"))) / size <= 0.02);
  settings.writes = false;
  CHECK(extract(settings).layers[0].rank == layer.rank);
  CHECK(extract(settings).bytes == made.bytes);
  settings.tolerance = 0.5;
  CHECK(extract(settings).layers[0].rank == 0);
  CHECK(extract(settings).bytes == 0);
  settings.writes = true;
  settings.output = models.in_folder("nothing");
  CHECK(extract(settings).bytes == 0);
  CHECK(!path_exists(settings.output));
}

TEST_CASE("extract: models that do not fit are refused") {
  const Models models;
  ExtractSettings settings = models.settings("adapter");
  settings.rank = 25;
  CHECK_THROWS_WITH(extract(settings), Contains("--rank 25") && Contains("--rank 24 or fewer"));
  settings.rank = 2;
  const std::vector<float> numbers(64, 1);
  make_folders(models.in_folder("other"));
  io::write_safetensors(models.in_folder("other/model.safetensors"),
                        {{"layer.same.weight", io::StoredType::F32, {8, 8}, numbers.data(), true}}, {});
  settings.tuned = models.in_folder("other");
  CHECK_THROWS_WITH(extract(settings), Contains("other: has no tensor layer.norm.weight of shape [40]"));
  settings.base = models.in_folder("none");
  CHECK_THROWS_WITH(extract(settings), Contains("no such file or folder"));
  CHECK(!path_exists(settings.output));
}
