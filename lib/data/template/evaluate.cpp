// Expressions, declared in interpreter.h.
#include <algorithm>

#include "lib/data/template/filters.h"
#include "lib/data/template/interpreter.h"
#include "lib/data/template/methods.h"
#include "lib/data/template/operations.h"

namespace comera::data::jinja {

Value Interpreter::evaluate(const Expression& expression) {
  meter_.step();
  line_ = expression.line;
  switch (expression.kind) {
    case ExpressionKind::literal: return expression.value;
    case ExpressionKind::name: return name(expression.word);
    case ExpressionKind::list:
    case ExpressionKind::tuple: return evaluate_parts(expression);
    case ExpressionKind::dict: return evaluate_dict(expression);
    case ExpressionKind::unary: return evaluate_unary(expression);
    case ExpressionKind::binary: return evaluate_binary(expression);
    case ExpressionKind::compare: return evaluate_comparison(expression);
    case ExpressionKind::condition: return evaluate_condition(expression);
    case ExpressionKind::member: return member_of(evaluate(*expression.parts[0]), expression.word, meter_);
    case ExpressionKind::item: {
      const Value value = evaluate(*expression.parts[0]);
      return item_of(value, evaluate(*expression.parts[1]), meter_);
    }
    case ExpressionKind::slice: return evaluate_slice(expression);
    case ExpressionKind::call: return evaluate_call(expression);
    case ExpressionKind::filter: return evaluate_filter(expression);
    case ExpressionKind::test: {
      const Value value = evaluate(*expression.parts[0]);
      return apply_test(expression.word, value, arguments_of(expression), context_);
    }
  }
  fail_template("an expression has no kind");
}

Value Interpreter::name(const std::string& word) const {
  if (const Value* found = scope_->find(word)) return *found;
  if (is_function(word)) return Value(std::make_shared<const Macro>(Macro{.function = word}));
  return Value::undefined(word);
}

Value Interpreter::evaluate_parts(const Expression& expression) {
  std::vector<Value> items;
  for (const ExpressionPtr& part : expression.parts) items.push_back(evaluate(*part));
  return Value::list(std::move(items), expression.kind == ExpressionKind::tuple);
}

Value Interpreter::evaluate_dict(const Expression& expression) {
  Members members;
  for (std::size_t i = 0; i < expression.parts.size(); i += 2) {
    const std::string key = text_required(evaluate(*expression.parts[i]), "a key of a dict");
    Value value = evaluate(*expression.parts[i + 1]);
    const auto known = std::find_if(members.begin(), members.end(), [&](const auto& one) { return one.first == key; });
    if (known != members.end())
      known->second = std::move(value);
    else
      members.emplace_back(key, std::move(value));
  }
  return Value::dict(std::move(members));
}

Value Interpreter::evaluate_unary(const Expression& expression) {
  const Value value = evaluate(*expression.parts[0]);
  if (expression.word == "not") return !is_true(value);
  require_defined(value);
  if (!value.is_number()) fail_template("'{}' before a {} has no meaning", expression.word, type_name(value));
  if (expression.word == "+") return value.is_whole() ? Value(value.whole()) : value;
  return value.is_whole() ? calculate("-", Value(std::int64_t{0}), value, meter_) : Value(-value.real());
}

Value Interpreter::evaluate_binary(const Expression& expression) {
  Value left = evaluate(*expression.parts[0]);
  if (expression.word == "and") return is_true(left) ? evaluate(*expression.parts[1]) : left;
  if (expression.word == "or") return is_true(left) ? left : evaluate(*expression.parts[1]);
  return calculate(expression.word, left, evaluate(*expression.parts[1]), meter_);
}

Value Interpreter::evaluate_comparison(const Expression& expression) {
  Value left = evaluate(*expression.parts[0]);
  for (std::size_t i = 0; i < expression.operators.size(); ++i) {
    Value right = evaluate(*expression.parts[i + 1]);
    if (!compare(expression.operators[i], left, right, meter_)) return false;
    left = std::move(right);
  }
  return true;
}

Value Interpreter::evaluate_condition(const Expression& expression) {
  if (is_true(evaluate(*expression.parts[1]))) return evaluate(*expression.parts[0]);
  return expression.parts[2] ? evaluate(*expression.parts[2]) : Value::undefined("the value of an 'if' without 'else'");
}

Value Interpreter::evaluate_slice(const Expression& expression) {
  const Value value = evaluate(*expression.parts[0]);
  std::optional<Value> bounds[3];
  for (std::size_t i = 0; i < 3; ++i)
    if (expression.parts[i + 1]) bounds[i] = evaluate(*expression.parts[i + 1]);
  return slice_of(value, bounds[0], bounds[1], bounds[2], meter_);
}

Arguments Interpreter::arguments_of(const Expression& expression) {
  Arguments arguments;
  for (const ExpressionPtr& one : expression.arguments) arguments.placed.push_back(evaluate(*one));
  for (const auto& [word, one] : expression.named) arguments.named.emplace_back(word, evaluate(*one));
  return arguments;
}

Value Interpreter::evaluate_call(const Expression& expression) {
  const Expression& callee = *expression.parts[0];
  if (callee.kind == ExpressionKind::member) {
    const Value object = evaluate(*callee.parts[0]);
    require_defined(object);
    if (is_method(object, callee.word)) return call_method(object, callee.word, arguments_of(expression), context_);
    return call(member_of(object, callee.word, meter_), arguments_of(expression));
  }
  const Value function = evaluate(callee);
  return call(function, arguments_of(expression));
}

Value Interpreter::call(const Value& callee, const Arguments& arguments) {
  require_defined(callee);
  if (!callee.is(Type::macro)) fail_template("a {} cannot be called", type_name(callee));
  const Macro& macro = callee.macro();
  return macro.statement ? call_macro(macro, arguments) : call_function(macro.function, arguments, context_);
}

Value Interpreter::filtered(const Expression& filters, Value value) {
  const auto before = std::exchange(filter_input_, std::move(value));
  Value made = evaluate(filters);
  filter_input_ = before;
  return made;
}

Value Interpreter::evaluate_filter(const Expression& expression) {
  const Value value = expression.parts[0] ? evaluate(*expression.parts[0]) : filter_input_.value_or(Value());
  return apply_filter(expression.word, value, arguments_of(expression), context_);
}

}  // namespace comera::data::jinja
