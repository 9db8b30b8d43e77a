// Shapes of chains: modes of a size, possible ranks of the bonds, and the number of entries in the cores.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace comera::tt {

using Sizes = std::vector<std::int64_t>;

std::int64_t product(const Sizes& sizes);
std::string to_string(const Sizes& sizes);  // "12 8 8"

// `size` as a product of `order` factors, as equal as its prime factors allow, the largest first: 768, 3 -> 12 8 8.
Sizes balanced_modes(std::int64_t size, int order);
// `order` factors whose product is at least `size` and as small as possible, then as equal as possible. For rows of a
// table, which may be padded.
Sizes padded_modes(std::int64_t size, int order);

// A linear weight [in x out]: in modes (largest first) then out modes (smallest first), `order` of each (CoMERA's
// tables: 768 -> 12 8 8 | 8 8 12).
Sizes linear_modes(std::int64_t in, std::int64_t out, int order);
// A table [rows x columns] in TTM form: row modes then column modes.
Sizes table_modes(std::int64_t rows, std::int64_t columns, int order);

// The largest possible rank of every bond of a chain whose entry sizes are s_1..s_n: min(s_1..s_k, s_{k+1}..s_n). n + 1
// numbers, ends 1.
Sizes largest_ranks(const Sizes& entry_sizes);
// `rank` on every inner bond, or the entry size on the first and last inner bond if that is smaller. InputError with
// `what`, the bond and the limit if a rank exceeds the possible maximum.
Sizes uniform_ranks(const Sizes& entry_sizes, std::int64_t rank, const std::string& what);

// sum_k r_{k-1} s_k r_k; 0 if a bond is empty.
std::int64_t core_parameters(const Sizes& entry_sizes, const Sizes& ranks);
// Number of entries on the rank diagonals: sum of the inner ranks; 0 if a bond is empty.
std::int64_t rank_entries(const Sizes& ranks);

// "12x8x8|8x8x12" or "12,8,8,8,8,12": the syntax of --modes. InputError if it is not a list of positive numbers of even
// length.
Sizes parse_modes(const std::string& text);
// The same with any number of modes on each side of the '|'.
struct Sides {
  Sizes in, out;
};
Sides parse_sides(const std::string& text);

}  // namespace comera::tt
