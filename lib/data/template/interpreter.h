// Runs the tree of a template.
#pragma once

#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/data/template/syntax.h"
#include "lib/data/template/value.h"
#include "lib/data/tokenizer/pipeline/aligned_text.h"

namespace comera::data::jinja {

struct Scope {
  std::map<std::string, Value, std::less<>> values = {};
  std::shared_ptr<Scope> outer = {};

  const Value* find(std::string_view name) const;
};

// What can be called: a macro of the template, or a function by name.
struct Macro {
  const Statement* statement = nullptr;
  std::shared_ptr<Scope> scope = {};
  std::string function = {};
};

// The variable `loop`.
struct LoopState {
  std::vector<Value> items = {};
  std::size_t index = 0;
  std::optional<Value> compared = {};  // by loop.changed()
};

// Arguments of a call, a filter or a test.
struct Arguments {
  std::vector<Value> placed = {};
  std::vector<std::pair<std::string, Value>> named = {};

  // In the order of `names`, none where left out. TemplateError for a name that is not among them, or too many.
  std::vector<std::optional<Value>> bound(std::initializer_list<std::string_view> names) const;
};

// What filters, tests, methods and functions need beside their arguments.
struct Context {
  Meter& meter;
  std::time_t now;
  int depth = 0;  // filters that call filters
};

class Interpreter {
 public:
  Interpreter(Members globals, std::time_t now, const Limits& limits);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  // Appends to text() and, for parts within {% generation %}, to generated().
  void run(const Body& body);

  const std::string& text() const { return text_; }
  const std::vector<Span>& generated() const { return generated_; }
  int line() const { return line_; }  // of what ran last, for messages

 private:
  enum class Flow : std::uint8_t { next, break_loop, continue_loop };

  Flow run_body(const Body& body);
  Flow run_one(const Statement& statement);
  Flow run_if(const Statement& statement);
  Flow run_for(const Statement& statement);
  void run_set(const Statement& statement);
  void run_generation(const Statement& statement);
  void write(std::string_view text);
  // What the body writes, in a scope of its own.
  std::string captured(const Body& body);
  void assign(const std::vector<std::string>& names, const Value& value);
  std::vector<Value> loop_items(const Statement& statement);

  Value evaluate(const Expression& expression);
  Value evaluate_unary(const Expression& expression);
  Value evaluate_binary(const Expression& expression);
  Value evaluate_comparison(const Expression& expression);
  Value evaluate_condition(const Expression& expression);
  Value evaluate_dict(const Expression& expression);
  Value evaluate_slice(const Expression& expression);
  Value evaluate_call(const Expression& expression);
  Value evaluate_filter(const Expression& expression);
  Value evaluate_parts(const Expression& expression);
  Value name(const std::string& word) const;
  Value call(const Value& callee, const Arguments& arguments);
  Value call_macro(const Macro& macro, const Arguments& arguments);
  Value filtered(const Expression& filters, Value value);
  Arguments arguments_of(const Expression& expression);

  Meter meter_;
  Context context_;
  std::shared_ptr<Scope> scope_;
  std::vector<std::weak_ptr<Scope>> scopes_of_macros_;
  std::string text_;
  std::string* out_ = &text_;
  std::vector<Span> generated_;
  int line_ = 1;
  std::optional<Value> filter_input_;  // of a filter without a value
};

}  // namespace comera::data::jinja
