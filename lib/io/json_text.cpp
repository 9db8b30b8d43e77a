// The only file that includes the JSON library: its parser, and its formats of numbers and texts.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/io/json.h"
#include "lib/io/json_events.h"

namespace comera::io {
namespace {

// The handler of nlohmann::json::sax_parse().
class Handler {
 public:
  explicit Handler(JsonEvents& events) : events_(events) {}

  bool null() { return events_.null(); }
  bool boolean(bool value) { return events_.boolean(value); }
  bool number_integer(std::int64_t value) { return events_.integer(value); }
  bool number_unsigned(std::uint64_t value) { return events_.natural(value); }
  bool number_float(double value, const std::string& written) { return events_.real(value, written); }
  bool string(std::string& value) { return events_.string(value); }
  bool binary(nlohmann::json::binary_t& /*value*/) { return false; }
  bool start_object(std::size_t /*elements*/) { return events_.begin_object(); }
  bool start_array(std::size_t /*elements*/) { return events_.begin_array(); }
  bool end_object() { return events_.end_object(); }
  bool end_array() { return events_.end_array(); }
  bool key(std::string& name) { return events_.key(name); }
  bool parse_error(std::size_t byte, const std::string& /*token*/, const nlohmann::json::exception& error) {
    events_.failure(byte, dynamic_cast<const nlohmann::json::out_of_range*>(&error) != nullptr);
    return false;
  }

 private:
  JsonEvents& events_;
};

}  // namespace

bool read_json_events(std::string_view text, JsonEvents& events) {
  Handler handler(events);
  return nlohmann::json::sax_parse(text.begin(), text.end(), &handler);
}

// Appends a value to a text.
class JsonWriter {
 public:
  JsonWriter(int indent, Json::BadText bad_text) : indent_(indent), bad_text_(bad_text) {}

  void write(const Json& json) {
    switch (json.kind_) {
      case Json::Kind::null: out_ += "null"; break;
      case Json::Kind::boolean: out_ += json.value_.boolean ? "true" : "false"; break;
      case Json::Kind::integer: out_ += std::to_string(static_cast<std::int64_t>(json.value_.whole)); break;
      case Json::Kind::natural: out_ += std::to_string(json.value_.whole); break;
      case Json::Kind::real: out_ += nlohmann::json(json.value_.real).dump(); break;
      case Json::Kind::string: write_text(*json.value_.string); break;
      case Json::Kind::array: write_array(json); break;
      case Json::Kind::object: write_object(json); break;
    }
  }
  std::string take() { return std::move(out_); }

 private:
  void write_array(const Json& json) {
    begin('[');
    for (const Json& element : json) {
      next();
      write(element);
    }
    end(']');
  }

  void write_object(const Json& json) {
    begin('{');
    for (const auto& [key, value] : json.items()) {
      next();
      write_text(key);
      out_ += indent_ >= 0 ? ": " : ":";
      write(value);
    }
    end('}');
  }

  void write_text(const std::string& text) {
    if (std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; })) {
      out_ += '"';
      out_ += text;
      out_ += '"';
      return;
    }
    using Handling = nlohmann::json::error_handler_t;
    const Handling handling = bad_text_ == Json::BadText::replace ? Handling::replace : Handling::strict;
    try {
      out_ += nlohmann::json(text).dump(-1, ' ', false, handling);
    } catch (const nlohmann::json::exception&) {
      throw JsonError("a text is not valid UTF-8");
    }
  }

  void begin(char bracket) {
    out_ += bracket;
    ++depth_;
    first_ = true;
  }
  void next() {
    if (!first_) out_ += ',';
    first_ = false;
    new_line();
  }
  void end(char bracket) {
    --depth_;
    if (!first_) new_line();
    first_ = false;
    out_ += bracket;
  }
  void new_line() {
    if (indent_ < 0) return;
    out_ += '\n';
    out_.append(depth_ * static_cast<std::size_t>(indent_), ' ');
  }

  int indent_;
  Json::BadText bad_text_;
  std::string out_;
  std::size_t depth_ = 0;
  bool first_ = true;  // the next element is the first of its array or object
};

std::string Json::dump(int indent, BadText bad_text) const {
  JsonWriter writer(indent, bad_text);
  writer.write(*this);
  return writer.take();
}

std::string json_text(const Json& json) { return json.dump(2, Json::BadText::replace) + "\n"; }

}  // namespace comera::io
