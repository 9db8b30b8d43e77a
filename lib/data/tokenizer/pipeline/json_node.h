// A value of a JSON file together with its place, so that every message can name it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "lib/core/error.h"
#include "lib/io/json.h"

namespace comera::data {

class JsonNode {
 public:
  // `place` begins messages, as "[tokenizer] DIR/tokenizer.json: model".
  JsonNode(const io::Json& json, std::string place) : json_(&json), place_(std::move(place)) {}

  const std::string& place() const { return place_; }
  const io::Json& json() const { return *json_; }

  // The member `key`; an error if it is missing or null.
  JsonNode at(const char* key) const;
  // None if it is missing or null.
  std::optional<JsonNode> find(const char* key) const;
  void for_each_item(const std::function<void(const JsonNode&)>& visit) const;

  std::string text() const;
  bool flag() const;
  std::int64_t integer() const;
  std::string text_or(const char* key, const std::string& otherwise) const;
  bool flag_or(const char* key, bool otherwise) const;
  std::int64_t integer_or(const char* key, std::int64_t otherwise) const;
  // The member "type".
  std::string type() const { return at("type").text(); }

  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    fail_input("{}: {}", place_, fmt::format(format, std::forward<Args>(args)...));
  }
  [[noreturn]] void fail_unknown_type(const char* what, const char* known) const;

 private:
  const io::Json* json_;
  std::string place_;
};

}  // namespace comera::data
