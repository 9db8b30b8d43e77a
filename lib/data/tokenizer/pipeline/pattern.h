// A text or a regular expression that is searched in other texts.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "lib/data/tokenizer/pipeline/aligned_text.h"

namespace comera::data {

// Regular expressions of tokenizer.json are written for Oniguruma and searched here by PCRE2. Every method may be
// called from several threads.
class Pattern {
 public:
  static Pattern literal(std::string text);
  // InputError, which begins with `place`, if the expression is malformed.
  static Pattern expression(const std::string& text, const std::string& place);

  // Calls `visit` for every match in `text` (valid UTF-8) from left to right. Matches do not overlap; empty ones are
  // not visited. InputError if the expression needs more than the limit of steps.
  void for_each_match(std::string_view text, const std::function<void(Span)>& visit) const;

 private:
  struct Compiled;
  std::string literal_, place_;
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace comera::data
