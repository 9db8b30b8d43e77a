#include "lib/core/options/rule.h"

#include <charconv>

#include "lib/core/error.h"
#include "lib/core/terminal/log.h"

namespace comera {

LayerWord split_layer_word(const std::string& word) {
  const std::size_t equals = word.rfind('=');
  if (equals == std::string::npos) return {"", word, false};
  return {word.substr(0, equals), word.substr(equals + 1), true};
}

std::optional<std::int64_t> parse_rank(std::string_view text) {
  std::int64_t rank = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
  if (error != std::errc() || end != text.data() + text.size() || rank < 1) return std::nullopt;
  return rank;
}

Rule parse_rule(const std::string& text, std::string_view where) {
  Rule rule{text, {}, {}};
  const LayerWord word = split_layer_word(text);
  if (word.glob.empty()) fail_rule(rule, where, "it names no weights; write 'glob=rank:16' or 'glob=form:dense'");
  rule.pattern = word.glob;
  for (std::string_view rest = word.value; !rest.empty();) {
    const std::string_view item = rest.substr(0, rest.find(';'));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    const std::size_t colon = item.find(':');
    rule.items.push_back({std::string(item.substr(0, colon)),
                          std::string(colon == std::string_view::npos ? "" : item.substr(colon + 1))});
  }
  return rule;
}

void fail_rule(const Rule& rule, std::string_view where, const std::string& what) {
  fail_input("{} --layer '{}': {}", where, printable(rule.text), what);
}

std::int64_t rule_rank(const Rule& rule, std::string_view where, const std::string& value) {
  const std::optional<std::int64_t> rank = parse_rank(value);
  if (!rank) fail_rule(rule, where, fmt::format("'{}' is not a rank; write a whole number from 1", printable(value)));
  return *rank;
}

void fail_unknown(const Rule& rule, std::string_view where, const Rule::Item& item, std::string_view known) {
  fail_rule(
      rule, where,
      fmt::format("'{}:{}' is not known; use {}, separated by ';'", printable(item.key), printable(item.value), known));
}

}  // namespace comera
