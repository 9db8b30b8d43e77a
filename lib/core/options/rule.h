// Words of options that are for layers by name: 'VALUE' and 'GLOB=VALUE', and the rules of --layer, which set
// exceptions by weight name: 'glob=key:value;key:value'. The last '=' separates the name.
#pragma once

#include <cstdint>
#include <optional>
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

struct LayerWord {
  std::string glob;  // "": all layers
  std::string value;
  bool by_name = false;  // there is an '='
};
LayerWord split_layer_word(const std::string& word);

// A whole number from 1; nothing if the text is another.
std::optional<std::int64_t> parse_rank(std::string_view text);

// InputErrors start with `where` ("[model]") and quote the rule.
Rule parse_rule(const std::string& text, std::string_view where);

[[noreturn]] void fail_rule(const Rule& rule, std::string_view where, const std::string& what);
// The rank in an item of a rule.
std::int64_t rule_rank(const Rule& rule, std::string_view where, const std::string& value);
// Fails for an item with an unknown key or value. `known` lists the valid items.
[[noreturn]] void fail_unknown(const Rule& rule, std::string_view where, const Rule::Item& item,
                               std::string_view known);

}  // namespace comera
