// The message of a call that is refused, and of a config.json whose `comera` block is.
#pragma once

#include <string>

#include "lib/core/error.h"
#include "lib/io/tt_format.h"

namespace comera::io {

template <class Work>
std::string message(Work work) {
  try {
    work();
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

inline std::string message_for(const Json& config) {
  return message([&] { parse_comera_block(config, "config.json"); });
}

}  // namespace comera::io
