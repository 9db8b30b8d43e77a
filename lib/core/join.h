// Lists as text: "a, b, c". In place of the formatter's own join, whose header costs half a second of compilation.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace comera {

void append_element(std::string& out, std::string_view text);
void append_element(std::string& out, std::int64_t number);
inline void append_element(std::string& out, int number) { append_element(out, std::int64_t{number}); }
void append_element(std::string& out, double number);  // as short as it reads back

template <class List>
std::string join(const List& list, std::string_view between) {
  std::string out;
  bool first = true;
  for (const auto& element : list) {
    if (!first) out += between;
    first = false;
    append_element(out, element);
  }
  return out;
}

}  // namespace comera
