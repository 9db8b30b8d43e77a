// The form of a chain of cores without its numbers. Every room above kernels/ describes chains with this type.
#pragma once

#include <cstdint>
#include <string>

#include "lib/tt/modes.h"

namespace comera::tt {

enum class Kind : std::uint8_t { tt, ttm };

// tt: a linear weight [in x out] whose cores have one mode each, in modes first. ttm: a table [rows x columns] whose
// cores have a row mode and a column mode each. A low-rank pair is a tt with the modes [in, out], or a ttm with the row
// modes [rows, 1] and the column modes [1, columns].
struct Layout {
  Kind kind = Kind::tt;
  Sizes modes = {};          // tt: in modes, then out modes; ttm: row modes, then as many column modes
  std::size_t in_count = 0;  // number of in modes or row modes; 0: half of the modes
  Sizes ranks = {};          // of every bond, both ends included: cores + 1; if inner ranks are 0, the weight is zero
  bool sorted = false;       // tt: the inputs are permuted before they are split into modes
  bool gauge = false;        // tt with one out mode: the last core has an identity block that is not stored
  std::int64_t exact_rows = 0;  // ttm: number of rows that are stored as they are and replace those of the cores

  bool operator==(const Layout&) const = default;

  std::size_t cores() const { return kind == Kind::tt ? modes.size() : modes.size() / 2; }
  std::size_t inputs() const { return in_count != 0 ? in_count : modes.size() / 2; }  // number of in or row modes
  // The bond between left and right factor. tt: between in and out modes; ttm: after half of the cores, rounded up.
  std::size_t middle() const { return kind == Kind::tt ? inputs() : (cores() + 1) / 2; }
  Sizes in_modes() const;        // or row modes
  Sizes out_modes() const;       // or column modes
  std::int64_t rows() const;     // inputs, or padded rows of a table
  std::int64_t columns() const;  // outputs, or columns of a table
  bool empty() const;            // a rank is 0
  bool pair() const;             // low rank
  // s_k: stored entries of core k per pair of rank indices. n_k of a tt, without an identity block; m_k n_k of a ttm.
  std::int64_t entry_size(std::size_t k) const;
  Sizes entry_sizes() const;
  Sizes core_shape(std::size_t k) const;  // as stored: [r, n, r'] or [r, m, n, r']
};

Layout tt_layout(const Sizes& in_modes, const Sizes& out_modes, Sizes ranks);
Layout ttm_layout(const Sizes& row_modes, const Sizes& column_modes, Sizes ranks);

// The name of the form in tables, reports and options: "lowrank", "tt" or "ttm".
const char* form_name(const Layout& layout);

}  // namespace comera::tt
