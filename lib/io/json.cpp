#include "lib/io/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <vector>

#include "lib/core/error.h"
#include "lib/core/terminal/log.h"

namespace comera::io {
namespace {

// Builds the value during parsing. The library's own builder compares every key with all keys before it, which is
// quadratic for objects that keep their order. Here a set holds the keys of an open object, and members are appended.
class Builder {
 public:
  Builder(const std::string& file_name, int max_depth)
      : file_name_(file_name), max_depth_(static_cast<std::size_t>(max_depth)) {}

  Json take() { return std::move(root_); }

  // The handler functions of nlohmann::json::sax_parse().
  bool null() { return put(nullptr); }
  bool boolean(bool value) { return put(value); }
  bool number_integer(Json::number_integer_t value) { return put(value); }
  bool number_unsigned(Json::number_unsigned_t value) { return put(value); }
  bool number_float(Json::number_float_t value, const std::string& /*text*/) { return put(value); }
  bool string(std::string& value) { return put(std::move(value)); }
  bool binary(Json::binary_t& /*value*/) { return false; }
  bool start_object(std::size_t /*elements*/) { return open(Json::object()); }
  bool start_array(std::size_t /*elements*/) { return open(Json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    if (!is_new(open_.back(), name)) fail_input("{}: key \"{}\" stands there twice", file_name_, printable(name));
    open_.back().key = std::move(name);
    return true;
  }
  [[noreturn]] bool parse_error(std::size_t byte, const std::string& /*token*/, const Json::exception& error) {
    if (dynamic_cast<const Json::out_of_range*>(&error))
      fail_input("{}: not valid JSON at byte {}: a number is too large for the format; the file is damaged", file_name_,
                 byte);
    fail_input("{}: not valid JSON at byte {}; the file is damaged or not what its name says", file_name_, byte);
  }

 private:
  struct Open {
    Json value;
    std::string key;  // key of the next member
    std::unordered_set<std::string> keys;
  };

  // Compares with all members of a small object; uses a set for a large one.
  static bool is_new(Open& open, const std::string& name) {
    constexpr std::size_t few = 16;
    const std::vector<std::pair<const std::string, Json>>& members = open.value.get_ref<Json::object_t&>();
    if (members.size() < few)
      return std::none_of(members.begin(), members.end(), [&](const auto& member) { return member.first == name; });
    if (open.keys.empty())
      for (const auto& member : members) open.keys.insert(member.first);
    return open.keys.insert(name).second;
  }

  bool put(Json&& value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (Json& inside = open_.back().value; inside.is_array()) {
      inside.get_ref<Json::array_t&>().push_back(std::move(value));
    } else {
      std::vector<std::pair<const std::string, Json>>& members = inside.get_ref<Json::object_t&>();
      members.emplace_back(std::move(open_.back().key), std::move(value));
    }
    return true;
  }

  bool open(Json&& value) {
    if (open_.size() >= max_depth_) fail_input("{}: the JSON nests deeper than {} levels", file_name_, max_depth_);
    open_.push_back({std::move(value), {}, {}});
    return true;
  }

  bool close() {
    Json value = std::move(open_.back().value);
    open_.pop_back();
    return put(std::move(value));
  }

  const std::string& file_name_;
  std::size_t max_depth_;
  std::vector<Open> open_;
  Json root_;
};

}  // namespace

Json parse_json(std::string_view text, const std::string& file_name, int max_depth) {
  Builder builder(file_name, max_depth);
  try {
    Json::sax_parse(text, &builder);
  } catch (const Json::exception& error) {
    fail_input("{}: not valid JSON: {}", file_name, printable(error.what()));
  }
  return builder.take();
}

std::string json_text(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

}  // namespace comera::io
