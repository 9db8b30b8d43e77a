#include "lib/core/terminal/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "lib/core/units.h"

namespace comera {
namespace {

constexpr int usual_columns = 80;

}  // namespace

int terminal_columns(int descriptor) {
  winsize size{};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const char* columns = std::getenv("COLUMNS");
  const auto number = columns ? parse_integer(columns) : std::nullopt;
  return number && *number > 0 && *number < 10000 ? static_cast<int>(*number) : usual_columns;
}

std::size_t width_of(std::string_view text) {
  const auto begins_letter = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; };
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), begins_letter));
}

std::string wrap(std::string_view text, int columns, int indent, int used) {
  std::string out;
  bool first = true;
  for (std::size_t at = 0; (at = text.find_first_not_of(' ', at)) != std::string_view::npos;) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string_view word = text.substr(at, end - at);
    const int width = static_cast<int>(width_of(word));
    if (!first && used + 1 + width > columns) {
      out.append("\n").append(static_cast<std::size_t>(indent), ' ');
      used = indent;
    } else if (!first) {
      out += ' ';
      ++used;
    }
    out += word;
    used += width;
    first = false;
    at = end;
  }
  return out;
}

}  // namespace comera
