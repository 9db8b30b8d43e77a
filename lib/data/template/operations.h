// Operators, members and items of values.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/data/template/value.h"

namespace comera::data::jinja {

// + - * / // % ** and ~.
Value calculate(std::string_view sign, const Value& left, const Value& right, Meter& meter);
// == != < <= > >= in, not in.
bool compare(std::string_view sign, const Value& left, const Value& right, Meter& meter);

// What a loop over the value visits: items, characters, keys.
std::vector<Value> items_of(const Value& value, Meter& meter);
std::int64_t length_of_value(const Value& value);

// value.name; undefined if there is none.
Value member_of(const Value& value, const std::string& name, Meter& meter);
// value[key]
Value item_of(const Value& value, const Value& key, Meter& meter);
// value[begin:end:step], none where left out.
Value slice_of(const Value& value, const std::optional<Value>& begin, const std::optional<Value>& end,
               const std::optional<Value>& step, Meter& meter);

// Fails if the value is undefined, as Jinja does where a value is needed.
void require_defined(const Value& value);
// A whole number, for `what`.
std::int64_t whole_of(const Value& value, std::string_view what);
const std::string& text_required(const Value& value, std::string_view what);

}  // namespace comera::data::jinja
