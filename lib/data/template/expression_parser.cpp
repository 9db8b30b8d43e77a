#include "lib/data/template/expression_parser.h"

#include <algorithm>
#include <charconv>

namespace comera::data::jinja {
namespace {

std::string shown(const Token& token) {
  switch (token.kind) {
    case TokenKind::end: return "the end of the template";
    case TokenKind::block_end: return "%}";
    case TokenKind::output_end: return "}}";
    case TokenKind::text: return "a text";
    default: return fmt::format("'{}'", token.text);
  }
}

}  // namespace

void ExpressionParser::fail_here(std::string_view wanted) const {
  fail_syntax(now().line, "expected {}, found {}", wanted, shown(now()));
}

bool ExpressionParser::take_sign(std::string_view sign) {
  if (!at_sign(sign)) return false;
  take();
  return true;
}

bool ExpressionParser::take_name(std::string_view name) {
  if (!at_name(name)) return false;
  take();
  return true;
}

void ExpressionParser::require_sign(std::string_view sign) {
  if (!take_sign(sign)) fail_here(fmt::format("'{}'", sign));
}

std::string ExpressionParser::require_name(const char* what) {
  if (now().kind != TokenKind::name) fail_here(what);
  return take().text;
}

ExpressionPtr ExpressionParser::make(ExpressionKind kind, int line, std::string word) const {
  auto made = std::make_unique<Expression>();
  made->kind = kind;
  made->line = line;
  made->word = std::move(word);
  return made;
}

void ExpressionParser::add(Expression& to, ExpressionPtr part) const {
  constexpr int deepest = 400;
  if (part) to.depth = std::max(to.depth, part->depth + 1);
  if (to.depth > deepest) fail_syntax(to.line, "an expression nests deeper than {}", deepest);
  to.parts.push_back(std::move(part));
}

ExpressionPtr ExpressionParser::binary(std::string word, ExpressionPtr left, ExpressionPtr right, int line) const {
  ExpressionPtr made = make(ExpressionKind::binary, line, std::move(word));
  add(*made, std::move(left));
  add(*made, std::move(right));
  return made;
}

ExpressionPtr ExpressionParser::expression() {
  const Level level(nesting_);
  ExpressionPtr value = any_of();
  while (at_name("if")) {
    ExpressionPtr made = make(ExpressionKind::condition, take().line);
    add(*made, std::move(value));
    add(*made, any_of());
    add(*made, take_name("else") ? expression() : nullptr);
    value = std::move(made);
  }
  return value;
}

ExpressionPtr ExpressionParser::tuple(bool with_condition) {
  const int line = now().line;
  ExpressionPtr first = with_condition ? expression() : any_of();
  if (!at_sign(",")) return first;
  ExpressionPtr made = make(ExpressionKind::tuple, line);
  add(*made, std::move(first));
  while (take_sign(",")) {
    const bool ends = now().kind == TokenKind::block_end || now().kind == TokenKind::output_end || at_sign(")");
    if (ends) break;
    add(*made, with_condition ? expression() : any_of());
  }
  return made;
}

ExpressionPtr ExpressionParser::any_of() {
  ExpressionPtr left = all_of();
  while (at_name("or")) {
    const int line = take().line;
    left = binary("or", std::move(left), all_of(), line);
  }
  return left;
}

ExpressionPtr ExpressionParser::all_of() {
  ExpressionPtr left = negation();
  while (at_name("and")) {
    const int line = take().line;
    left = binary("and", std::move(left), negation(), line);
  }
  return left;
}

ExpressionPtr ExpressionParser::negation() {
  const Level level(nesting_);
  if (!at_name("not")) return comparison();
  ExpressionPtr made = make(ExpressionKind::unary, take().line, "not");
  add(*made, negation());
  return made;
}

bool ExpressionParser::at_comparison() const {
  if (now().kind == TokenKind::name)
    return now().text == "in" || (now().text == "not" && ahead().kind == TokenKind::name && ahead().text == "in");
  constexpr std::string_view signs[] = {"==", "!=", "<", "<=", ">", ">="};
  return now().kind == TokenKind::sign && std::find(std::begin(signs), std::end(signs), now().text) != std::end(signs);
}

ExpressionPtr ExpressionParser::comparison() {
  const int line = now().line;
  ExpressionPtr first = sum();
  if (!at_comparison()) return first;
  ExpressionPtr made = make(ExpressionKind::compare, line);
  add(*made, std::move(first));
  while (at_comparison()) {
    std::string sign = take().text;
    if (sign == "not") sign += " " + take().text;
    made->operators.push_back(std::move(sign));
    add(*made, sum());
  }
  return made;
}

ExpressionPtr ExpressionParser::sum() {
  ExpressionPtr left = concatenation();
  while (at_sign("+") || at_sign("-")) {
    const Token sign = take();
    left = binary(sign.text, std::move(left), concatenation(), sign.line);
  }
  return left;
}

ExpressionPtr ExpressionParser::concatenation() {
  ExpressionPtr left = product();
  while (at_sign("~")) {
    const Token sign = take();
    left = binary(sign.text, std::move(left), product(), sign.line);
  }
  return left;
}

ExpressionPtr ExpressionParser::product() {
  ExpressionPtr left = power();
  while (at_sign("*") || at_sign("/") || at_sign("//") || at_sign("%")) {
    const Token sign = take();
    left = binary(sign.text, std::move(left), power(), sign.line);
  }
  return left;
}

ExpressionPtr ExpressionParser::power() {
  ExpressionPtr left = unary(true);
  while (at_sign("**")) {
    const Token sign = take();
    left = binary(sign.text, std::move(left), unary(true), sign.line);
  }
  return left;
}

ExpressionPtr ExpressionParser::unary(bool with_filters) {
  const Level level(nesting_);
  ExpressionPtr value;
  if (at_sign("-") || at_sign("+")) {
    const Token sign = take();
    value = make(ExpressionKind::unary, sign.line, sign.text);
    add(*value, unary(false));
  } else {
    value = primary();
  }
  value = postfix(std::move(value));
  return with_filters ? filters_and_tests(std::move(value)) : std::move(value);
}

ExpressionPtr ExpressionParser::primary() {
  const Token token = now();
  switch (token.kind) {
    case TokenKind::name: return named_value();
    case TokenKind::integer:
    case TokenKind::real: return number();
    case TokenKind::text: {
      ExpressionPtr made = make(ExpressionKind::literal, token.line);
      std::string text;
      while (now().kind == TokenKind::text) text += take().text;
      made->value = Value(std::move(text));
      return made;
    }
    default: break;
  }
  if (at_sign("[")) return list();
  if (at_sign("{")) return dict();
  if (!take_sign("(")) fail_here("a value");
  if (take_sign(")")) return make(ExpressionKind::tuple, token.line);
  ExpressionPtr inner = tuple(true);
  require_sign(")");
  return inner;
}

ExpressionPtr ExpressionParser::named_value() {
  const Token token = take();
  const std::string& name = token.text;
  ExpressionPtr made = make(ExpressionKind::literal, token.line);
  if (name == "true" || name == "True" || name == "false" || name == "False") {
    made->value = Value(name == "true" || name == "True");
  } else if (name == "none" || name == "None") {
    made->value = Value(nullptr);
  } else {
    made->kind = ExpressionKind::name;
    made->word = name;
  }
  return made;
}

ExpressionPtr ExpressionParser::number() {
  const Token token = take();
  ExpressionPtr made = make(ExpressionKind::literal, token.line);
  const std::string& digits = token.text;
  if (token.kind == TokenKind::real) {
    double real = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), real);
    made->value = Value(real);
    return made;
  }
  const bool prefixed = digits.size() > 2 && digits[0] == '0' && digits[1] > '9';
  const int base = !prefixed ? 10 : (digits[1] | 0x20) == 'x' ? 16 : (digits[1] | 0x20) == 'o' ? 8 : 2;
  std::int64_t whole = 0;
  const auto [end, error] =
      std::from_chars(digits.data() + (prefixed ? 2 : 0), digits.data() + digits.size(), whole, base);
  if (error != std::errc{}) fail_syntax(token.line, "the number {} is too large", digits);
  made->value = Value(whole);
  return made;
}

ExpressionPtr ExpressionParser::list() {
  ExpressionPtr made = make(ExpressionKind::list, take().line);
  while (!take_sign("]")) {
    if (!made->parts.empty()) require_sign(",");
    if (take_sign("]")) break;
    add(*made, expression());
  }
  return made;
}

ExpressionPtr ExpressionParser::dict() {
  ExpressionPtr made = make(ExpressionKind::dict, take().line);
  while (!take_sign("}")) {
    if (!made->parts.empty()) require_sign(",");
    if (take_sign("}")) break;
    add(*made, expression());
    require_sign(":");
    add(*made, expression());
  }
  return made;
}

ExpressionPtr ExpressionParser::postfix(ExpressionPtr value) {
  for (;;) {
    if (at_sign(".") || at_sign("[")) {
      value = subscript(std::move(value));
    } else if (at_sign("(")) {
      ExpressionPtr call = make(ExpressionKind::call, now().line);
      add(*call, std::move(value));
      arguments(*call);
      value = std::move(call);
    } else {
      return value;
    }
  }
}

ExpressionPtr ExpressionParser::filters_and_tests(ExpressionPtr value) {
  for (;;) {
    if (at_sign("|")) {
      take();
      value = one_filter(std::move(value));
    } else if (at_name("is")) {
      value = test(std::move(value));
    } else if (at_sign("(")) {
      ExpressionPtr call = make(ExpressionKind::call, now().line);
      add(*call, std::move(value));
      arguments(*call);
      value = std::move(call);
    } else {
      return value;
    }
  }
}

ExpressionPtr ExpressionParser::filters(ExpressionPtr value) {
  if (!value) value = one_filter(nullptr);
  while (take_sign("|")) value = one_filter(std::move(value));
  return value;
}

ExpressionPtr ExpressionParser::subscript(ExpressionPtr value) {
  const Token sign = take();
  if (sign.text == ".") {
    if (now().kind == TokenKind::integer) {
      ExpressionPtr made = make(ExpressionKind::item, sign.line);
      add(*made, std::move(value));
      add(*made, number());
      return made;
    }
    ExpressionPtr made = make(ExpressionKind::member, sign.line, require_name("the name of a member"));
    add(*made, std::move(value));
    return made;
  }
  ExpressionPtr made = make(ExpressionKind::item, sign.line);
  add(*made, std::move(value));
  add(*made, at_sign(":") ? nullptr : expression());
  if (at_sign(",")) fail_syntax(now().line, "several subscripts are not read");
  if (at_sign(":")) {
    made->kind = ExpressionKind::slice;
    while (made->parts.size() < 4 && take_sign(":")) add(*made, at_sign(":") || at_sign("]") ? nullptr : expression());
    made->parts.resize(4);
  }
  require_sign("]");
  return made;
}

ExpressionPtr ExpressionParser::one_filter(ExpressionPtr value) {
  const int line = now().line;
  ExpressionPtr made = make(ExpressionKind::filter, line, require_name("the name of a filter"));
  add(*made, std::move(value));
  if (at_sign("(")) arguments(*made);
  return made;
}

bool ExpressionParser::begins_argument_of_test() const {
  switch (now().kind) {
    case TokenKind::name: return now().text != "else" && now().text != "or" && now().text != "and";
    case TokenKind::text:
    case TokenKind::integer:
    case TokenKind::real: return true;
    default: return at_sign("[") || at_sign("{");
  }
}

ExpressionPtr ExpressionParser::test(ExpressionPtr value) {
  const int line = take().line;
  const bool opposite = take_name("not");
  ExpressionPtr made = make(ExpressionKind::test, line, require_name("the name of a test"));
  add(*made, std::move(value));
  if (at_sign("(")) {
    arguments(*made);
  } else if (begins_argument_of_test()) {
    if (at_name("is")) fail_syntax(now().line, "tests cannot be chained by 'is'");
    made->arguments.push_back(postfix(primary()));
  }
  if (!opposite) return made;
  ExpressionPtr negated = make(ExpressionKind::unary, line, "not");
  add(*negated, std::move(made));
  return negated;
}

void ExpressionParser::arguments(Expression& call) {
  require_sign("(");
  bool first = true;
  while (!take_sign(")")) {
    if (!first) require_sign(",");
    first = false;
    if (take_sign(")")) break;
    if (at_sign("*") || at_sign("**")) fail_syntax(now().line, "'{}' before an argument is not read", now().text);
    if (now().kind == TokenKind::name && ahead().kind == TokenKind::sign && ahead().text == "=") {
      std::string name = take().text;
      take();
      call.named.emplace_back(std::move(name), expression());
    } else {
      if (!call.named.empty()) fail_syntax(now().line, "an argument without a name follows one with a name");
      call.arguments.push_back(expression());
    }
  }
}

}  // namespace comera::data::jinja
