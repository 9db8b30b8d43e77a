#include "lib/report/output/table.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "lib/core/error.h"
#include "lib/core/join.h"
#include "lib/core/options/suggest.h"
#include "lib/core/reals.h"
#include "lib/core/terminal/log.h"
#include "lib/core/terminal/terminal.h"
#include "lib/core/units.h"
#include "lib/report/output/json.h"
#include "lib/report/output/text.h"

namespace comera::report {
namespace {

std::string with_commas(std::int64_t value) {
  std::string digits = fmt::format("{}", value);
  const std::size_t first = digits[0] == '-' ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3; at -= 3) digits.insert(at - 3, 1, ',');
  return digits;
}

bool is_number(const Cell& cell) {
  return std::holds_alternative<std::int64_t>(cell) || std::holds_alternative<double>(cell);
}

double number_of(const Cell& cell) {
  if (const auto* whole = std::get_if<std::int64_t>(&cell)) return static_cast<double>(*whole);
  return std::get<double>(cell);
}

bool right_aligned(const Table& table, std::size_t column) { return table.columns[column].right; }

// Computes the alignment once per table, because a text column is scanned to its end.
Table aligned(Table table) {
  for (std::size_t c = 0; c < table.columns.size(); ++c)
    table.columns[c].right =
        std::any_of(table.rows.begin(), table.rows.end(), [&](const auto& row) { return is_number(row[c]); });
  return table;
}

using Texts = std::vector<std::vector<std::string>>;

// Order: titles, rows, totals.
Texts texts_of(const Table& table) {
  Texts texts(1);
  for (const Column& column : table.columns) texts[0].push_back(column.title);
  const auto add = [&](const std::vector<Cell>& row) {
    auto& line = texts.emplace_back();
    for (std::size_t i = 0; i < row.size(); ++i) line.push_back(show(row[i], table.columns[i].unit));
  };
  for (const auto& row : table.rows) add(row);
  for (const auto& row : table.totals) add(row);
  return texts;
}

std::vector<std::size_t> widths_of(const Texts& texts) {
  std::vector<std::size_t> widths(texts[0].size(), 0);
  for (const auto& line : texts)
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], width_of(line[i]));
  return widths;
}

std::string padded(const std::string& text, std::size_t width, bool right) {
  const std::string gap(width - std::min(width, width_of(text)), ' ');
  return right ? gap + text : text + gap;
}

std::string aligned_line(const Table& table, const std::vector<std::string>& line,
                         const std::vector<std::size_t>& widths, std::string_view between) {
  std::string out;
  for (std::size_t i = 0; i < line.size(); ++i)
    out.append(i ? between : "").append(padded(line[i], widths[i], right_aligned(table, i)));
  return out;
}

std::string strip_right(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

// A title with fewer lines is aligned to the last line.
Texts title_lines(const Table& table) {
  Texts titles;
  std::size_t height = 1;
  for (const Column& column : table.columns)
    height = std::max(height, titles.emplace_back(split(column.title, '\n')).size());
  Texts lines(height, std::vector<std::string>(titles.size()));
  for (std::size_t c = 0; c < titles.size(); ++c)
    for (std::size_t i = 0; i < titles[c].size(); ++i) lines[height - titles[c].size() + i][c] = titles[c][i];
  return lines;
}

std::string render_plain(const Table& table) {
  Texts texts = texts_of(table), titles = title_lines(table);
  texts.erase(texts.begin());
  const std::size_t first_row = titles.size();
  texts.insert(texts.begin(), titles.begin(), titles.end());
  const auto widths = widths_of(texts);
  std::size_t total_width = 0;
  for (const std::size_t width : widths) total_width += width + 2;
  const std::string rule = std::string(total_width - std::min<std::size_t>(total_width, 2), '-') + "\n";
  std::string out;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (i == first_row || (i == first_row + table.rows.size() && !table.totals.empty())) out += rule;
    out += strip_right(aligned_line(table, texts[i], widths, "  "));
  }
  return out;
}

std::string render_markdown(const Table& table) {
  Texts texts = texts_of(table);
  for (auto& line : texts)
    for (std::string& text : line)
      for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, 1, '\\');
  const auto widths = widths_of(texts);
  std::string out;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    out.append("| ").append(aligned_line(table, texts[i], widths, " | ")).append(" |\n");
    if (i > 0) continue;
    for (std::size_t c = 0; c < widths.size(); ++c) out += right_aligned(table, c) ? "| ---: " : "| --- ";
    out += "|\n";
  }
  return out;
}

std::string csv_field(std::string text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  for (std::size_t at = 0; (at = text.find('"', at)) != std::string::npos; at += 2) text.insert(at, 1, '"');
  return fmt::format("\"{}\"", text);
}

// Lists are joined by spaces, so that a spreadsheet does not convert them.
std::string csv_value(const Cell& cell) {
  if (std::holds_alternative<std::monostate>(cell)) return "";
  if (const auto* text = std::get_if<std::string>(&cell)) return csv_field(*text);
  if (const auto* list = std::get_if<std::vector<std::int64_t>>(&cell)) return join(*list, " ");
  if (const auto* whole = std::get_if<std::int64_t>(&cell)) return fmt::format("{}", *whole);
  const double value = std::get<double>(cell);
  return std::isfinite(value) ? fmt::format("{}", value) : "";
}

std::string render_csv(const Table& table) {
  std::string out;
  for (std::size_t i = 0; i < table.columns.size(); ++i)
    out.append(i ? "," : "").append(csv_field(table.columns[i].key));
  out += "\n";
  for (const auto& row : table.rows) {
    for (std::size_t i = 0; i < row.size(); ++i) out.append(i ? "," : "").append(csv_value(row[i]));
    out += "\n";
  }
  return out;
}

std::string render_jsonl(const Table& table) {
  std::string out;
  for (const Json& row : to_json(table)) out += dump(row, -1) + "\n";
  return out;
}

std::string html_row(const Table& table, const std::vector<std::string>& line, const char* tag) {
  std::string out = "<tr>";
  for (std::size_t i = 0; i < line.size(); ++i)
    out += fmt::format("<{}{}>{}</{}>", tag, right_aligned(table, i) ? " class=\"n\"" : "", escape_html(line[i]), tag);
  return out + "</tr>\n";
}

std::string render_html(const Table& table) {
  const Texts texts = texts_of(table);
  std::string out = "<div class=\"scroll\"><table>\n<thead>" + html_row(table, texts[0], "th") + "</thead>\n<tbody>\n";
  const std::size_t body_end = 1 + table.rows.size();
  for (std::size_t i = 1; i < body_end; ++i) out += html_row(table, texts[i], "td");
  out += "</tbody>\n";
  if (body_end < texts.size()) out += "<tfoot>\n";
  for (std::size_t i = body_end; i < texts.size(); ++i) out += html_row(table, texts[i], "td");
  if (body_end < texts.size()) out += "</tfoot>\n";
  return out + "</table></div>\n";
}

bool cell_before(const Cell& a, const Cell& b) {
  if (is_number(a) != is_number(b)) return is_number(a);
  if (is_number(a)) return number_of(a) > number_of(b);
  return a < b;
}

}  // namespace

int Table::column(std::string_view key) const {
  for (std::size_t i = 0; i < columns.size(); ++i)
    if (columns[i].key == key) return static_cast<int>(i);
  return -1;
}

Format parse_format(std::string_view word) {
  if (word == "table") return Format::table;
  if (word == "md") return Format::md;
  if (word == "csv") return Format::csv;
  if (word == "jsonl") return Format::jsonl;
  COMERA_CHECK(word == "html");
  return Format::html;
}

std::string render(const Table& table, Format format) {
  switch (format) {
    case Format::table: return render_plain(aligned(table));
    case Format::md: return render_markdown(aligned(table));
    case Format::csv: return render_csv(table);
    case Format::jsonl: return render_jsonl(table);
    case Format::html: return render_html(aligned(table));
  }
  return "";
}

std::string show(double value, Unit unit) {
  if (std::isnan(value)) return "-";
  switch (unit) {
    case Unit::count: return std::abs(value) < 9e15 ? with_commas(std::llround(value)) : format_digits(value, 3);
    case Unit::bytes:
      return value >= 0 && value < 1e19 ? format_bytes(static_cast<std::uint64_t>(value))
                                        : format_digits(value, 3) + " B";
    case Unit::ratio: return fmt::format("{:.{}f}x", value, value < 100 ? (value < 10 ? 2 : 1) : 0);
    case Unit::share: return fmt::format("{:.1f} %", 100 * value);
    case Unit::ms: return fmt::format("{:.{}f}", value, value < 100 ? (value < 10 ? 3 : 2) : 1);
    case Unit::error: return fmt::format("{:.4f}", value);
    case Unit::sizes:
    case Unit::plain: break;
  }
  return format_digits(value, 4);
}

std::string show(const Cell& cell, Unit unit) {
  if (std::holds_alternative<std::monostate>(cell)) return "-";
  if (const auto* text = std::get_if<std::string>(&cell)) return printable(*text);
  if (const auto* list = std::get_if<std::vector<std::int64_t>>(&cell))
    return join(*list, unit == Unit::sizes ? "x" : " ");
  if (const auto* whole = std::get_if<std::int64_t>(&cell); whole && unit == Unit::plain)
    return fmt::format("{}", *whole);
  return show(number_of(cell), unit);
}

Table without_empty_columns(const Table& table) {
  const auto empty = [&](std::size_t c) {
    return std::all_of(table.rows.begin(), table.rows.end(),
                       [&](const auto& row) { return std::holds_alternative<std::monostate>(row[c]); });
  };
  Table kept;
  kept.dispensable = table.dispensable;
  kept.rows.resize(table.rows.size());
  kept.totals.resize(table.totals.size());
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    if (!table.rows.empty() && empty(c)) continue;
    kept.columns.push_back(table.columns[c]);
    for (std::size_t i = 0; i < table.rows.size(); ++i) kept.rows[i].push_back(table.rows[i][c]);
    for (std::size_t i = 0; i < table.totals.size(); ++i) kept.totals[i].push_back(table.totals[i][c]);
  }
  return kept;
}

void sort_rows(Table& table, std::string_view key) {
  const bool reversed = key.starts_with("-");
  const std::string name(key.substr(reversed ? 1 : 0));
  const int column = table.column(name);
  if (column < 0) {
    std::vector<std::string> keys;
    for (const Column& known : table.columns) keys.push_back(known.key);
    fail_input("--sort {}: no such column{}; there are {}", name, did_you_mean(name, keys), join(keys, ", "));
  }
  const auto at = static_cast<std::size_t>(column);
  std::stable_sort(table.rows.begin(), table.rows.end(), [&](const auto& a, const auto& b) {
    return reversed ? cell_before(b[at], a[at]) : cell_before(a[at], b[at]);
  });
}

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      case '\n':
      case '\t': out += c; break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f
                   ? printable({&c, 1})
                   : std::string(1, c);  // HTML allows no other control characters
    }
  }
  return out;
}

}  // namespace comera::report
