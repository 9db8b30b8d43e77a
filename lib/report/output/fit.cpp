#include "lib/report/output/fit.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <optional>

#include "lib/core/join.h"
#include "lib/core/terminal/log.h"
#include "lib/core/terminal/terminal.h"
#include "lib/report/output/fold.h"
#include "lib/report/output/text.h"

namespace comera::report {
namespace {

constexpr std::size_t least_text = 20;  // minimum columns of a cut text
constexpr std::size_t least_title = 5;  // minimum columns of a cut title

std::size_t widest_line(std::string_view text) {
  std::size_t widest = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    widest = std::max(widest, width_of(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return widest;
}

std::size_t plain_width(const Table& table) { return widest_line(render(table, Format::table)); }

bool of_weights(const Table& table) { return !table.columns.empty() && table.columns.front().key == "name"; }

// Calls `visit` with every cell of a column, totals included.
void each_cell(Table& table, std::size_t column, const std::function<void(Cell&)>& visit) {
  for (auto* rows : {&table.rows, &table.totals})
    for (auto& row : *rows) visit(row[column]);
}

std::size_t widest_cell(Table& table, std::size_t column) {
  std::size_t widest = 0;
  each_cell(table, column,
            [&](const Cell& cell) { widest = std::max(widest, width_of(show(cell, table.columns[column].unit))); });
  return widest;
}

// Breaks titles at blanks into lines no wider than the cells below or the longest word of the title.
void break_titles(Table& table) {
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    std::string& title = table.columns[c].title;
    const std::size_t cells = widest_cell(table, c);
    if (width_of(title) > cells) title = wrap(title, static_cast<int>(cells));
  }
}

void remove_column(Table& table, std::size_t at) {
  const auto place = static_cast<std::ptrdiff_t>(at);
  table.columns.erase(table.columns.begin() + place);
  for (auto* rows : {&table.rows, &table.totals})
    for (auto& row : *rows) row.erase(row.begin() + place);
}

std::string cut_at_the_end(const std::string& text, std::size_t most) {
  if (width_of(text) <= most) return text;
  const std::size_t kept = text.ends_with("..") ? text.size() - 2 : text.size();
  return text.substr(0, std::min(kept, most - 2)) + "..";
}

// Keeps both ends: the block's number and the weight inside the block.
std::string cut_in_the_middle(const std::string& text, std::size_t most) {
  if (width_of(text) <= most) return text;
  const std::size_t head = (most - 2) / 2;
  return text.substr(0, head) + ".." + text.substr(text.size() - (most - 2 - head));
}

bool is_text(const Cell& cell) {
  return std::holds_alternative<std::string>(cell) || std::holds_alternative<std::vector<std::int64_t>>(cell);
}

// The widest column of texts or lists; none if all are narrow.
std::optional<std::size_t> widest_text(Table& table) {
  std::optional<std::size_t> found;
  std::size_t widest = least_text;
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    bool text = false;
    each_cell(table, c, [&](const Cell& cell) { text = text || is_text(cell); });
    const std::size_t width = widest_cell(table, c);
    if (text && width > widest) found = c, widest = width;
  }
  return found;
}

void cut_texts(Table& table, std::size_t columns) {
  while (plain_width(table) > columns) {
    const std::optional<std::size_t> at = widest_text(table);
    if (!at) return;
    const std::size_t excess = plain_width(table) - columns, widest = widest_cell(table, *at);
    const std::size_t most = std::max(least_text, widest - std::min(widest, excess));
    const Unit unit = table.columns[*at].unit;
    each_cell(table, *at, [&](Cell& cell) {
      if (is_text(cell)) cell = cut_in_the_middle(show(cell, unit), most);
    });
  }
}

// The title with the largest excess over the width of its cells.
std::optional<std::size_t> widest_title(Table& table) {
  std::optional<std::size_t> found;
  std::size_t most = 0;
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    const std::size_t cells = std::max(least_title, widest_cell(table, c)), width = widest_line(table.columns[c].title);
    if (width > cells && width - cells > most) found = c, most = width - cells;
  }
  return found;
}

void cut_titles(Table& table, std::size_t columns) {
  while (plain_width(table) > columns) {
    const std::optional<std::size_t> at = widest_title(table);
    if (!at) return;
    std::string &title = table.columns[*at].title, cut;
    const std::size_t most = widest_line(title) - 1;
    for (const std::string& line : split(title, '\n')) cut += (cut.empty() ? "" : "\n") + cut_at_the_end(line, most);
    title = cut;
  }
}

// Renders one row as lines of title and value.
std::string render_as_lines(const Table& table, std::size_t columns) {
  Table lines;
  lines.columns = {{"title", ""}, {"value", ""}};
  for (std::size_t c = 0; c < table.columns.size(); ++c)
    lines.rows.push_back({table.columns[c].title, show(table.rows[0][c], table.columns[c].unit)});
  cut_texts(lines, columns);
  const std::string text = render(lines, Format::table);
  const std::size_t titles = text.find('\n') + 1;
  return text.substr(text.find('\n', titles) + 1);
}

// Removes columns, those of `dispensable` first, then from the right. Returns their titles.
std::vector<std::string> leave_out(Table& table, const Table& whole, std::size_t columns) {
  std::vector<std::string> keys = table.dispensable, titles;
  const auto at_end = table.columns.rbegin();
  for (auto column = at_end; column + 1 < table.columns.rend(); ++column)
    if (std::find(keys.begin(), keys.end(), column->key) == keys.end()) keys.push_back(column->key);
  std::size_t dispensable = table.dispensable.size();
  for (std::size_t i = 0; i < keys.size() && plain_width(table) > columns; ++i) {
    if (i == dispensable) {
      cut_texts(table, columns);
      cut_titles(table, columns);
      if (plain_width(table) <= columns) break;
    }
    const int at = table.column(keys[i]);
    if (at < 0) continue;
    titles.push_back(cut_at_the_end(whole.columns[static_cast<std::size_t>(whole.column(keys[i]))].title, columns - 4));
    remove_column(table, static_cast<std::size_t>(at));
  }
  cut_texts(table, columns);
  return titles;
}

// No value in a pipe or a file, unless COLUMNS is set.
std::optional<int> stdout_columns() {
  if (::isatty(STDOUT_FILENO) == 0 && !std::getenv("COLUMNS")) return std::nullopt;
  return terminal_columns(STDOUT_FILENO);
}

// The notes of the columns that the table still has.
std::string notes_of(const Table& table) {
  std::string out;
  for (const Column& column : table.columns)
    if (!column.note.empty()) out += column.note + "\n";
  return out;
}

std::string wrapped(std::string_view text, int columns) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    out += (width_of(line) > static_cast<std::size_t>(columns) ? wrap(line, columns, 2) : std::string(line)) + "\n";
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

// Renders the table in at most `columns` columns. Those that do not fit are removed from it.
std::string fit(Table& table, int columns) {
  const auto most = static_cast<std::size_t>(columns);
  if (plain_width(table) <= most) return render(table, Format::table);
  const Table whole = table;
  if (of_weights(table)) shorten_names(table);
  if (plain_width(table) > most) break_titles(table);
  if (plain_width(table) <= most) return render(table, Format::table);
  if (whole.rows.size() == 1 && whole.totals.empty()) return render_as_lines(whole, most);
  const std::vector<std::string> left_out = leave_out(table, whole, most);
  std::string out = render(table, Format::table);
  if (left_out.empty()) return out;
  const std::string note =
      fmt::format("not shown in {} columns: {}; `| less -S` shows all", columns, join(left_out, ", "));
  return out + wrap(note, columns, 2) + "\n";
}

}  // namespace

std::string render_fitted(const Table& table, int columns) {
  Table fitted = table;
  const std::string text = fit(fitted, columns);
  return text + wrapped(notes_of(fitted), columns);
}

std::string render_for_stdout(const Table& table, Format format) {
  if (format != Format::table) return render(table, format);
  const auto columns = stdout_columns();
  if (!columns) return render(table, format) + notes_of(table);
  return render_fitted(of_weights(table) ? fold_equal_rows(table) : table, *columns);
}

std::string wrap_for_stdout(std::string_view text) {
  const auto columns = stdout_columns();
  const std::string shown = printable_lines(text);
  return columns ? wrapped(shown, *columns) : shown;
}

}  // namespace comera::report
