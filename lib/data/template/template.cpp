#include "lib/data/template/template.h"

#include <algorithm>

#include "lib/core/error.h"
#include "lib/data/template/interpreter.h"
#include "lib/data/template/lexer.h"
#include "lib/data/tokenizer/unicode.h"

namespace comera::data::jinja {
namespace {

bool has_generation(const Body& body) {
  return std::any_of(body.begin(), body.end(), [](const StatementPtr& statement) {
    const bool inside = std::any_of(statement->branches.begin(), statement->branches.end(),
                                    [](const Branch& branch) { return has_generation(branch.body); });
    return statement->kind == StatementKind::generation || inside || has_generation(statement->body) ||
           has_generation(statement->otherwise);
  });
}

}  // namespace

Template::Template(std::string source, std::string place) : place_(std::move(place)) {
  if (source.size() > largest)
    fail_input("{}: the chat template has {} bytes; at most {} are read", place_, source.size(), largest);
  if (const std::size_t at = find_invalid_utf8(source); at != std::string::npos)
    fail_input("{}: byte {} of the chat template is no UTF-8", place_, at);
  try {
    body_ = std::make_shared<const Body>(parse_template(source));
  } catch (const SyntaxError& error) {
    fail_input("{}: line {} of the chat template: {}", place_, error.line(), error.what());
  } catch (const TemplateError& error) {
    fail_input("{}: the chat template {}", place_, error.what());
  }
  marks_generation_ = has_generation(*body_);
}

Rendered Template::render(const Members& variables, std::time_t now, const Limits& limits) const {
  Interpreter interpreter(variables, now, limits);
  try {
    interpreter.run(*body_);
  } catch (const TemplateError& error) {
    fail_input("{}: line {} of the chat template: {}", place_, interpreter.line(), error.what());
  }
  return {interpreter.text(), interpreter.generated()};
}

}  // namespace comera::data::jinja
