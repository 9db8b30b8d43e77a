#include "lib/compress/layer_job.h"

#include <catch2/catch.hpp>

#include "kernels/host/thread_pool.h"
#include "lib/compress/assemble.h"
#include "lib/compress/fit/fitting.h"
#include "lib/compress/fit/measuring.h"
#include "lib/compress/plan/allotting.h"
#include "lib/compress/plan/planning.h"
#include "tests/compress/small_models.h"
#include "tests/core/temporary_folder.h"

using namespace comera;
using namespace comera::compress;

namespace {

// The stages whose fields are filled in every job, and no later ones.
struct Filled {
  bool planned = false, measured = false;
  std::size_t allotted = 0;  // sizes
  bool fitted = false;
};

void require(const std::vector<LayerJob>& jobs, const Filled& filled) {
  for (const LayerJob& job : jobs) {
    INFO(job.candidate.name);
    REQUIRE(job.first.has_value() == filled.planned);
    REQUIRE(job.curve.has_value() == filled.measured);
    REQUIRE(job.sizes.size() == filled.allotted);
    for (const LayerAtSize& at : job.sizes) REQUIRE(at.outcome.has_value() == filled.fitted);
  }
}

// Counts a header of fixed size and the bytes of every weight, with eight bytes per number of a chain.
class WideFile final : public CountedFile {
 public:
  static constexpr std::uint64_t header = 100000;
  std::uint64_t dense_bytes() const override { return 2 * header; }
  std::uint64_t bytes(const std::vector<LayerJob>& jobs, std::size_t size) const override {
    std::uint64_t sum = header;
    for (const LayerJob& job : jobs)
      sum +=
          job.sizes[size].dense() ? 2 * job.candidate.bytes() : 2 * planned_bytes(job.sizes[size].plan, job.candidate);
    return sum;
  }
  std::uint64_t third_core_bytes(const LayerPlan&) const override { return 0; }
  std::size_t element_bytes(io::StoredType) const override { return 8; }
};

}  // namespace

TEST_CASE("layer job: every stage fills its fields, at every requested size") {
  const TemporaryFolder folder;
  make_folders(folder / "dense");
  write_model(folder / "dense");
  kernels::ThreadPool pool(1);
  const tt::UsePool use(pool);
  Settings settings;
  settings.goal.ratios = {1.3, 2};
  settings.choice.exclude = {"*position*", "*type*"};
  const io::ModelFolder dense(folder / "dense");
  const WeightsFiles files(dense, {});
  const Request request{settings, dense, nullptr, files};
  std::vector<LayerJob> jobs = find_jobs(dense, settings.choice);
  require(jobs, {});
  plan_layers(jobs, settings, false);
  require(jobs, {.planned = true});
  measure_layers(jobs, request);
  require(jobs, {.planned = true, .measured = true});
  for (const LayerJob& job : jobs) CHECK(job.curve->losses.size() == job.curve->bytes.size());
  for (const auto& budget : settings.goal.size_budgets(files.dense_bytes())) allot_size(jobs, request, budget);
  require(jobs, {.planned = true, .measured = true, .allotted = 2});
  CHECK(files.bytes(jobs, 0) > files.bytes(jobs, 1));
  WorkFolder work(folder / "small", "key");
  fit_layers(jobs, {dense, nullptr, true, {}}, work);
  require(jobs, {.planned = true, .measured = true, .allotted = 2, .fitted = true});
  for (std::size_t size = 0; size < 2; ++size) {
    const std::string output = folder / fmt::format("small-{}", size);
    assemble(jobs, size, {dense, {}}, {}, output);
    CHECK(chains_at(jobs, size).size() > 0);
    CHECK(io::ModelFolder(output).bytes() <= files.bytes(jobs, size));
    CHECK(static_cast<double>(io::ModelFolder(output).bytes()) * settings.goal.ratios[size] <=
          static_cast<double>(files.dense_bytes()));
  }
  work.remove();
}

TEST_CASE("layer job: a budget counts the bytes of the given file") {
  const TemporaryFolder folder;
  write_model(folder.path());
  kernels::ThreadPool pool(1);
  const tt::UsePool use(pool);
  Settings settings;
  settings.choice.exclude = {"*position*", "*type*"};
  const io::ModelFolder dense(folder.path());
  std::vector<LayerJob> jobs = find_jobs(dense, settings.choice);
  std::uint64_t weights = 0;
  for (const LayerJob& job : jobs) weights += job.candidate.bytes();
  settings.goal.budgets = {WideFile::header + weights};  // half of the weights at twice their bytes
  const WideFile file;
  const Request request{settings, dense, nullptr, file};
  plan_layers(jobs, settings, false);
  require_possible(jobs, request);
  for (const LayerJob& job : jobs) CHECK((job.sizes.empty() && !job.curve));
  measure_layers(jobs, request);
  for (const LayerJob& job : jobs)
    CHECK(job.curve->dense_bytes == 2 * static_cast<std::int64_t>(job.candidate.bytes()));
  const std::uint64_t budget = settings.goal.budgets[0];
  allot_size(jobs, request, budget);
  CHECK(file.bytes(jobs, 0) <= budget);
  CHECK(10 * file.bytes(jobs, 0) > 8 * budget);
  CHECK(any_chain(jobs, 0));
  settings.goal.budgets.push_back(WideFile::header + 100);
  CHECK_THROWS_WITH(require_possible(jobs, request), Catch::Contains("with rank 1 everywhere"));
}
