#include "lib/data/tokenizer/pipeline/metaspace.h"

#include "lib/core/terminal/log.h"

namespace comera::data {

Metaspace read_metaspace(const JsonNode& node) {
  Metaspace rule{.replacement = node.text_or("replacement", "\xE2\x96\x81"), .splits = node.flag_or("split", true)};
  if (rule.replacement.empty()) node.fail("\"replacement\" must not be empty");
  if (!node.flag_or("add_prefix_space", true)) rule.scheme = Metaspace::Scheme::never;
  const auto scheme = node.find("prepend_scheme");
  if (!scheme) return rule;
  const std::string name = scheme->text();
  if (name == "first") return rule.scheme = Metaspace::Scheme::first, rule;
  if (name == "never") return rule.scheme = Metaspace::Scheme::never, rule;
  if (name == "always") return rule.scheme = Metaspace::Scheme::always, rule;
  scheme->fail("\"{}\" is not known; known are first, never, always", printable(name));
}

}  // namespace comera::data
