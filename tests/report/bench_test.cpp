#include "lib/report/bench/bench.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "kernels/cuda/common/runtime.h"
#include "kernels/host/cpu_backend.h"
#include "lib/report/bench/energy.h"
#include "lib/report/bench/kernel_times.h"
#include "lib/train/optimizer.h"
#include "lib/tt/modes.h"
#include "models/architecture.h"
#include "models/encoder/encoder_spec.h"

using namespace comera;
using namespace comera::report;

namespace {

void write(const std::filesystem::path& path, const std::string& text) { std::ofstream(path) << text; }

plan::Machine machine() {
  const char* error = nullptr;
  plan::Machine machine;
  machine.backend = kernels::cpu_backend("auto", &error);
  REQUIRE(machine.backend);
  return machine;
}

}  // namespace

TEST_CASE("Median, smallest and largest of samples") {
  const Spread odd = spread_of({5, 1, 3}), even = spread_of({4, 1, 2, 10}), one = spread_of({7});
  CHECK((odd.median == 3 && odd.min == 1 && odd.max == 5));
  CHECK((even.median == 3 && even.min == 1 && even.max == 10));
  CHECK((one.median == 7 && one.min == 7 && one.max == 7));
}

TEST_CASE("Energy is the sum over packages, and counter overflow is corrected") {
  char name[] = "/tmp/energy-XXXXXX";
  const std::filesystem::path root = mkdtemp(name);
  for (const auto& [zone, what] :
       {std::pair("intel-rapl:0", "package-0"), {"intel-rapl:0:0", "core"}, {"intel-rapl:1", "package-1"}}) {
    std::filesystem::create_directory(root / zone);
    write(root / zone / "name", what);
    write(root / zone / "energy_uj", "9000000");
    write(root / zone / "max_energy_range_uj", "10000000");
  }
  EnergyMeter meter(root.string());
  write(root / "intel-rapl:0" / "energy_uj", "9500000");
  write(root / "intel-rapl:0:0" / "energy_uj", "9900000");
  write(root / "intel-rapl:1" / "energy_uj", "500000");
  CHECK(meter.joules().value() == Approx(0.5 + 1.5));
  CHECK(meter.joules().value() == Approx(0));
  std::filesystem::remove_all(root);
  CHECK_FALSE(EnergyMeter("/nowhere").joules().has_value());
}

TEST_CASE("Energy of a device is the difference of its driver's counter, and empty without a counter") {
  static double used;
  used = 7;
  kernels::Device device;
  device.open = [](int, void**) { return kernels::Status::ok; };
  CHECK_FALSE(EnergyMeter::of(device).joules().has_value());
  device.joules = [](double* now) { return *now = used, kernels::Status::ok; };
  EnergyMeter meter = EnergyMeter::of(device);
  used = 9.5;
  CHECK(meter.joules().value() == 2.5);
  CHECK(meter.joules().value() == 0);
  device.joules = [](double*) { return kernels::Status::failed; };
  CHECK_FALSE(meter.joules().has_value());
}

TEST_CASE("A single layer is timed with the FLOPs of its two products, forward and backward") {
  const plan::Machine cpu = machine();
  const BenchOptions options{.warmup = 1, .repetitions = 2, .batch = 2, .length = 16};
  const std::int64_t tokens = 32, in = 64, out = 128, rank = 8;
  const BenchReport dense = bench_linear(cpu, {.in = in, .out = out}, options);
  REQUIRE((dense.rows.size() == 2 && dense.rows[1].work == "tokens"));
  // x W, dX = dY W^T, dW = X^T dY.
  CHECK(dense.rows[0].flops == Approx(3.0 * 2 * tokens * in * out));
  CHECK(dense.settings["parameters"] == in * out + out);
  LinearBench bench{.in = in, .out = out, .form = layers::chain_form(tt::tt_layout({in}, {out}, {1, rank, 1}))};
  const BenchReport lowrank = bench_linear(cpu, bench, options);
  CHECK(lowrank.settings["parameters"] == in * rank + rank * out + out);
  // The six tall products, and work that does not grow with the tokens.
  CHECK(lowrank.rows[0].flops >= 6.0 * tokens * rank * (in + out));
  CHECK(lowrank.rows[0].flops < 3.0 * 2 * tokens * in * out);
  CHECK(lowrank.rows[0].ms.median > 0);
  // Separate rows: work that grows with the tokens, and work that does not.
  REQUIRE((lowrank.rows.size() == 3 && lowrank.rows[1].work == "tokens" && lowrank.rows[2].work == "cores"));
  CHECK(lowrank.rows[1].flops == 6.0 * tokens * rank * (in + out));
  CHECK(lowrank.rows[0].flops >= lowrank.rows[1].flops + lowrank.rows[2].flops);  // ranks are padded there
  // X, Y, dY, dX; A, B, dA, dB.
  CHECK(lowrank.rows[1].moved_bytes == 4.0 * (2 * tokens * (in + out) + 2 * rank * (in + out)));
  CHECK(dense.rows[1].moved_bytes == 4.0 * (2 * tokens * (in + out) + 2 * in * out));
}

TEST_CASE("A single table is timed, dense and in TTM form") {
  const plan::Machine cpu = machine();
  const BenchOptions options{.warmup = 1, .repetitions = 2, .batch = 2, .length = 16};
  const BenchReport dense = bench_lookup(cpu, {.rows = 100, .columns = 16}, options);
  CHECK(dense.settings["parameters"] == 100 * 16);
  const tt::Layout layout{.kind = tt::Kind::ttm, .modes = tt::table_modes(100, 16, 2), .ranks = {1, 4, 1}};
  const BenchReport ttm = bench_lookup(cpu, {.rows = 100, .columns = 16, .form = layers::chain_form(layout)}, options);
  CHECK(ttm.settings["parameters"] == tt::core_parameters(layout.entry_sizes(), layout.ranks));
  REQUIRE((ttm.rows.size() == 3 && ttm.rows[1].work == "tokens"));
  CHECK(ttm.rows[1].flops == 3 * 32 * 2.0 * 16 * 4);
}

TEST_CASE("A single layer is timed on a device with alternating sets of tokens") {
  kernels::Backend device = kernels::cuda::table();  // the emulator on the host
  device.device.joules = nullptr;                    // otherwise each part takes a second
  const plan::Machine machine{&device, DType::f32, nullptr};
  const BenchOptions options{.warmup = 1, .repetitions = 2, .batch = 2, .length = 16};
  tt::Layout layout{.modes = tt::linear_modes(64, 32, 2)};
  layout.ranks = tt::uniform_ranks(layout.modes, 4, "test");
  const BenchReport linear = bench_linear(machine, {.in = 64, .out = 32, .form = layers::chain_form(layout)}, options);
  REQUIRE((linear.rows.size() == 3 && linear.rows[1].work == "tokens"));
  CHECK((linear.rows[1].launches > 0 && linear.rows[0].launches > linear.rows[1].launches));
  CHECK(to_json(bench_table(linear, true))[1]["launches"] == *linear.rows[1].launches);
  CHECK(linear.rows[0].peak_bytes.value() >= 4 * 32 * (64 + 64 + 32));  // x, dx, dy
  const tt::Layout table{.kind = tt::Kind::ttm, .modes = tt::table_modes(100, 16, 2), .ranks = {1, 4, 1}};
  const BenchReport lookup =
      bench_lookup(machine, {.rows = 100, .columns = 16, .form = layers::chain_form(table)}, options);
  CHECK((lookup.rows.size() == 3 && lookup.rows[1].flops == 3 * 32 * 2.0 * 16 * 4));
}

// A step with and without a profile: the calls of both are counted, by shape on a device alone.
TEST_CASE("The calls of a step are timed per op, on a device per op and shape") {
  models::EncoderSpec spec;
  spec.vocabulary = 40, spec.hidden = 16, spec.layers = 1, spec.heads = 2, spec.intermediate = 32, spec.positions = 8;
  spec.task = data::Task::classify, spec.labels = {"a", "b"};
  kernels::Backend device = kernels::cuda::table();  // the emulator on the host
  device.device.joules = nullptr;                    // otherwise a step takes a second
  const BenchOptions options{.warmup = 1, .repetitions = 2, .batch = 2, .length = 8};
  for (const plan::Machine& one : {machine(), plan::Machine{&device, DType::f32, nullptr}}) {
    const bool on_device = one.backend->device.open != nullptr;
    CAPTURE(on_device);
    engine::Engine engine(one, models::factory_of(spec, one.dtype), {.update = train::optimizer({})});
    const std::vector<BenchRow> rows = time_steps(engine, spec.task, spec.vocabulary, 2, options);
    std::map<std::string, std::int64_t> calls;
    std::map<std::string, double> flops;
    std::set<std::string> shapes;
    for (const BenchRow& row : rows) {
      calls[row.work] += row.calls, flops[row.work] += row.flops;
      CHECK(row.ms.median >= 0);
      if (row.work == "linear_forward") shapes.insert(row.shape);
    }
    CHECK(shapes == (on_device ? std::set<std::string>{"16 x 16 -> 16", "16 x 16 -> 32", "16 x 32 -> 16",
                                                       "2 x 16 -> 16", "2 x 16 -> 2"}
                               : std::set<std::string>{""}));
    CHECK(calls["linear_forward"] == calls["linear_backward"]);
    for (const plan::OpCount& count : engine.op_counts()) CHECK(flops[count.op] == Approx(count.flops));
    CHECK((calls["step"] == 1 && calls["other"] == 1 && calls["adamw"] > 0));
    BenchReport report;
    report.rows = rows;
    CHECK(to_json(bench_table(report, false))[1].contains("shape") == on_device);
  }
}

TEST_CASE("A row's bound is the longer of the times for its bytes and its FLOPs") {
  BenchReport report;
  report.peak_gflops = 100, report.copy_gb_per_s = 10;
  BenchRow row{.work = "tokens", .ms = {4, 4, 4}, .flops = 1e8, .moved_bytes = 2e7, .peak_bytes = {}, .joules = {}};
  CHECK(bound_ms(report, row).value() == Approx(2));
  row.flops = 3e8;
  CHECK(bound_ms(report, row).value() == Approx(3));
  report.rows = {row};
  CHECK(to_json(bench_table(report, false))[0]["share_of_bound"].get<double>() == Approx(0.75));
  row.moved_bytes = 0;
  CHECK_FALSE(bound_ms(report, row));
}

TEST_CASE("The machine's rates are positive") {
  CHECK(measure_peak_gflops(machine()) > 0);
  CHECK(measure_copy_gb_per_s(machine()) > 0);
}

TEST_CASE("No matrix product exceeds the peak of its instruction set") {
  for (const char* isa : kernels::cpu_isas) {
    if (!kernels::cpu_supports(isa)) continue;
    CAPTURE(isa);
    const char* error = nullptr;
    plan::Machine one;
    one.backend = kernels::cpu_backend(isa, &error);
    REQUIRE(one.backend);
    CHECK(std::string(peak_work(one)) == "multiply-adds in registers");
    const double before = measure_peak_gflops(one);
    const BenchReport dense =
        bench_linear(one, {.in = 512, .out = 512}, {.warmup = 2, .repetitions = 5, .batch = 4, .length = 128});
    CHECK(dense.rows[0].flops / dense.rows[0].ms.min * 1e-6 <= std::max(before, measure_peak_gflops(one)));
  }
}

TEST_CASE("A share above 1 is empty, and no memory column is called peak") {
  BenchReport report;
  report.peak_gflops = 100, report.copy_gb_per_s = 10;
  report.rows = {
      {.work = "step", .ms = {1, 1, 1}, .flops = 1.9e8, .moved_bytes = 3e7, .peak_bytes = 1 << 20, .joules = {}}};
  const Table table = bench_table(report, false);
  const Json row = to_json(table)[0];
  CHECK((row["gflops"] == 190 && row["share_of_peak"].is_null() && row["share_of_bound"].is_null()));
  const Json kernels = to_json(kernel_table({{"sgd", "8", 0.1, 4e3, 0}, {"adamw", "8", 0.8, 4e3, 0}}, 10, 100));
  CHECK((kernels[0]["share_of_bound"].is_null() && kernels[1]["share_of_bound"].get<double>() == Approx(0.5)));
  int peaks = 0;
  for (const Column& column : table.columns) peaks += column.title.find("peak") != std::string::npos;
  CHECK(peaks == 1);
  CHECK(without_empty_columns(table).column("joules") == -1);
}

TEST_CASE("The table has the keys for scripts, and the settings on every line") {
  BenchReport report;
  report.peak_gflops = 100;
  report.settings["model"] = "m";
  report.settings["batch"] = 32;
  report.rows = {{.work = "step", .ms = {10, 9, 12}, .flops = 1e9 / 2, .peak_bytes = 1 << 20, .joules = {}},
                 {.work = "other", .ms = {1, 1, 1}, .peak_bytes = {}, .joules = {}}};
  const Json rows = to_json(bench_table(report, true));
  REQUIRE(rows.size() == 2);
  CHECK(rows[0]["work"] == "step");
  CHECK((rows[0]["median_ms"] == 10 && rows[0]["min_ms"] == 9 && rows[0]["max_ms"] == 12));
  CHECK(rows[0]["gflops"].get<double>() == Approx(50));
  CHECK(rows[0]["share_of_peak"].get<double>() == Approx(0.5));
  CHECK(rows[0]["peak_bytes"] == 1 << 20);
  CHECK(rows[1]["gflops"].is_null());
  CHECK(rows[1]["share"].get<double>() == Approx(0.1));
  CHECK((rows[1]["model"] == "m" && rows[1]["batch"] == 32));
  CHECK(bench_table(report, false).column("model") == -1);
  CHECK(bench_table(report, false).column("launches") == -1);  // the host launches nothing
}
