// Embedding tables: dense, TTM (tensor-train matrix) or on a grid, the latter two with optional exact rows beside the
// chain or the grid. A table may also be the decoder of a language model (tied).
#pragma once

#include <memory>

#include "lib/layers/training/builder.h"
#include "lib/layers/training/pass.h"

namespace comera::kernels {
struct Bags;
}  // namespace comera::kernels

namespace comera::layers {

struct TableSpec {
  std::string name;  // Hugging Face name, without ".weight"
  std::int64_t rows = 0, columns = 0;
  double deviation = 1;  // standard deviation of an entry at the start
  WeightForm form = {};  // dense, ttm or on a grid
  bool decoder = false;  // no look-up reads it
  // ttm: the chain and its exact rows belong to a table on a grid, whose results its calls with `accumulate` find in y:
  // the chain adds to them, exact rows take their place.
  bool over_grid = false;
};

class Table {
 public:
  virtual ~Table() = default;
  // Lists the ids of exact rows. They are inputs of the calls that read rows.
  virtual void declare(plan::Inputs& /*inputs*/) {}
  // Merges the left and right factor, once per weight version. Does nothing for dense tables.
  virtual void prepare(Walk& walk) = 0;
  // y [bags, N] = or += the rows of the ids.
  virtual void forward(Walk& walk, const kernels::Bags& bags, const Tensor& y, bool accumulate) = 0;
  virtual void backward(Walk& walk, Sink& sink, const kernels::Bags& bags, const Tensor& dy) = 0;
  // y [tokens, count] at ldy = or += h [tokens, N] E^T for the rows E of the ids [first, first + count). `ids` as of
  // rows().
  virtual void project(Walk& walk, const Tensor& ids, std::int64_t first, std::int64_t count, const Tensor& h, void* y,
                       std::int64_t ldy, bool accumulate);
  // Returns rows [first, first + count) as a matrix, which the caller drops. `ids` holds 0, 1, 2, ... up to the number
  // of rows.
  virtual Tensor rows(Walk& walk, const Tensor& ids, std::int64_t first, std::int64_t count) = 0;
  // d_rows += left^T right for the same rows; left [K, count], right [K, N].
  virtual void rows_backward(Walk& walk, Sink& sink, const Tensor& ids, std::int64_t first, std::int64_t count,
                             const Tensor& left, const Tensor& right) = 0;
  virtual void finish(Walk& walk, Sink& sink) = 0;

 protected:
  static constexpr std::int64_t some_rows = 2048;
  // How many rows project() may hold at once.
  virtual std::int64_t rows_at_once(const Walk& /*walk*/) const { return some_rows; }
};

std::unique_ptr<Table> make_table(Builder& builder, const TableSpec& spec);
std::unique_ptr<Table> make_grid_table(Builder& builder, const TableSpec& spec);  // for evaluation only

}  // namespace comera::layers
