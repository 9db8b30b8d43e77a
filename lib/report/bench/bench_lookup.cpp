// Benches of embedding lookups, declared in lib/report/bench/bench_layer.h.
#include <cmath>

#include "kernels/bags.h"
#include "lib/engine/weights.h"
#include "lib/layers/embedding.h"
#include "lib/report/bench/bench_layer.h"

namespace comera::report {
namespace {

using layers::Tensor;

class TableAlone final : public LayerAlone {
 public:
  TableAlone(const plan::Machine& machine, const layers::TableSpec& spec, bool zipf, const BenchOptions& options)
      : LayerAlone(machine),
        rows_(spec.rows),
        columns_(spec.columns),
        tokens_(options.batch * options.length),
        seed_(options.seed),
        zipf_(zipf) {
    layers::Builder build = builder();
    table_ = layers::make_table(build, spec);
    take_memory();
  }

  void tokens(layers::Walk& walk, int set) override {
    const Set& data = sets_[static_cast<std::size_t>(set)];
    const kernels::Bags bags{tokens_, tokens_, static_cast<const std::int32_t*>(data.ids.data), nullptr};
    Tensor y = walk.make("y", {tokens_, columns_});
    table_->forward(walk, bags, y, false);
    walk.drop(y);
    walk.backward_begins();
    table_->backward(walk, *sink_, bags, data.dy);
  }

  std::size_t set_bytes() const override { return id_bytes() + plan::aligned(row_bytes()); }

  void make_sets(int sets) override {
    sets_.clear();
    data_ = plan::Arena();
    data_ = plan::Arena(*machine_.backend, static_cast<std::size_t>(sets) * set_bytes(), "the ids of the table");
    std::uint64_t random = seed_;
    for (int i = 0; i < sets; ++i) {
      char* base = static_cast<char*>(data_.data()) + static_cast<std::size_t>(i) * set_bytes();
      sets_.push_back({{base, DType::i32, {tokens_}}, {base + id_bytes(), machine_.dtype, {tokens_, columns_}}});
      std::vector<std::int32_t> ids(static_cast<std::size_t>(tokens_));
      for (std::int32_t& id : ids) id = draw(random);
      engine::write(machine_, sets_.back().ids, std::as_bytes(std::span(ids)));
      fill(sets_.back().dy, static_cast<std::uint64_t>(i) + 1);
    }
  }

  double moved_bytes() const override {
    return static_cast<double>(2 * row_bytes() + static_cast<std::size_t>(tokens_) * sizeof(std::int32_t));
  }

 protected:
  void prepare(layers::Walk& walk) override { table_->prepare(walk); }
  void finish(layers::Walk& walk) override { table_->finish(walk, *sink_); }

 private:
  struct Set {
    Tensor ids, dy;
  };
  std::int32_t draw(std::uint64_t& random) const {
    const std::uint64_t word = next_random(random);
    if (!zipf_) return static_cast<std::int32_t>(word % static_cast<std::uint64_t>(rows_));
    const double share = static_cast<double>(word >> 11) * 0x1p-53;
    return static_cast<std::int32_t>(std::pow(static_cast<double>(rows_), share)) - 1;
  }
  std::size_t id_bytes() const { return plan::aligned(static_cast<std::size_t>(tokens_) * sizeof(std::int32_t)); }
  std::size_t row_bytes() const { return static_cast<std::size_t>(tokens_ * columns_) * size_of(machine_.dtype); }

  std::int64_t rows_, columns_, tokens_;
  std::uint64_t seed_;
  bool zipf_;
  std::unique_ptr<layers::Table> table_;
  plan::Arena data_;
  std::vector<Set> sets_;
};

}  // namespace

BenchReport bench_lookup(const plan::Machine& machine, const LookupBench& bench, const BenchOptions& options) {
  const engine::MemoryMeter memory(machine);
  layers::TableSpec spec;
  spec.name = "table";
  spec.rows = bench.rows, spec.columns = bench.columns;
  spec.form = bench.form;
  TableAlone layer(machine, spec, bench.zipf, options);
  return bench_layer(layer, memory, options);
}

}  // namespace comera::report
