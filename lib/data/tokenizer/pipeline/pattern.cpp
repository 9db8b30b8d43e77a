#include "lib/data/tokenizer/pipeline/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#define PCRE2_STATIC
#include <pcre2.h>

#include "lib/core/error.h"
#include "lib/core/terminal/log.h"

namespace comera::data {
namespace {

// Steps of one search. The splits in use need a few hundred; an expression that tries all ways to divide a text would
// not end.
constexpr std::uint32_t most_steps = 10'000'000;
constexpr std::uint32_t most_heap_kib = 64 << 10;
constexpr std::size_t longest_expression = 1 << 16;

// White space of Unicode, which is what \s means in Oniguruma; PCRE2 adds U+180E.
constexpr std::string_view spaces =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";

// Word characters of Unicode: letters, marks, digits, connectors, circled letters. Those of PCRE2 are letters,
// numbers and the underscore.
constexpr std::string_view word_characters =
    R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{24b6}-\x{24e9}\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189})";

// Writes \s, \w and their opposites out, except \S and \W within a class, where PCRE2 has no way to write them.
// InputError for what PCRE2 would read in another way: classes within classes, and their intersections.
std::string for_pcre2(std::string_view expression, const std::string& place) {
  std::string result;
  bool in_class = false;
  for (std::size_t i = 0; i < expression.size(); ++i) {
    const char c = expression[i];
    if (c == '\\' && i + 1 < expression.size()) {
      const char next = expression[++i];
      const bool positive = next == 's' || next == 'w', negative = next == 'S' || next == 'W';
      if (positive || (negative && !in_class)) {
        if (!in_class) result += positive ? "[" : "[^";
        result += next == 's' || next == 'S' ? spaces : word_characters;
        if (!in_class) result += ']';
      } else {
        (result += c) += next;
      }
      continue;
    }
    const std::string_view two = expression.substr(i, 2);
    if (in_class && two != "[:" && (c == '[' || two == "&&"))
      fail_input("{}: the regular expression {} has a class within a class or an intersection, which are not read",
                 place, printable(expression));
    if (two == "[:" || two == ":]") {
      result += two;
      if (!in_class) in_class = true;
      ++i;
      continue;
    }
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    result += c;
  }
  return result;
}

std::string message_of(int code) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

struct FreeMatch {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};

}  // namespace

struct Pattern::Compiled {
  pcre2_code* code = nullptr;
  pcre2_match_context* context = nullptr;
  Compiled() = default;
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;
  ~Compiled() {
    pcre2_code_free(code);
    pcre2_match_context_free(context);
  }
};

Pattern Pattern::literal(std::string text) {
  Pattern pattern;
  pattern.literal_ = std::move(text);
  return pattern;
}

Pattern Pattern::expression(const std::string& text, const std::string& place) {
  if (text.size() > longest_expression)
    fail_input("{}: the regular expression has {} bytes; at most {} are read", place, text.size(), longest_expression);
  const std::string written = for_pcre2(text, place);
  int error = 0;
  PCRE2_SIZE at = 0;
  const auto compiled = std::make_shared<Compiled>();
  compiled->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(written.data()), written.size(),
                                 PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &at, nullptr);
  if (!compiled->code)
    fail_input("{}: the regular expression {} cannot be read: {}", place, printable(text), message_of(error));
  // Without a compiler for this processor, the interpreter gives the same matches.
  pcre2_jit_compile(compiled->code, PCRE2_JIT_COMPLETE);
  compiled->context = pcre2_match_context_create(nullptr);
  COMERA_CHECK(compiled->context);
  pcre2_set_match_limit(compiled->context, most_steps);
  pcre2_set_heap_limit(compiled->context, most_heap_kib);
  Pattern pattern;
  pattern.place_ = place;
  pattern.compiled_ = compiled;
  return pattern;
}

void Pattern::for_each_match(std::string_view text, const std::function<void(Span)>& visit) const {
  if (!compiled_) {
    if (literal_.empty()) return;
    for (std::size_t at = text.find(literal_); at != std::string_view::npos; at = text.find(literal_, at)) {
      visit({at, at + literal_.size()});
      at += literal_.size();
    }
    return;
  }
  thread_local const std::unique_ptr<pcre2_match_data, FreeMatch> match(pcre2_match_data_create(1, nullptr));
  COMERA_CHECK(match);
  const auto search = [&](std::size_t at, std::uint32_t options) {
    return pcre2_match(compiled_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at, options,
                       match.get(), compiled_->context);
  };
  for (std::size_t at = 0; at <= text.size();) {
    int found = search(at, PCRE2_NO_UTF_CHECK);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = search(at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT);
    if (found == PCRE2_ERROR_NOMATCH) return;
    if (found < 0)
      fail_input(
          "{}: the regular expression takes too many steps on a text of {} bytes ({}); use a tokenizer whose "
          "expression does not backtrack without end",
          place_, text.size(), message_of(found));
    const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(match.get());
    const Span span{ends[0], ends[1]};
    if (span.end > span.begin && span.begin >= at) {
      visit(span);
      at = span.end;
      continue;
    }
    at = std::max(at, span.end) + 1;  // behind an empty match: the next character
    while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) ++at;
  }
}

}  // namespace comera::data
