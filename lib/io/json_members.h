// Builds large JSON objects.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "lib/io/json.h"

namespace comera::io {

// Adds a member at the end of an object. The library's operator[] compares the key with all keys before it, which is
// quadratic for objects that keep their order. The key must be new.
inline void append_member(Json& object, std::string key, Json value) {
  std::vector<std::pair<const std::string, Json>>& members = object.get_ref<Json::object_t&>();
  members.emplace_back(std::move(key), std::move(value));
}

}  // namespace comera::io
