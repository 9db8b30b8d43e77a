#include "lib/io/json.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <ostream>

#include "lib/core/error.h"

namespace comera::io {
namespace {

constexpr double past_integers = 9223372036854775808.0, past_naturals = 18446744073709551616.0;  // 2^63, 2^64

}  // namespace

// Members in their order, and an index once they are many.
struct Json::Object {
  static constexpr std::size_t few = 16, nothing = SIZE_MAX;

  std::vector<JsonMember> members;
  std::vector<std::size_t> slots;  // places in `members` plus 1, by hash, with linear probing; 0 is free

  std::size_t find(std::string_view key) const {
    if (slots.empty()) {
      for (std::size_t i = 0; i < members.size(); ++i)
        if (members[i].key == key) return i;
      return nothing;
    }
    for (std::size_t slot = slot_of(key);; slot = (slot + 1) & (slots.size() - 1)) {
      if (slots[slot] == 0) return nothing;
      if (members[slots[slot] - 1].key == key) return slots[slot] - 1;
    }
  }

  Json& append(std::string&& key, Json&& value) {
    members.push_back({std::move(key), std::move(value)});
    if (members.size() * 2 > slots.size())
      index();
    else
      enter(members.size() - 1);
    return members.back().value;
  }

  void index() {
    slots.clear();
    if (members.size() <= few) return;
    std::size_t size = 4 * few;
    while (size < 3 * members.size()) size *= 2;
    slots.resize(size);
    for (std::size_t i = 0; i < members.size(); ++i) enter(i);
  }

 private:
  std::size_t slot_of(std::string_view key) const { return std::hash<std::string_view>()(key) & (slots.size() - 1); }
  void enter(std::size_t place) {
    std::size_t slot = slot_of(members[place].key);
    while (slots[slot] != 0) slot = (slot + 1) & (slots.size() - 1);
    slots[slot] = place + 1;
  }
};

Json::Json(std::string text) : kind_(Kind::string) { value_.string = new std::string(std::move(text)); }

Json::Json(List list) {
  const bool members = std::all_of(list.begin(), list.end(), [](const Json& pair) {
    return pair.is_array() && pair.size() == 2 && pair.element(0).is_string();
  });
  *this = members ? object(list) : array(list);
}

Json::Json(const Json& other) : value_(other.value_) {
  if (other.kind_ == Kind::string) value_.string = new std::string(*other.value_.string);
  if (other.kind_ == Kind::array) value_.array = new std::vector<Json>(*other.value_.array);
  if (other.kind_ == Kind::object) value_.object = new Object(*other.value_.object);
  kind_ = other.kind_;
}

Json& Json::operator=(const Json& other) {
  if (this != &other) *this = Json(other);
  return *this;
}

// The old value is destroyed last, because `other` may lie in it.
Json& Json::operator=(Json&& other) noexcept {
  Json taken(std::move(other));
  std::swap(kind_, taken.kind_);
  std::swap(value_, taken.value_);
  return *this;
}

void Json::destroy() noexcept {
  if (kind_ == Kind::string) delete value_.string;
  if (kind_ == Kind::array) delete value_.array;
  if (kind_ == Kind::object) delete value_.object;
}

Json Json::array(List list) {
  Json json;
  json.value_.array = new std::vector<Json>(list);
  json.kind_ = Kind::array;
  return json;
}

Json Json::object(List list) {
  Json json;
  json.become_object();
  for (const Json& pair : list) json[pair.element(0).text()] = pair.element(1);
  return json;
}

const char* Json::type_name() const {
  constexpr const char* names[] = {"null", "boolean", "number", "number", "number", "string", "array", "object"};
  return names[static_cast<std::size_t>(kind_)];
}

void Json::become_array() {
  if (is_null()) *this = array();
  if (!is_array()) fail_wanted("an array");
}

void Json::become_object() {
  if (is_null()) {
    value_.object = new Object;
    kind_ = Kind::object;
  }
  if (!is_object()) fail_wanted("an object");
}

void Json::fail_wanted(const char* what) const {
  throw JsonError(fmt::format("{} was wanted, {} came", what, type_name()));
}

void Json::fail_range() const { throw JsonError(fmt::format("{} is no whole number of the wanted range", dump())); }

bool Json::is_negative() const { return kind_ == Kind::integer && static_cast<std::int64_t>(value_.whole) < 0; }

bool Json::boolean() const {
  if (!is_boolean()) fail_wanted("true or false");
  return value_.boolean;
}

std::int64_t Json::integer(std::int64_t least, std::int64_t most) const {
  if (!is_number()) fail_wanted("a number");
  std::int64_t value = 0;
  bool fits = false;
  if (kind_ == Kind::real) {
    fits = value_.real >= -past_integers && value_.real < past_integers && std::trunc(value_.real) == value_.real;
    if (fits) value = static_cast<std::int64_t>(value_.real);
  } else {
    value = static_cast<std::int64_t>(value_.whole);
    fits = kind_ == Kind::integer || value >= 0;
  }
  if (!fits || value < least || value > most) fail_range();
  return value;
}

std::uint64_t Json::natural(std::uint64_t most) const {
  if (!is_number()) fail_wanted("a number");
  std::uint64_t value = 0;
  bool fits = false;
  if (kind_ == Kind::real) {
    fits = value_.real >= 0 && value_.real < past_naturals && std::trunc(value_.real) == value_.real;
    if (fits) value = static_cast<std::uint64_t>(value_.real);
  } else {
    value = value_.whole;
    fits = !is_negative();
  }
  if (!fits || value > most) fail_range();
  return value;
}

double Json::real() const {
  if (!is_number()) fail_wanted("a number");
  if (kind_ == Kind::integer) return static_cast<double>(static_cast<std::int64_t>(value_.whole));
  return kind_ == Kind::natural ? static_cast<double>(value_.whole) : value_.real;
}

const std::string& Json::text() const {
  if (!is_string()) fail_wanted("a string");
  return *value_.string;
}

const std::vector<Json>& Json::elements() const {
  if (!is_array()) fail_wanted("an array");
  return *value_.array;
}

std::size_t Json::size() const {
  if (is_array()) return value_.array->size();
  if (is_object()) return value_.object->members.size();
  return is_null() ? 0 : 1;
}

Json& Json::operator[](std::string_view key) {
  become_object();
  const std::size_t found = value_.object->find(key);
  return found == Object::nothing ? value_.object->append(std::string(key), Json())
                                  : value_.object->members[found].value;
}

const Json& Json::at(std::string_view key) const {
  const Json* found = member_of_object(key);
  if (!found) throw JsonError(fmt::format("the key \"{}\" is missing", key));
  return *found;
}

Json& Json::at(std::string_view key) { return const_cast<Json&>(std::as_const(*this).at(key)); }

const Json& Json::element(std::size_t index) const {
  const std::vector<Json>& all = elements();
  if (index >= all.size())
    throw JsonError(fmt::format("the element {} of an array of {} is missing", index, all.size()));
  return all[index];
}

Json& Json::element(std::size_t index) { return const_cast<Json&>(std::as_const(*this).element(index)); }

const Json& Json::front() const {
  if (!is_array() && !is_object()) return *this;
  if (empty()) throw JsonError("the first element is missing");
  return *begin();
}

const Json& Json::back() const {
  if (!is_array() && !is_object()) return *this;
  if (empty()) throw JsonError("the last element is missing");
  return is_array() ? value_.array->back() : value_.object->members.back().value;
}

Json& Json::back() { return const_cast<Json&>(std::as_const(*this).back()); }

const Json* Json::member(std::string_view key) const {
  if (!is_object()) return nullptr;
  const std::size_t found = value_.object->find(key);
  return found == Object::nothing ? nullptr : &value_.object->members[found].value;
}

const Json* Json::member_of_object(std::string_view key) const {
  if (!is_object()) fail_wanted("an object");
  return member(key);
}

Json::iterator Json::find(std::string_view key) {
  const std::size_t found = is_object() ? value_.object->find(key) : Object::nothing;
  return found == Object::nothing ? end() : iterator(nullptr, value_.object->members.data() + found);
}

Json::const_iterator Json::find(std::string_view key) const {
  const std::size_t found = is_object() ? value_.object->find(key) : Object::nothing;
  return found == Object::nothing ? end() : const_iterator(nullptr, value_.object->members.data() + found);
}

Json::iterator Json::begin() {
  if (is_array()) return {value_.array->data(), nullptr};
  if (is_object()) return {nullptr, value_.object->members.data()};
  if (!is_null()) fail_wanted("an array or an object");
  return {};
}

Json::iterator Json::end() {
  if (is_array()) return {value_.array->data() + value_.array->size(), nullptr};
  if (is_object()) return {nullptr, value_.object->members.data() + value_.object->members.size()};
  return {};
}

Json::const_iterator Json::begin() const {
  if (is_array()) return {value_.array->data(), nullptr};
  if (is_object()) return {nullptr, value_.object->members.data()};
  if (!is_null()) fail_wanted("an array or an object");
  return {};
}

Json::const_iterator Json::end() const {
  if (is_array()) return {value_.array->data() + value_.array->size(), nullptr};
  if (is_object()) return {nullptr, value_.object->members.data() + value_.object->members.size()};
  return {};
}

JsonItems<Json, JsonMember> Json::items() {
  if (is_null()) return {nullptr, nullptr};
  if (!is_object()) fail_wanted("an object");
  std::vector<JsonMember>& members = value_.object->members;
  return {members.data(), members.data() + members.size()};
}

JsonItems<const Json, const JsonMember> Json::items() const {
  if (is_null()) return {nullptr, nullptr};
  return items_of_object();
}

JsonItems<const Json, const JsonMember> Json::items_of_object() const {
  if (!is_object()) fail_wanted("an object");
  const std::vector<JsonMember>& members = value_.object->members;
  return {members.data(), members.data() + members.size()};
}

void Json::push_back(Json value) {
  become_array();
  value_.array->push_back(std::move(value));
}

void Json::append_member(std::string key, Json value) {
  become_object();
  value_.object->append(std::move(key), std::move(value));
}

void Json::update(const Json& object) {
  become_object();
  for (const auto& [key, value] : object.items_of_object()) (*this)[key] = value;
}

std::size_t Json::erase(std::string_view key) {
  if (!is_object()) fail_wanted("an object");
  const std::size_t found = value_.object->find(key);
  if (found == Object::nothing) return 0;
  value_.object->members.erase(value_.object->members.begin() + static_cast<std::ptrdiff_t>(found));
  value_.object->index();
  return 1;
}

std::partial_ordering Json::order(const Json& other) const {
  if (!is_number() || !other.is_number()) (is_number() ? other : *this).fail_wanted("a number");
  if (is_number_float() || other.is_number_float()) return real() <=> other.real();
  if (is_negative() != other.is_negative()) return other.is_negative() <=> is_negative();
  return value_.whole <=> other.value_.whole;
}

bool Json::equals(const Json& other) const {
  if (is_number() && other.is_number()) return std::is_eq(order(other));
  if (kind_ != other.kind_) return false;
  if (is_boolean()) return value_.boolean == other.value_.boolean;
  if (is_string()) return *value_.string == *other.value_.string;
  if (is_array()) return *value_.array == *other.value_.array;
  if (!is_object()) return true;
  const std::vector<JsonMember>&a = value_.object->members, &b = other.value_.object->members;
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const JsonMember& left, const JsonMember& right) {
    return left.key == right.key && left.value.equals(right.value);
  });
}

std::ostream& Json::print(std::ostream& out) const { return out << dump(-1, BadText::replace); }

Json with_sorted_keys(const Json& json) {
  if (!json.is_array() && !json.is_object()) return json;
  if (json.is_array()) {
    Json sorted = Json::array();
    for (const Json& element : json) sorted.push_back(with_sorted_keys(element));
    return sorted;
  }
  std::vector<std::pair<std::string_view, const Json*>> members;
  for (const auto& [key, value] : json.items()) members.emplace_back(key, &value);
  std::sort(members.begin(), members.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  Json sorted = Json::object();
  for (const auto& [key, value] : members) sorted.append_member(std::string(key), with_sorted_keys(*value));
  return sorted;
}

}  // namespace comera::io
