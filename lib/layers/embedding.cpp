#include "lib/layers/embedding.h"

#include <algorithm>
#include <numeric>

#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/exact_rows.h"
#include "kernels/linear.h"
#include "kernels/ttm_embedding.h"
#include "lib/core/error.h"

namespace comera::layers {
namespace {

kernels::Bags bags_of(const Tensor& ids, std::int64_t first, std::int64_t count) {
  return {count, count, static_cast<const std::int32_t*>(ids.data) + first, nullptr};
}

class DenseTable final : public Table {
 public:
  DenseTable(Builder& builder, const TableSpec& spec) : rows_(spec.rows), columns_(spec.columns) {
    Parameter weight;
    weight.name = spec.name + ".weight";
    weight.role = Role::table;
    weight.shape = {spec.rows, spec.columns};
    weight.init = {Init::Distribution::normal, spec.deviation};
    weight.decay = true;
    weight.decoder = spec.decoder;
    weight_ = builder.add(std::move(weight));
  }

  void prepare(Walk&) override {}

  void forward(Walk& walk, const kernels::Bags& bags, const Tensor& y, bool accumulate) override {
    walk.run(walk.backend().embedding_forward,
             kernels::EmbeddingForward{bags, rows_, columns_, brought(walk, *weight_).data, y.data, accumulate});
  }

  void backward(Walk& walk, Sink& sink, const kernels::Bags& bags, const Tensor& dy) override {
    Tensor gradient = sink.open(walk, *weight_);
    walk.run(walk.backend().embedding_backward,
             kernels::EmbeddingBackward{bags, rows_, columns_, dy.data, gradient.data});
    sink.close(walk, *weight_, gradient);
  }

  // Returns rows in the activation dtype. If the parameter has another type, a look-up converts them.
  Tensor rows(Walk& walk, const Tensor& ids, std::int64_t first, std::int64_t count) override {
    if (as_stored(walk)) return slice(brought(walk, *weight_), first, count);
    Tensor rows = walk.make("rows", {count, columns_});
    forward(walk, bags_of(ids, first, count), rows, false);
    return rows;
  }

  void rows_backward(Walk& walk, Sink& sink, const Tensor&, std::int64_t first, std::int64_t count, const Tensor& left,
                     const Tensor& right) override {
    Tensor gradient = sink.open(walk, *weight_);
    walk.run(walk.backend().product, kernels::Product{.tokens = left.elements() / count,
                                                      .in = count,
                                                      .out = columns_,
                                                      .x = left.data,
                                                      .ldx = count,
                                                      .g = right.data,
                                                      .ldg = columns_,
                                                      .result = slice(gradient, first, count).data,
                                                      .ld_result = columns_});
    sink.close(walk, *weight_, gradient);
  }

  void finish(Walk&, Sink&) override {}

 private:
  std::int64_t rows_at_once(const Walk& walk) const override { return as_stored(walk) ? rows_ : some_rows; }

  bool as_stored(const Walk& walk) const { return weight_->value.dtype == walk.dtype(); }

  Tensor slice(const Tensor& whole, std::int64_t first, std::int64_t count) const {
    char* base = static_cast<char*>(whole.data) + static_cast<std::size_t>(first * columns_) * size_of(whole.dtype);
    return {base, whole.dtype, {count, columns_}, -1};
  }

  std::int64_t rows_, columns_;
  Parameter* weight_;
};

// Finds the bond that splits the merging work most evenly: the sum of the factors' sizes is smallest there.
int best_cut(const tt::Layout& layout) {
  const std::size_t order = layout.cores();
  std::size_t best = 1;
  double best_cost = 0;
  for (std::size_t cut = 1; cut < order; ++cut) {
    double left = static_cast<double>(layout.ranks[cut]), right = left;
    for (std::size_t k = 0; k < order; ++k) (k < cut ? left : right) *= static_cast<double>(layout.entry_size(k));
    if (cut == 1 || left + right < best_cost) best = cut, best_cost = left + right;
  }
  return static_cast<int>(best);
}

class TtmEmbedding final : public Table {
 public:
  TtmEmbedding(Builder& builder, const TableSpec& spec)
      : chains_(builder.chains),
        factors_(builder.factors),
        step_gradients_(builder.step_gradients),
        threshold_(builder.threshold),
        cast_weights_(builder.cast_weights),
        columns_(spec.columns),
        over_grid_(spec.over_grid) {
    ChainParameters chain;
    chain.name = spec.name;
    chain.rows = spec.rows, chain.columns = spec.columns;
    const tt::Layout& layout = chain.layout = spec.form.layout;
    chain.initial_ranks = spec.form.initial_ranks;
    chain.folded = spec.form.folded;
    if (layout.exact_rows > 0) add_exact_rows(builder, spec, chain);
    if (chain.exact_rows && over_grid_) decoding_rows_ = builder.cast_weights.add(chain.exact_rows);
    const std::size_t order = layout.cores();
    table_.d = static_cast<int>(order);
    table_.cut = best_cut(layout);
    std::copy_n(layout.modes.begin(), order, table_.row_modes);
    std::copy_n(layout.modes.begin() + static_cast<std::ptrdiff_t>(order), order, table_.column_modes);
    std::copy(layout.ranks.begin(), layout.ranks.end(), table_.ranks);
    empty_ = layout.empty();
    chain_ = add_chain(builder, chain, spec.deviation);
    add_factors(builder, spec.name);
  }

  void declare(plan::Inputs& inputs) override { inputs.add(chains_[chain_].exact_ids, exact_ids_); }

  void prepare(Walk& walk) override {
    if (empty_) return;
    describe();
    walk.run(walk.backend().ttm_merge, kernels::TtmMerge{&table_});
  }

  void forward(Walk& walk, const kernels::Bags& bags, const Tensor& y, bool accumulate) override {
    if (!exact_rows()) return chain_forward(walk, bags, y, accumulate);
    COMERA_CHECK(!accumulate || over_grid_);  // exact rows overwrite y, so y must belong to this table alone
    chain_forward(walk, bags, y, accumulate);
    walk.run(walk.backend().exact_rows_forward,
             kernels::ExactRowsForward{exact(bags), exact_rows()->value.data, y.data});
  }

  void backward(Walk& walk, Sink& sink, const kernels::Bags& bags, const Tensor& dy) override {
    if (!exact_rows()) return chain_backward(walk, bags, dy);
    Tensor d_chain = walk.make("d_chain", {bags.bags, columns_}), gradient = sink.open(walk, *exact_rows());
    walk.run(walk.backend().exact_rows_backward,
             kernels::ExactRowsBackward{exact(bags), dy.data, gradient.data, d_chain.data});
    sink.close(walk, *exact_rows(), gradient);
    chain_backward(walk, bags, d_chain);
    walk.drop(d_chain);
  }

  // Over a grid with exact rows: of all rows.
  void project(Walk& walk, const Tensor& ids, std::int64_t first, std::int64_t count, const Tensor& h, void* y,
               std::int64_t ldy, bool accumulate) override {
    if (!empty_ || !over_grid_) Table::project(walk, ids, first, count, h, y, ldy, accumulate);
    if (over_grid_ && exact_rows()) replace_logits(walk, h, y, ldy);
  }

  Tensor rows(Walk& walk, const Tensor& ids, std::int64_t first, std::int64_t count) override {
    Tensor rows = walk.make("rows", {count, columns_});
    forward(walk, bags_of(ids, first, count), rows, false);
    return rows;
  }

  void rows_backward(Walk& walk, Sink& sink, const Tensor& ids, std::int64_t first, std::int64_t count,
                     const Tensor& left, const Tensor& right) override {
    Tensor d_rows = walk.make("d_rows", {count, columns_});
    const std::int64_t tokens = left.elements() / count;
    walk.run(walk.backend().matmul, kernels::MatMul{.m = count,
                                                    .n = columns_,
                                                    .k = tokens,
                                                    .a = left.data,
                                                    .lda = count,
                                                    .transpose_a = true,
                                                    .b = right.data,
                                                    .ldb = columns_,
                                                    .transpose_b = false,
                                                    .c = d_rows.data,
                                                    .ldc = columns_,
                                                    .accumulate = false});
    backward(walk, sink, bags_of(ids, first, count), d_rows);
    walk.drop(d_rows);
  }

  void finish(Walk& walk, Sink& sink) override {
    if (empty_) return;
    describe();
    const ChainParameters& chain = chains_[chain_];
    Tensor open[2 * kernels::max_cores];
    int next = 0;
    for (std::size_t k = 0; k < chain.cores.size(); ++k)
      table_.d_cores[k] = (open[next++] = sink.open(walk, *chain.cores[k])).data;
    for (std::size_t k = 0; k < chain.diagonals.size(); ++k)
      table_.d_diagonals[k] = (open[next++] = sink.open(walk, *chain.diagonals[k])).data;
    walk.run(walk.backend().ttm_merge_backward, kernels::TtmMergeBackward{&table_});
    next = 0;
    for (Parameter* core : chain.cores) sink.close(walk, *core, open[next++]);
    for (Parameter* diagonal : chain.diagonals) sink.close(walk, *diagonal, open[next++]);
  }

 private:
  void chain_forward(Walk& walk, const kernels::Bags& bags, const Tensor& y, bool accumulate) {
    if (empty_ && accumulate) return;
    if (empty_) return walk.run(walk.backend().fill, kernels::Fill{y.data, y.bytes()});
    describe();
    walk.run(walk.backend().ttm_forward, kernels::TtmForward{bags, &table_, y.data, accumulate});
  }

  void chain_backward(Walk& walk, const kernels::Bags& bags, const Tensor& dy) {
    if (empty_) return;
    describe();
    walk.run(walk.backend().ttm_backward, kernels::TtmBackward{bags, &table_, dy.data, step_gradients_[d_left_].data,
                                                               step_gradients_[d_right_].data});
  }

  // The logits of exact rows take the place of what y [tokens, rows of the table] has for them: y += logits - y there,
  // because a scatter adds. The columns of a token in y are rows of one number.
  void replace_logits(Walk& walk, const Tensor& h, void* y, std::int64_t ldy) {
    const std::int64_t tokens = h.elements() / columns_, count = exact_ids_.elements();
    const auto* const index = static_cast<const std::int32_t*>(exact_ids_.data);
    Tensor logits = walk.make("exact_logits", {tokens, count}), old = walk.make("old_logits", {count});
    walk.run(walk.backend().matmul, kernels::MatMul{.m = tokens,
                                                    .n = count,
                                                    .k = columns_,
                                                    .a = h.data,
                                                    .lda = columns_,
                                                    .transpose_a = false,
                                                    .b = cast_weights_.of(walk, decoding_rows_).data,
                                                    .ldb = columns_,
                                                    .transpose_b = true,
                                                    .c = logits.data,
                                                    .ldc = count,
                                                    .accumulate = false});
    const std::size_t element = size_of(walk.dtype());
    for (std::int64_t t = 0; t < tokens; ++t) {
      char* const of_token = static_cast<char*>(y) + static_cast<std::size_t>(t * ldy) * element;
      char* const wanted = static_cast<char*>(logits.data) + static_cast<std::size_t>(t * count) * element;
      walk.run(walk.backend().gather_rows, kernels::GatherRows{count, 1, index, of_token, 1, old.data});
      walk.run(walk.backend().add_scaled, kernels::AddScaled{count, -1, old.data, wanted});
      walk.run(walk.backend().scatter_rows, kernels::ScatterRows{count, 1, index, wanted, of_token, 1, 1});
    }
    walk.drop(old);
    walk.drop(logits);
  }

  // Adds the exact rows as a parameter like a dense table. Their ids are arbitrary until the real ones are loaded. The
  // chain already counts these rows in the dense model.
  static void add_exact_rows(Builder& builder, const TableSpec& spec, ChainParameters& chain) {
    Parameter rows;
    rows.name = spec.name + ".exact.rows";
    rows.role = Role::table;
    rows.shape = {chain.layout.exact_rows, spec.columns};
    rows.init = {Init::Distribution::normal, spec.deviation};
    rows.decay = true;
    chain.exact_rows = builder.parameters.add(std::move(rows));
    chain.exact_ids.resize(static_cast<std::size_t>(chain.layout.exact_rows));
    std::iota(chain.exact_ids.begin(), chain.exact_ids.end(), 0);
  }

  Parameter* exact_rows() const { return chains_[chain_].exact_rows; }

  kernels::ExactIds exact(const kernels::Bags& bags) const {
    COMERA_CHECK(bags.offsets == nullptr && !exact_ids_.empty());
    return {bags.bags, bags.id, exact_ids_.elements(), columns_, static_cast<const std::int32_t*>(exact_ids_.data)};
  }

  void add_factors(Builder& builder, const std::string& name) {
    const std::int64_t left = empty_ ? 0 : left_elements(table_), right = empty_ ? 0 : right_elements(table_);
    left_ = factors_.add(name + ".left", plan::Category::scratch, builder.dtype, {left});
    right_ = factors_.add(name + ".right", plan::Category::scratch, builder.dtype, {right});
    d_left_ = step_gradients_.add(name + ".d_left", plan::Category::gradients, kernels::parameter_type(builder.dtype),
                                  {left});
    d_right_ = step_gradients_.add(name + ".d_right", plan::Category::gradients, kernels::parameter_type(builder.dtype),
                                   {right});
  }

  // Sets the addresses, which change when memory is planned again. Sizes do not change.
  void describe() {
    const ChainParameters& chain = chains_[chain_];
    for (std::size_t k = 0; k < chain.cores.size(); ++k) table_.cores[k] = chain.cores[k]->value.data;
    for (std::size_t k = 0; k < chain.diagonals.size(); ++k) table_.diagonals[k] = chain.diagonals[k]->value.data;
    table_.threshold = threshold_;
    table_.left = factors_[left_].data;
    table_.right = factors_[right_].data;
    table_.d_left = step_gradients_[d_left_].data;
    table_.d_right = step_gradients_[d_right_].data;
  }

  const std::vector<ChainParameters>& chains_;
  plan::Slab& factors_;
  plan::Slab& step_gradients_;
  const double& threshold_;
  CastWeights& cast_weights_;
  std::int64_t columns_;
  bool over_grid_;
  int decoding_rows_ = -1;  // the exact rows among the cast weights
  std::size_t chain_ = 0;
  bool empty_ = false;
  int left_ = -1, right_ = -1, d_left_ = -1, d_right_ = -1;
  kernels::TtmTable table_;
  Tensor exact_ids_;  // input
};

}  // namespace

void Table::project(Walk& walk, const Tensor& ids, std::int64_t first, std::int64_t count, const Tensor& h, void* y,
                    std::int64_t ldy, bool accumulate) {
  const std::int64_t step = rows_at_once(walk);
  for (std::int64_t done = 0; done < count; done += step) {
    Tensor part = rows(walk, ids, first + done, std::min(step, count - done));
    const std::int64_t columns = part.shape[1];
    walk.run(walk.backend().matmul,
             kernels::MatMul{.m = h.elements() / columns,
                             .n = part.shape[0],
                             .k = columns,
                             .a = h.data,
                             .lda = columns,
                             .transpose_a = false,
                             .b = part.data,
                             .ldb = columns,
                             .transpose_b = true,
                             .c = static_cast<char*>(y) + static_cast<std::size_t>(done) * size_of(walk.dtype()),
                             .ldc = ldy,
                             .accumulate = accumulate});
    walk.drop(part);
  }
}

std::unique_ptr<Table> make_table(Builder& builder, const TableSpec& spec) {
  if (spec.form.dense()) return std::make_unique<DenseTable>(builder, spec);
  if (spec.form.storage == Storage::grid) return make_grid_table(builder, spec);
  return std::make_unique<TtmEmbedding>(builder, spec);
}

}  // namespace comera::layers
