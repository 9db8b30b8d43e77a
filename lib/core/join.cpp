#include "lib/core/join.h"

#include <fmt/core.h>

namespace comera {

void append_element(std::string& out, std::string_view text) { out += text; }
void append_element(std::string& out, std::int64_t number) { out += fmt::format("{}", number); }
void append_element(std::string& out, double number) { out += fmt::format("{}", number); }

}  // namespace comera
