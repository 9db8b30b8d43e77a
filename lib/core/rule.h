// Exceptions by name, as --layer takes them: 'glob=key:value;key:value'.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace comera {

struct Rule {
  struct Item {
    std::string key, value;  // value "" where there is no colon
  };
  std::string text, pattern;
  std::vector<Item> items;
};

// The last '=' parts pattern and items. InputErrors open with `where` ("[model]") and show the rule.
Rule parse_rule(const std::string& text, std::string_view where);

[[noreturn]] void fail_rule(const Rule& rule, std::string_view where, const std::string& what);
// A whole number from 1 ("rank").
std::int64_t rule_rank(const Rule& rule, std::string_view where, const std::string& value);
// For an item that nobody knows; `known` says what there is.
[[noreturn]] void fail_unknown(const Rule& rule, std::string_view where, const Rule::Item& item,
                               std::string_view known);

}  // namespace comera
