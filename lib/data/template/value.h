// Values of the template language, as Python has them: templates are written for Jinja, which is written in Python.
// Values never change after they are made, except namespaces and loops, so copies share what they hold.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "lib/data/template/meter.h"
#include "lib/io/json.h"

namespace comera::data::jinja {

class Value;
struct Macro;      // interpreter.h
struct LoopState;  // interpreter.h

using Members = std::vector<std::pair<std::string, Value>>;

struct Undefined {
  std::string name;  // what was looked up
  bool operator==(const Undefined&) const = default;
};

struct ListBody {
  std::vector<Value> items;
  bool tuple = false;
  int depth = 1;
  bool plain = true;
};

struct DictBody {
  Members members;  // in the order of insertion
  int depth = 1;
  bool plain = true;
};

struct NamespaceBody {
  std::map<std::string, Value> members;
};

enum class Type : std::uint8_t { undefined, none, boolean, integer, real, text, list, dict, name_space, macro, loop };

class Value {
 public:
  // NOLINTBEGIN(google-explicit-constructor): numbers and texts are written where a value is wanted
  Value() : held_(Undefined{}) {}
  Value(std::nullptr_t) : held_(nullptr) {}
  Value(bool flag) : held_(flag) {}
  Value(std::int64_t number) : held_(number) {}
  Value(double number) : held_(number) {}
  Value(std::string text) : held_(std::make_shared<const std::string>(std::move(text))) {}
  Value(std::string_view text) : Value(std::string(text)) {}
  Value(const char* text) : Value(std::string(text)) {}
  Value(std::shared_ptr<NamespaceBody> body) : held_(std::move(body)) {}
  Value(std::shared_ptr<const Macro> body) : held_(std::move(body)) {}
  Value(std::shared_ptr<LoopState> body) : held_(std::move(body)) {}
  // NOLINTEND(google-explicit-constructor)

  static Value undefined(std::string name);
  // TemplateError if the values nest deeper than 100.
  static Value list(std::vector<Value> items, bool tuple = false);
  static Value dict(Members members);
  static Value of_json(const io::Json& json);

  Type type() const { return static_cast<Type>(held_.index()); }
  bool is(Type type) const { return this->type() == type; }
  bool is_number() const { return is(Type::boolean) || is(Type::integer) || is(Type::real); }
  bool is_whole() const { return is(Type::boolean) || is(Type::integer); }

  const std::string& undefined_name() const { return std::get<Undefined>(held_).name; }
  bool flag() const { return std::get<bool>(held_); }
  std::int64_t whole() const { return is(Type::boolean) ? flag() : std::get<std::int64_t>(held_); }
  double real() const { return is(Type::real) ? std::get<double>(held_) : static_cast<double>(whole()); }
  const std::string& text() const { return *std::get<std::shared_ptr<const std::string>>(held_); }
  const ListBody& list() const { return *std::get<std::shared_ptr<const ListBody>>(held_); }
  const DictBody& dict() const { return *std::get<std::shared_ptr<const DictBody>>(held_); }
  NamespaceBody& name_space() const { return *std::get<std::shared_ptr<NamespaceBody>>(held_); }
  const Macro& macro() const { return *std::get<std::shared_ptr<const Macro>>(held_); }
  LoopState& loop() const { return *std::get<std::shared_ptr<LoopState>>(held_); }
  // True if both are the same object, or equal and of a type without identity.
  bool same_as(const Value& other) const;

  // The member of a dict; null if there is none.
  const Value* find(std::string_view key, Meter& meter) const;

 private:
  std::variant<Undefined, std::nullptr_t, bool, std::int64_t, double, std::shared_ptr<const std::string>,
               std::shared_ptr<const ListBody>, std::shared_ptr<const DictBody>, std::shared_ptr<NamespaceBody>,
               std::shared_ptr<const Macro>, std::shared_ptr<LoopState>>
      held_;
};

// The name of its type in Python, for messages.
const char* type_name(const Value& value);

// False for what can change, and for what holds it. Plain values alone are put into what can change, so that nothing
// holds itself.
bool is_plain(const Value& value);

bool is_true(const Value& value);
bool equal(const Value& a, const Value& b, Meter& meter);
// TemplateError if the two have no order.
bool less(const Value& a, const Value& b, Meter& meter);

// str() and repr() of Python.
std::string text_of(const Value& value, Meter& meter);
std::string repr_of(const Value& value, Meter& meter);

}  // namespace comera::data::jinja
