// Methods of values, as in text.strip(), and functions by name, as range().
#pragma once

#include <string>

#include "lib/data/template/interpreter.h"

namespace comera::data::jinja {

// True if Python's type has a method of the name. Not every one can be called here.
bool is_method(const Value& value, const std::string& name);
// TemplateError that names the method if it is not known.
Value call_method(const Value& value, const std::string& name, const Arguments& arguments, Context& context);

bool is_function(const std::string& name);
Value call_function(const std::string& name, const Arguments& arguments, Context& context);

}  // namespace comera::data::jinja
