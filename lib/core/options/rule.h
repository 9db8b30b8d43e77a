// Rules of --layer, which set exceptions by weight name: 'glob=key:value;key:value'.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace comera {

struct Rule {
  struct Item {
    std::string key, value;  // value is "" without a colon
  };
  std::string text, pattern;
  std::vector<Item> items;
};

// The last '=' separates pattern and items. InputErrors start with `where` ("[model]") and quote the rule.
Rule parse_rule(const std::string& text, std::string_view where);

[[noreturn]] void fail_rule(const Rule& rule, std::string_view where, const std::string& what);
// Parses a whole number from 1 (a rank).
std::int64_t rule_rank(const Rule& rule, std::string_view where, const std::string& value);
// Fails for an item with an unknown key or value. `known` lists the valid items.
[[noreturn]] void fail_unknown(const Rule& rule, std::string_view where, const Rule::Item& item,
                               std::string_view known);

}  // namespace comera
