// A weight as a chain of cores in double, with folded rank diagonals: a compressed tensor before it is written
// (lib/io/FORMAT.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/tt/matrix.h"
#include "lib/tt/modes.h"

namespace comera::tt {

enum class Kind : std::uint8_t { tt, ttm };

struct Chain {
  Kind kind = Kind::tt;
  // tt: of any two lengths >= 1, cores for the in modes first; ttm: row modes and column modes, the same number of
  // each.
  Sizes in_modes, out_modes;
  Sizes ranks;  // of every bond, both ends included: cores + 1
  std::vector<std::vector<double>> cores;
  // tt only, otherwise empty. order [in]: row order[p] of the weight is row p of the chain.
  std::vector<std::int32_t> order;
  // tt with one out mode only, otherwise empty. gauge [R]: column gauge[r] of the last core is the unit vector e_r and
  // is not stored. `cores` holds its other columns in rising order, [R, out - R, 1].
  std::vector<std::int32_t> gauge;
  // ttm only, otherwise empty. Row exact_ids[e] of the table is row e of exact_rows [E, columns]; it replaces the value
  // of the cores. The ids rise.
  std::vector<std::int32_t> exact_ids;
  std::vector<double> exact_rows;

  std::size_t size() const { return kind == Kind::tt ? in_modes.size() + out_modes.size() : in_modes.size(); }
  std::int64_t rows() const { return product(in_modes); }  // size of the matrix: inputs, or padded rows of a table
  std::int64_t columns() const { return product(out_modes); }
  std::int64_t middle() const { return kind == Kind::tt ? ranks[in_modes.size()] : 0; }  // the rank of bond d
  Sizes entry_sizes() const;              // n_k of a tt, m_k n_k of a ttm
  Sizes core_shape(std::size_t k) const;  // as stored: [r, n, r'] or [r, m, n, r']
};

// InputError that begins with `what` if ranks, cores, order, gauge or exact rows do not fit together or a number is not
// finite.
void check_chain(const Chain& chain, const std::string& what);

std::int64_t stored_numbers(const Chain& chain);  // entries of the cores as stored, and of exact rows
std::int64_t stored_indices(const Chain& chain);  // entries of order, gauge and exact ids, 4 bytes each
std::int64_t stored_bytes(const Chain& chain, int bytes_per_number);

// Multiplies out cores [begin, end) as stored, without the gauge's identity block: [(r_begin s_begin .. s_{end-1}) x
// r_end]. Returns an identity if the range is empty.
Matrix merge_cores(const Chain& chain, std::size_t begin, std::size_t end);

// The factors at bond d of a tt: left [in x R] with rows in the order of the weight, right [R x out] with the gauge
// written out.
struct Pair {
  Matrix left, right;
};
Pair halves(const Chain& chain);

// The dense weight [in x out] of a tt, the table [padded rows x columns] of a ttm.
Matrix expand(const Chain& chain);

Chain chain_of_pair(Pair pair);  // in_modes [in], out_modes [out]

// Returns the same matrix with an identity block in the right factor, which needs R² fewer numbers. Exchanges columns
// until no entry of the right factor is larger than `bound`. Returns the chain unchanged if it is not a tt with one out
// mode, already has a gauge, or no well-conditioned block exists (an entry above 100 remains, or the product of the
// factors changes).
Chain fix_gauge(Chain chain, double bound = 1.5);

// Rows of a matrix in the order `order` (row p of the result is row order[p]), and the inverse.
Matrix gather_rows(const Matrix& a, const std::vector<std::int32_t>& order);
Matrix scatter_rows(const Matrix& a, const std::vector<std::int32_t>& order);
// Rows and columns of a symmetric matrix in the order `order`.
Matrix gather_both(const Matrix& a, const std::vector<std::int32_t>& order);

// ||a - b|| / ||a|| (0 if both are 0).
double relative_error(const Matrix& a, const Matrix& b);
// ||weight - chain|| / ||weight|| without a table's padding rows. Never expands a tt or a pair to the whole matrix.
double chain_error(const Matrix& weight, const Chain& chain);

}  // namespace comera::tt
