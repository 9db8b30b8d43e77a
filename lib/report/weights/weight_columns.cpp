#include "lib/report/weights/weight_columns.h"

#include <fmt/core.h>

#include <iterator>

namespace comera::report {

std::vector<Column> weight_columns() {
  return {{"name", "weight"},
          {"kind", "kind"},
          {"shape", "shape", Unit::sizes},
          {"form", "form"},
          {"modes", "modes", Unit::sizes},
          {"ranks", "ranks"}};
}

std::string form_words(const std::string& form, std::int64_t exact) {
  return exact > 0 ? fmt::format("{} + {} exact", form, exact) : form;
}

std::vector<Cell> weight_cells(const std::string& name, const std::string& kind, const std::vector<std::int64_t>& shape,
                               const std::string& form, const std::vector<std::int64_t>& modes,
                               const std::vector<std::int64_t>& ranks, std::int64_t exact) {
  return {name, kind, shape, form_words(form, exact), list_or_nothing(modes), list_or_nothing(ranks)};
}

Cell list_or_nothing(const std::vector<std::int64_t>& list) { return list.empty() ? Cell() : Cell(list); }
Cell whole(std::uint64_t value) { return static_cast<std::int64_t>(value); }

void append(std::vector<Cell>& row, std::vector<Cell> more) {
  std::move(more.begin(), more.end(), std::back_inserter(row));
}
void append(std::vector<Column>& columns, const std::vector<Column>& more) {
  columns.insert(columns.end(), more.begin(), more.end());
}

}  // namespace comera::report
