// Reads JSON value by value, without memory for the whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace comera::io {

// Receives the parts of a text in their order. A function that returns false ends the reading.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;

  virtual bool null() = 0;
  virtual bool boolean(bool value) = 0;
  virtual bool integer(std::int64_t value) = 0;  // below 0
  virtual bool natural(std::uint64_t value) = 0;
  virtual bool real(double value,
                    const std::string& written) = 0;  // a fraction, or an integer too large for the others
  virtual bool string(std::string& value) = 0;        // UTF-8; may be moved from
  virtual bool key(std::string& name) = 0;            // of the next value; may be moved from
  virtual bool begin_object() = 0;
  virtual bool end_object() = 0;
  virtual bool begin_array() = 0;
  virtual bool end_array() = 0;

  // The text is no JSON at a byte, counted from 1, or a number exceeds the range of a double.
  virtual void failure(std::size_t byte, bool number_too_large) = 0;
};

// False if the text is no JSON or a function returned false.
bool read_json_events(std::string_view text, JsonEvents& events);

}  // namespace comera::io
