// Functions that coordinate the live line of lib/core/terminal/log.h with other output.
#pragma once

#include <string_view>

namespace comera {

// Writes to stdout and flushes. Returns false and sets errno on failure. On a terminal it first erases the live line,
// which stays off until the text ends with a line end, and control characters of the text become visible text: a model
// may generate any of them.
bool write_stdout(std::string_view text);

double last_message_seconds();  // wall_seconds() of the last message shown; 0 if none was

}  // namespace comera
