// The live line of lib/core/log.h beside other output.
#pragma once

#include <string_view>

namespace comera {

// To stdout, at once; false and errno where that cannot be written. On a terminal the live line goes away first, and
// stays away while the text ends in the middle of a line.
bool write_stdout(std::string_view text);

double last_message_seconds();  // wall_seconds() when a message was last shown; 0: none was

}  // namespace comera
