#include "lib/data/template/interpreter.h"

#include <algorithm>

#include "lib/data/template/operations.h"

namespace comera::data::jinja {

const Value* Scope::find(std::string_view name) const {
  for (const Scope* scope = this; scope; scope = scope->outer.get())
    if (const auto found = scope->values.find(name); found != scope->values.end()) return &found->second;
  return nullptr;
}

std::vector<std::optional<Value>> Arguments::bound(std::initializer_list<std::string_view> names) const {
  if (placed.size() > names.size())
    fail_template("takes {} arguments at most, is given {}", names.size(), placed.size());
  std::vector<std::optional<Value>> values(placed.begin(), placed.end());
  values.resize(names.size());
  for (const auto& [name, value] : named) {
    const auto at = std::find(names.begin(), names.end(), std::string_view(name));
    if (at == names.end()) fail_template("there is no argument '{}' here", name);
    std::optional<Value>& target = values[static_cast<std::size_t>(at - names.begin())];
    if (target) fail_template("the argument '{}' is given twice", name);
    target = value;
  }
  return values;
}

Interpreter::Interpreter(Members globals, std::time_t now, const Limits& limits)
    : meter_(limits), context_{meter_, now}, scope_(std::make_shared<Scope>()) {
  for (auto& [name, value] : globals) scope_->values[name] = std::move(value);
  scope_ = std::make_shared<Scope>(Scope{.outer = scope_});
}

// A macro holds the scope that holds it.
Interpreter::~Interpreter() {
  for (const std::weak_ptr<Scope>& scope : scopes_of_macros_)
    if (const auto held = scope.lock()) held->values.clear();
}

void Interpreter::run(const Body& body) { run_body(body); }

void Interpreter::write(std::string_view text) {
  meter_.append(out_->size(), text.size());
  *out_ += text;
}

Interpreter::Flow Interpreter::run_body(const Body& body) {
  const Level level(meter_);
  for (const StatementPtr& statement : body)
    if (const Flow flow = run_one(*statement); flow != Flow::next) return flow;
  return Flow::next;
}

Interpreter::Flow Interpreter::run_one(const Statement& statement) {
  meter_.step();
  line_ = statement.line;
  switch (statement.kind) {
    case StatementKind::data: write(statement.word); break;
    case StatementKind::output: write(text_of(evaluate(*statement.value), meter_)); break;
    case StatementKind::if_: return run_if(statement);
    case StatementKind::for_: return run_for(statement);
    case StatementKind::set: run_set(statement); break;
    case StatementKind::macro:
      scopes_of_macros_.push_back(scope_);
      scope_->values[statement.word] = Value(std::make_shared<const Macro>(Macro{&statement, scope_, ""}));
      break;
    case StatementKind::generation: run_generation(statement); break;
    case StatementKind::filter:
      write(text_of(filtered(*statement.value, Value(captured(statement.body))), meter_));
      break;
    case StatementKind::break_: return Flow::break_loop;
    case StatementKind::continue_: return Flow::continue_loop;
  }
  return Flow::next;
}

Interpreter::Flow Interpreter::run_if(const Statement& statement) {
  for (const Branch& branch : statement.branches)
    if (is_true(evaluate(*branch.condition))) return run_body(branch.body);
  return run_body(statement.otherwise);
}

// Sets a scope and restores the one before.
class InnerScope {
 public:
  InnerScope(std::shared_ptr<Scope>& scope, std::shared_ptr<Scope> outer) : scope_(scope), before_(scope) {
    scope_ = std::make_shared<Scope>(Scope{.outer = std::move(outer)});
  }
  explicit InnerScope(std::shared_ptr<Scope>& scope) : InnerScope(scope, scope) {}
  ~InnerScope() { scope_ = before_; }
  InnerScope(const InnerScope&) = delete;
  InnerScope& operator=(const InnerScope&) = delete;

 private:
  std::shared_ptr<Scope>& scope_;
  std::shared_ptr<Scope> before_;
};

std::vector<Value> Interpreter::loop_items(const Statement& statement) {
  std::vector<Value> items = items_of(evaluate(*statement.value), meter_);
  if (!statement.condition) return items;
  std::vector<Value> kept;
  for (const Value& item : items) {
    const InnerScope inner(scope_);
    assign(statement.names, item);
    if (is_true(evaluate(*statement.condition))) kept.push_back(item);
  }
  return kept;
}

Interpreter::Flow Interpreter::run_for(const Statement& statement) {
  const auto loop = std::make_shared<LoopState>(LoopState{.items = loop_items(statement)});
  if (loop->items.empty()) {
    const InnerScope inner(scope_);
    return run_body(statement.otherwise);
  }
  for (loop->index = 0; loop->index < loop->items.size(); ++loop->index) {
    meter_.step();
    const InnerScope inner(scope_);
    scope_->values["loop"] = Value(loop);
    assign(statement.names, loop->items[loop->index]);
    if (run_body(statement.body) == Flow::break_loop) break;
  }
  return Flow::next;
}

void Interpreter::assign(const std::vector<std::string>& names, const Value& value) {
  if (names.size() == 1) {
    scope_->values[names[0]] = value;
    return;
  }
  const std::vector<Value> items = items_of(value, meter_);
  if (items.size() != names.size())
    fail_template("{} values cannot be assigned to {} names", items.size(), names.size());
  for (std::size_t i = 0; i < names.size(); ++i) scope_->values[names[i]] = items[i];
}

void Interpreter::run_set(const Statement& statement) {
  Value value;
  if (statement.body.empty() && statement.value) {
    value = evaluate(*statement.value);
  } else {
    value = Value(captured(statement.body));
    if (statement.value) value = filtered(*statement.value, std::move(value));
  }
  if (statement.word.empty()) return assign(statement.names, value);
  const Value* target = scope_->find(statement.names[0]);
  if (!target || !target->is(Type::name_space))
    fail_template("'{}' is no namespace, so its member '{}' cannot be set", statement.names[0], statement.word);
  if (!is_plain(value)) fail_template("a {} cannot be a member of a namespace", type_name(value));
  target->name_space().members[statement.word] = std::move(value);
}

std::string Interpreter::captured(const Body& body) {
  const InnerScope inner(scope_);
  std::string made;
  std::string* const before = std::exchange(out_, &made);
  run_body(body);
  out_ = before;
  return made;
}

void Interpreter::run_generation(const Statement& statement) {
  const bool counts = out_ == &text_;
  const std::size_t begin = text_.size();
  write(captured(statement.body));
  if (counts) generated_.push_back({begin, text_.size()});
}

Value Interpreter::call_macro(const Macro& macro, const Arguments& arguments) {
  const Statement& statement = *macro.statement;
  if (arguments.placed.size() > statement.names.size())
    fail_template("the macro {} takes {} arguments, is given {}", statement.word, statement.names.size(),
                  arguments.placed.size());
  const Level level(meter_);
  const InnerScope inner(scope_, macro.scope);
  std::vector<std::optional<Value>> given(arguments.placed.begin(), arguments.placed.end());
  given.resize(statement.names.size());
  for (const auto& [name, value] : arguments.named) {
    const auto at = std::find(statement.names.begin(), statement.names.end(), name);
    if (at == statement.names.end()) fail_template("the macro {} has no argument '{}'", statement.word, name);
    given[static_cast<std::size_t>(at - statement.names.begin())] = value;
  }
  const std::size_t required = statement.names.size() - statement.defaults.size();
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (!given[i])
      given[i] = i < required ? Value::undefined(statement.names[i]) : evaluate(*statement.defaults[i - required]);
    scope_->values[statement.names[i]] = *given[i];
  }
  std::string made;
  std::string* const before = std::exchange(out_, &made);
  run_body(statement.body);
  out_ = before;
  return made;
}

}  // namespace comera::data::jinja
