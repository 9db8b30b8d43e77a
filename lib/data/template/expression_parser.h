// Expressions of the template language, by the precedence of Jinja's parser.
#pragma once

#include <string_view>
#include <vector>

#include "lib/data/template/lexer.h"
#include "lib/data/template/syntax.h"

namespace comera::data::jinja {

class ExpressionParser {
 public:
  explicit ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  ExpressionPtr expression();  // with `a if b else c`
  // One expression, or several with commas, which are a tuple.
  ExpressionPtr tuple(bool with_condition);
  // Filters behind a word that needs no value, as in {% filter trim %} and {% set x | trim %}.
  ExpressionPtr filters(ExpressionPtr value);

 protected:
  const Token& now() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token take() { return at_ + 1 < tokens_.size() ? tokens_[at_++] : tokens_[at_]; }
  bool at_sign(std::string_view sign) const { return now().kind == TokenKind::sign && now().text == sign; }
  bool at_name(std::string_view name) const { return now().kind == TokenKind::name && now().text == name; }
  bool take_sign(std::string_view sign);
  bool take_name(std::string_view name);
  void require_sign(std::string_view sign);
  std::string require_name(const char* what);
  // Ends with what was expected and what stands there.
  [[noreturn]] void fail_here(std::string_view wanted) const;

  Meter nesting_;

 private:
  ExpressionPtr make(ExpressionKind kind, int line, std::string word = "") const;
  void add(Expression& to, ExpressionPtr part) const;  // bounds the depth of the tree
  ExpressionPtr binary(std::string word, ExpressionPtr left, ExpressionPtr right, int line) const;
  ExpressionPtr any_of();
  ExpressionPtr all_of();
  ExpressionPtr negation();
  ExpressionPtr comparison();
  ExpressionPtr sum();
  ExpressionPtr concatenation();
  ExpressionPtr product();
  ExpressionPtr power();
  ExpressionPtr unary(bool with_filters);
  ExpressionPtr primary();
  ExpressionPtr named_value();
  ExpressionPtr number();
  ExpressionPtr list();
  ExpressionPtr dict();
  ExpressionPtr postfix(ExpressionPtr value);
  ExpressionPtr filters_and_tests(ExpressionPtr value);
  ExpressionPtr subscript(ExpressionPtr value);
  ExpressionPtr one_filter(ExpressionPtr value);
  ExpressionPtr test(ExpressionPtr value);
  bool begins_argument_of_test() const;
  bool at_comparison() const;
  void arguments(Expression& call);

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
};

}  // namespace comera::data::jinja
