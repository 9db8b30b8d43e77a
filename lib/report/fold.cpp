#include "lib/report/fold.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

namespace comera::report {
namespace {

std::vector<std::string> parts_of(const std::string& name) {
  std::vector<std::string> parts(1);
  for (const char letter : name) {
    if (letter == '.')
      parts.emplace_back();
    else
      parts.back() += letter;
  }
  return parts;
}

std::optional<int> number_of(const std::string& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

// Joins the words that the names have at one place.
std::string folded_part(const std::set<std::string>& words) {
  if (words.size() == 1) return *words.begin();
  std::set<int> numbers;
  for (const std::string& word : words)
    if (const auto number = number_of(word)) numbers.insert(*number);
  if (numbers.size() == words.size() && *numbers.rbegin() - *numbers.begin() + 1 == std::ssize(numbers))
    return fmt::format("{}-{}", *numbers.begin(), *numbers.rbegin());
  return words.size() <= 3 ? fmt::format("{}", fmt::join(words, "|")) : "*";
}

struct Group {
  std::vector<std::vector<std::string>> names;  // as parts
  std::vector<Cell> row;

  bool takes(const std::vector<std::string>& parts, const std::vector<Cell>& other) const {
    return parts.size() == names.front().size() && std::equal(row.begin() + 1, row.end(), other.begin() + 1, other.end());
  }
  std::string name() const {
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < names.front().size(); ++i) {
      std::set<std::string> words;
      for (const auto& name : names) words.insert(name[i]);
      parts.push_back(folded_part(words));
    }
    return fmt::format("{}", fmt::join(parts, "."));
  }
};

}  // namespace

Table fold_equal_rows(Table table) {
  std::vector<Group> groups;
  for (const std::vector<Cell>& row : table.rows) {
    const std::vector<std::string> parts = parts_of(std::get<std::string>(row.front()));
    const auto found = std::find_if(groups.begin(), groups.end(), [&](const Group& group) { return group.takes(parts, row); });
    if (found == groups.end())
      groups.push_back({{parts}, row});
    else
      found->names.push_back(parts);
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

}  // namespace comera::report
