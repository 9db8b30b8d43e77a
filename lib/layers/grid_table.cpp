// Embedding tables on grids, declared in lib/layers/embedding.h.
#include "lib/core/error.h"
#include "lib/layers/embedding.h"
#include "lib/layers/grid_weight.h"

namespace comera::layers {
namespace {

// The rows are those of the grid plus those of the correction, which is a table of its own. It also has the exact rows.
class GridTable final : public Table {
 public:
  GridTable(Builder& builder, const TableSpec& spec)
      : name_(spec.name), rows_{spec.form.grid, spec.rows, spec.columns} {
    base_ = add_lines(builder, spec.name, rows_);
    exact_ = spec.form.layout.exact_rows > 0;
    if (spec.form.layout.empty() && !exact_) {
      builder.parameters_dense += spec.rows * spec.columns;
      return;
    }
    TableSpec correction = spec;
    correction.form.storage = Storage::chain;
    correction.over_grid = true;
    correction_ = make_table(builder, correction);
  }

  void declare(plan::Inputs& inputs) override {
    if (correction_) correction_->declare(inputs);
  }

  void prepare(Walk& walk) override {
    if (correction_) correction_->prepare(walk);
  }

  void forward(Walk& walk, const kernels::Bags& bags, const Tensor& y, bool accumulate) override {
    COMERA_CHECK(!accumulate || !exact_);  // exact rows overwrite y, so y must belong to this table alone
    walk.run(walk.backend().grid_embedding,
             kernels::GridEmbedding{bags, lines_of(walk, *base_, rows_, 0, rows_.lines), y.data, accumulate});
    if (correction_) correction_->forward(walk, bags, y, true);
  }

  void project(Walk& walk, const Tensor& ids, std::int64_t first, std::int64_t count, const Tensor& h, void* y,
               std::int64_t ldy, bool accumulate) override {
    // The logits of exact rows are replaced token by token. Many tokens pay for rows that are made once for all.
    const bool replaced = h.elements() / rows_.numbers <= few_tokens && count == rows_.lines && !accumulate;
    if (exact_ && !replaced) return Table::project(walk, ids, first, count, h, y, ldy, accumulate);
    walk.run(walk.backend().grid_linear, kernels::GridLinear{.tokens = h.elements() / rows_.numbers,
                                                             .weight = lines_of(walk, *base_, rows_, first, count),
                                                             .x = h.data,
                                                             .ldx = rows_.numbers,
                                                             .bias = nullptr,
                                                             .activation = kernels::Activation::none,
                                                             .accumulate = accumulate,
                                                             .y = y,
                                                             .ldy = ldy});
    if (correction_) correction_->project(walk, ids, first, count, h, y, ldy, true);
  }

  Tensor rows(Walk& walk, const Tensor& ids, std::int64_t first, std::int64_t count) override {
    Tensor rows = walk.make("rows", {count, rows_.numbers});
    forward(walk, {count, count, static_cast<const std::int32_t*>(ids.data) + first, nullptr}, rows, false);
    return rows;
  }

  void backward(Walk&, Sink&, const kernels::Bags&, const Tensor&) override { refuse_gradient(name_); }
  void rows_backward(Walk&, Sink&, const Tensor&, std::int64_t, std::int64_t, const Tensor&, const Tensor&) override {
    refuse_gradient(name_);
  }
  void finish(Walk&, Sink&) override { refuse_gradient(name_); }

 private:
  static constexpr std::int64_t few_tokens = 16;

  std::string name_;
  kernels::GridLines rows_;  // their shape
  Parameter* base_;
  bool exact_ = false;  // some rows are exact
  std::unique_ptr<Table> correction_;
};

}  // namespace

std::unique_ptr<Table> make_grid_table(Builder& builder, const TableSpec& spec) {
  return std::make_unique<GridTable>(builder, spec);
}

}  // namespace comera::layers
