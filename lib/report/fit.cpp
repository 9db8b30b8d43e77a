#include "lib/report/fit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <optional>
#include <set>

#include "lib/core/terminal.h"
#include "lib/report/fold.h"
#include "lib/report/html.h"

namespace comera::report {
namespace {

constexpr std::size_t least_name = 20;  // columns of a name that is cut

std::size_t width_of(const std::string& rendered) { return rendered.find('\n'); }

std::size_t plain_width(const Table& table) {
  const std::string text = render(table, Format::table);
  // The rule below the titles is as long as the widest line may be.
  return width_of(text.substr(text.find('\n') + 1));
}

std::vector<std::string> names_of(const Table& table) {
  std::vector<std::string> names;
  for (const auto& row : table.rows)
    if (const auto* name = std::get_if<std::string>(&row[0])) names.push_back(*name);
  return names;
}

void rename(Table& table, const std::function<std::string(const std::string&)>& change) {
  for (auto& row : table.rows)
    if (auto* name = std::get_if<std::string>(&row[0])) *name = change(*name);
}

// As pages show them, where they stay different.
void shorten_names(Table& table) {
  const std::vector<std::string> names = names_of(table);
  std::set<std::string> distinct;
  for (const std::string& name : names) distinct.insert(short_name(name));
  if (names.size() == table.rows.size() && distinct.size() == names.size()) rename(table, short_name);
}

void remove_column(Table& table, std::size_t at) {
  const auto place = static_cast<std::ptrdiff_t>(at);
  table.columns.erase(table.columns.begin() + place);
  for (auto* rows : {&table.rows, &table.totals})
    for (auto& row : *rows) row.erase(row.begin() + place);
}

void cut_names(Table& table, std::size_t excess) {
  std::size_t longest = 0;
  for (const std::string& name : names_of(table)) longest = std::max(longest, name.size());
  const std::size_t most = std::max(least_name, longest - std::min(longest, excess));
  rename(table, [&](const std::string& name) {
    if (name.size() <= most) return name;
    const std::size_t head = (most - 2) / 2;  // the block's number; the end is the weight in it
    return name.substr(0, head) + ".." + name.substr(name.size() - (most - 2 - head));
  });
}

// Nothing in a pipe or a file, unless COLUMNS is set.
std::optional<int> stdout_columns() {
  if (::isatty(STDOUT_FILENO) == 0 && !std::getenv("COLUMNS")) return std::nullopt;
  return terminal_columns(STDOUT_FILENO);
}

}  // namespace

std::string render_fitted(const Table& table, int columns) {
  const auto most = static_cast<std::size_t>(columns);
  Table fitted = table;
  const auto fits = [&] { return plain_width(fitted) <= most; };
  if (!fits()) shorten_names(fitted);
  std::vector<std::string> left_out;
  for (const std::string& key : table.dispensable) {
    if (fits()) break;
    const int at = fitted.column(key);
    if (at < 0) continue;
    left_out.push_back(fitted.columns[static_cast<std::size_t>(at)].title);
    remove_column(fitted, static_cast<std::size_t>(at));
  }
  if (!fits()) cut_names(fitted, plain_width(fitted) - most);
  std::string out = render(fitted, Format::table);
  if (!left_out.empty()) out += fmt::format("not shown in {} columns: {}\n", columns, fmt::join(left_out, ", "));
  return out;
}

std::string render_for_stdout(const Table& table) {
  const auto columns = stdout_columns();
  if (!columns) return render(table, Format::table);
  const bool of_weights = !table.columns.empty() && table.columns.front().key == "name";
  return render_fitted(of_weights ? fold_equal_rows(table) : table, *columns);
}

}  // namespace comera::report
