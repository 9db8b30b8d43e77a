// Filters and tests by name.
#pragma once

#include <string>

#include "lib/data/template/interpreter.h"

namespace comera::data::jinja {

// value | name(...). TemplateError that names the filter if it is not known.
Value apply_filter(const std::string& name, const Value& value, const Arguments& arguments, Context& context);
bool is_filter(const std::string& name);

// value is name(...)
bool apply_test(const std::string& name, const Value& value, const Arguments& arguments, Context& context);

// The filter tojson of `transformers`: Python's json.dumps().
Value to_json(const Value& value, const Arguments& arguments, Context& context);

}  // namespace comera::data::jinja
