// Reads integers of a checkpoint's JSON.
#pragma once

#include <cstdint>
#include <limits>

#include "lib/core/error.h"
#include "lib/io/json.h"

namespace comera::train {

// Throws InputError for anything else: the library would convert 1e300 and 2^63 silently.
inline std::int64_t whole_number(const io::Json& json) {
  constexpr std::size_t longest_shown = 40;
  if (!json.is_number_integer() ||
      (json.is_number_unsigned() && json.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max()))
    fail_input("a whole number was wanted, {} came", json.dump().substr(0, longest_shown));
  return json.get<std::int64_t>();
}

}  // namespace comera::train
