// The tree of a template.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/data/template/value.h"

namespace comera::data::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

enum class ExpressionKind : std::uint8_t {
  literal,
  name,       // word
  list,       // parts
  tuple,      // parts
  dict,       // parts: key, value, key, value
  unary,      // word: not, -, +
  binary,     // word: the operator, or `and`, `or`
  compare,    // parts[0] operators[0] parts[1] operators[1] ...
  condition,  // parts: value, condition, otherwise (null: undefined)
  member,     // parts[0].word
  item,       // parts[0][parts[1]]
  slice,      // parts[0][parts[1]:parts[2]:parts[3]], null where left out
  call,       // parts[0](...)
  filter,     // parts[0] | word(...); parts[0] is null in a filter without a value
  test,       // parts[0] is word(...)
};

struct Expression {
  ExpressionKind kind = ExpressionKind::literal;
  int line = 1, depth = 1;
  std::string word = {};
  Value value = {};
  std::vector<ExpressionPtr> parts = {};
  std::vector<std::string> operators = {};
  // Of calls, filters and tests.
  std::vector<ExpressionPtr> arguments = {};
  std::vector<std::pair<std::string, ExpressionPtr>> named = {};
};

struct Statement;
using StatementPtr = std::unique_ptr<Statement>;
using Body = std::vector<StatementPtr>;

enum class StatementKind : std::uint8_t {
  data,        // word
  output,      // value
  if_,         // branches, otherwise
  for_,        // names, value, condition, body, otherwise
  set,         // names, or names[0].word; value, or body with filters in `value`
  macro,       // word, names with defaults, body
  generation,  // body: what the model writes
  filter,      // value: filters without a value; body
  break_,
  continue_
};

struct Branch {
  ExpressionPtr condition;
  Body body;
};

struct Statement {
  StatementKind kind = StatementKind::data;
  int line = 1;
  std::string word = {};
  std::vector<std::string> names = {};
  std::vector<ExpressionPtr> defaults = {};  // of the last names
  ExpressionPtr value = {};
  ExpressionPtr condition = {};
  std::vector<Branch> branches = {};
  Body body = {};
  Body otherwise = {};
};

// SyntaxError for what is malformed, and for what Jinja has and this reader lacks, by its name.
Body parse_template(std::string_view source);

}  // namespace comera::data::jinja
