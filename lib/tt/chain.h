// A weight as a chain of cores with folded rank diagonals (lib/io/FORMAT.md): its numbers, in double while they are
// computed and in float as files hold them, and the algebra of chains.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/tt/layout.h"
#include "lib/tt/matrix.h"

namespace comera::tt {

template <class Scalar>
struct ChainOf {
  Layout layout;
  std::vector<std::vector<Scalar>> cores;  // as Layout::core_shape(); none if the layout is empty
  std::vector<std::int32_t> order;         // [in] if sorted: row order[p] of the weight is row p of the chain
  // [R] if gauge: column gauge[r] of the last core is the unit vector e_r and is not stored. The core holds the other
  // columns in rising order, [R, out - R, 1].
  std::vector<std::int32_t> gauge;
  // Row exact_ids[e] of the table is row e of exact_rows [E, columns] and replaces the value of the cores. The ids
  // rise.
  std::vector<std::int32_t> exact_ids;
  std::vector<Scalar> exact_rows;
};
using Chain = ChainOf<double>;
using FloatChain = ChainOf<float>;

Chain to_double(const FloatChain& chain);

// InputError that begins with `what` if layout, cores, order, gauge or exact rows do not fit together or a number is
// not finite.
void check_chain(const Chain& chain, const std::string& what);

std::int64_t stored_numbers(const Chain& chain);  // entries of the cores as stored, and of exact rows
std::int64_t stored_indices(const Chain& chain);  // entries of order, gauge and exact ids, 4 bytes each

// A core is stored in blocks: `count` numbers in `bytes`. The last block may have fewer numbers, not fewer bytes.
struct CoreBlocks {
  std::int64_t count = 1, bytes = 4;

  std::int64_t of(std::int64_t numbers) const { return (numbers + count - 1) / count * bytes; }
};
std::int64_t stored_bytes(const Chain& chain, CoreBlocks blocks);

// Multiplies out cores [begin, end) as stored, without the gauge's identity block: [(r_begin s_begin .. s_{end-1}) x
// r_end]. Returns an identity if the range is empty.
Matrix merge_cores(const Chain& chain, std::size_t begin, std::size_t end);

// The factors at the middle bond of a tt: left [in x R] with rows in the order of the weight, right [R x out] with the
// gauge written out. In float, every product is summed in double.
template <class Scalar>
struct FactorsOf {
  MatrixOf<Scalar> left, right;
};
using Pair = FactorsOf<double>;
template <class Scalar>
FactorsOf<Scalar> factors(const ChainOf<Scalar>& chain);

// The factors at the middle bond of a ttm. Row i of the table is row i / right_rows of `left`, as [left_columns, R],
// times row i % right_rows of `right`, as [R, right_columns].
template <class Scalar>
struct TableFactorsOf {
  std::int64_t left_rows = 0, left_columns = 0, rank = 0, right_rows = 0, right_columns = 0;
  MatrixOf<Scalar> left, right;  // [left_rows x left_columns R], [right_rows x R right_columns]
};
template <class Scalar>
TableFactorsOf<Scalar> table_factors(const ChainOf<Scalar>& chain);

// The dense weight [in x out] of a tt, the table [padded rows x columns] of a ttm. Zero, exact rows excepted, if the
// layout is empty.
template <class Scalar>
MatrixOf<Scalar> expand(const ChainOf<Scalar>& chain);

// Writes the exact rows into `table`, whose row 0 is row `first` of the chain.
template <class Scalar>
void put_exact_rows(const ChainOf<Scalar>& chain, MatrixOf<Scalar>& table, std::int64_t first = 0);

Chain chain_of_pair(Pair pair);  // in_modes [in], out_modes [out]

// Returns the same matrix with an identity block in the right factor, which needs R² fewer numbers. Exchanges columns
// until no entry of the right factor is larger than `bound`. Returns the chain unchanged if it is not a tt with one out
// mode, already has a gauge, or no well-conditioned block exists (an entry above 100 remains, or the product of the
// factors changes).
Chain fix_gauge(Chain chain, double bound = 1.5);
// The position of each output column of a gauged right factor in [identity | stored columns], [columns].
std::vector<std::int32_t> gauge_positions(const std::vector<std::int32_t>& gauge, std::int64_t columns);
// The right factor [R x columns] of the stored columns [R x columns - R] and the identity block.
template <class Scalar>
MatrixOf<Scalar> with_gauge(const MatrixOf<Scalar>& stored, const std::vector<std::int32_t>& gauge);

// The inverse of a permutation.
std::vector<std::int32_t> inverse(const std::vector<std::int32_t>& order);
// Rows of a matrix in the order `order` (row p of the result is row order[p]), and the inverse.
template <class Scalar>
MatrixOf<Scalar> gather_rows(const MatrixOf<Scalar>& a, const std::vector<std::int32_t>& order);
template <class Scalar>
MatrixOf<Scalar> scatter_rows(const MatrixOf<Scalar>& a, const std::vector<std::int32_t>& order);
// Rows and columns of a symmetric matrix in the order `order`.
Matrix gather_both(const Matrix& a, const std::vector<std::int32_t>& order);

// ||a - b|| / ||a|| (0 if both are 0).
double relative_error(const Matrix& a, const Matrix& b);
// ||weight - chain|| / ||weight|| without a table's padding rows. Never expands a tt or a pair to the whole matrix.
double chain_error(const Matrix& weight, const Chain& chain);

}  // namespace comera::tt
