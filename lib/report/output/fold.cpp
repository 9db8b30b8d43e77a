#include "lib/report/output/fold.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "lib/core/join.h"
#include "lib/report/output/text.h"

namespace comera::report {
namespace {

std::optional<int> number_of(const std::string& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

// Joins the different words at one position of the names.
std::string folded_part(const std::set<std::string>& words) {
  if (words.size() == 1) return *words.begin();
  std::set<int> numbers;
  for (const std::string& word : words)
    if (const auto number = number_of(word)) numbers.insert(*number);
  if (numbers.size() == words.size() && *numbers.rbegin() - *numbers.begin() + 1 == std::ssize(numbers))
    return fmt::format("{}-{}", *numbers.begin(), *numbers.rbegin());
  return words.size() <= 3 ? join(words, "|") : "*";
}

struct Group {
  std::vector<std::vector<std::string>> names;  // split into parts
  std::vector<Cell> row;

  std::string name() const {
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < names.front().size(); ++i) {
      std::set<std::string> words;
      for (const auto& name : names) words.insert(name[i]);
      parts.push_back(folded_part(words));
    }
    return join(parts, ".");
  }
};

// Equal for rows that are folded together. NaN cannot be ordered, so a text replaces it.
using Key = std::pair<std::size_t, std::vector<Cell>>;

Key key_of(std::size_t parts, const std::vector<Cell>& row) {
  Key key(parts, {row.begin() + 1, row.end()});
  for (Cell& cell : key.second)
    if (const double* number = std::get_if<double>(&cell); number && std::isnan(*number)) cell = std::string("nan");
  return key;
}

}  // namespace

Table fold_equal_rows(Table table) {
  std::vector<Group> groups;
  std::map<Key, std::size_t> places;  // indices in groups
  for (const std::vector<Cell>& row : table.rows) {
    std::vector<std::string> parts = split(std::get<std::string>(row.front()), '.');
    const auto [place, is_new] = places.try_emplace(key_of(parts.size(), row), groups.size());
    if (is_new)
      groups.push_back({{std::move(parts)}, row});
    else
      groups[place->second].names.push_back(std::move(parts));
  }
  if (groups.size() == table.rows.size()) return table;
  table.rows.clear();
  table.columns.insert(table.columns.begin() + 1, {"layers", "layers", Unit::count});
  for (Group& group : groups) {
    std::vector<Cell>& row = table.rows.emplace_back();
    row.emplace_back(group.name());
    row.emplace_back(std::ssize(group.names));
    std::move(group.row.begin() + 1, group.row.end(), std::back_inserter(row));
  }
  for (std::vector<Cell>& total : table.totals) {
    total.emplace_back();
    std::rotate(total.begin() + 1, total.end() - 1, total.end());
  }
  return table;
}

std::string short_name(std::string_view name) {
  if (name.ends_with(".weight")) name.remove_suffix(7);
  if (name.ends_with(".dense")) name.remove_suffix(6);
  const std::size_t layer = name.find("layer");
  if (layer != std::string_view::npos) return std::string(name.substr(layer));
  const std::size_t dot = name.find('.');
  return std::string(dot == std::string_view::npos ? name : name.substr(dot + 1));
}

std::vector<std::string> short_names(const std::vector<std::string>& names) {
  std::vector<std::string> shorter;
  for (const std::string& name : names) shorter.push_back(short_name(name));
  return std::set<std::string>(shorter.begin(), shorter.end()).size() < names.size() ? names : shorter;
}

void shorten_names(Table& table) {
  std::vector<std::string> names;
  for (const auto& row : table.rows)
    if (const auto* name = std::get_if<std::string>(&row[0])) names.push_back(*name);
  if (names.size() < table.rows.size()) return;
  names = short_names(names);
  for (std::size_t i = 0; i < names.size(); ++i) table.rows[i][0] = std::move(names[i]);
}

}  // namespace comera::report
