#include "lib/tt/layout.h"

#include <algorithm>

namespace comera::tt {
namespace {

Layout joined(Kind kind, const Sizes& first, const Sizes& second, Sizes ranks) {
  Layout layout;
  layout.kind = kind;
  layout.modes = first;
  layout.modes.insert(layout.modes.end(), second.begin(), second.end());
  layout.in_count = first.size();
  layout.ranks = std::move(ranks);
  return layout;
}

}  // namespace

Sizes Layout::in_modes() const { return Sizes(modes.begin(), modes.begin() + static_cast<std::ptrdiff_t>(inputs())); }
Sizes Layout::out_modes() const { return Sizes(modes.begin() + static_cast<std::ptrdiff_t>(inputs()), modes.end()); }
std::int64_t Layout::rows() const { return product(in_modes()); }
std::int64_t Layout::columns() const { return product(out_modes()); }

bool Layout::empty() const { return std::find(ranks.begin(), ranks.end(), 0) != ranks.end(); }

bool Layout::pair() const {
  if (kind == Kind::tt) return modes.size() == 2;
  return modes.size() == 4 && modes[1] == 1 && modes[2] == 1;
}

std::int64_t Layout::entry_size(std::size_t k) const {
  if (kind == Kind::ttm) return modes[k] * modes[cores() + k];
  return modes[k] - (gauge && k + 1 == cores() ? ranks[k] : 0);
}

Sizes Layout::entry_sizes() const {
  Sizes sizes;
  for (std::size_t k = 0; k < cores(); ++k) sizes.push_back(entry_size(k));
  return sizes;
}

Sizes Layout::core_shape(std::size_t k) const {
  if (kind == Kind::ttm) return {ranks[k], modes[k], modes[cores() + k], ranks[k + 1]};
  return {ranks[k], entry_size(k), ranks[k + 1]};
}

Layout tt_layout(const Sizes& in_modes, const Sizes& out_modes, Sizes ranks) {
  return joined(Kind::tt, in_modes, out_modes, std::move(ranks));
}
Layout ttm_layout(const Sizes& row_modes, const Sizes& column_modes, Sizes ranks) {
  return joined(Kind::ttm, row_modes, column_modes, std::move(ranks));
}

const char* form_name(const Layout& layout) {
  if (layout.pair()) return "lowrank";
  return layout.kind == Kind::tt ? "tt" : "ttm";
}

}  // namespace comera::tt
