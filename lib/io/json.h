// JSON values, and their parser for untrusted files. This header hides the JSON library, which costs seconds of
// compilation in each file that includes it: include this header instead.
#pragma once

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace comera::io {

// A value has another type than is wanted, an integer does not fit, or a key or an index is missing.
class JsonError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct JsonMember;
class Json;

// Visits the elements of an array or the values of an object, in their order.
template <class Value, class Member>
class JsonIterator {
 public:
  JsonIterator() = default;
  JsonIterator(Value* element, Member* member) : element_(element), member_(member) {}

  Value& operator*() const { return member_ ? member_->value : *element_; }
  Value* operator->() const { return &**this; }
  const std::string& key() const { return member_->key; }  // in an object only
  JsonIterator& operator++() {
    member_ ? static_cast<void>(++member_) : static_cast<void>(++element_);
    return *this;
  }
  bool operator==(const JsonIterator&) const = default;

 private:
  Value* element_ = nullptr;
  Member* member_ = nullptr;
};

// The members of an object, for `for (const auto& [key, value] : json.items())`.
template <class Value, class Member>
class JsonItems {
 public:
  struct Item {
    const std::string& key;
    Value& value;
  };
  class Place {
   public:
    explicit Place(Member* member) : member_(member) {}
    Item operator*() const { return {member_->key, member_->value}; }
    Place& operator++() { return ++member_, *this; }
    bool operator==(const Place&) const = default;

   private:
    Member* member_;
  };

  JsonItems(Member* first, Member* last) : first_(first), last_(last) {}
  Place begin() const { return Place(first_); }
  Place end() const { return Place(last_); }

 private:
  Member *first_, *last_;
};

// A list of values becomes an array, a map an object.
template <class List>
concept JsonList = requires(const List& list) {
  list.begin();
  list.end();
  requires !std::same_as<typename List::value_type, char>;  // no text
};
template <class Map>
concept JsonMap = JsonList<Map> && requires {
  typename Map::mapped_type;
};

// A value of JSON. Objects keep the order of their keys; a lookup takes constant time. Copies are deep. Functions that
// want a certain type throw JsonError for another one.
class Json {
 public:
  using iterator = JsonIterator<Json, JsonMember>;
  using const_iterator = JsonIterator<const Json, const JsonMember>;
  using List = std::initializer_list<Json>;

  // For text that is no UTF-8: throw JsonError, or write U+FFFD.
  enum class BadText : std::uint8_t { refuse, replace };

  // NOLINTBEGIN(google-explicit-constructor): numbers, texts and lists are written where a value is wanted
  Json() noexcept = default;
  Json(std::nullptr_t) noexcept {}
  template <std::same_as<bool> Flag>
  Json(Flag value) noexcept : kind_(Kind::boolean) {
    value_.boolean = value;
  }
  template <std::signed_integral Number>
  Json(Number value) noexcept : kind_(Kind::integer) {
    value_.whole = static_cast<std::uint64_t>(value);
  }
  template <std::unsigned_integral Number>
  requires(!std::same_as<Number, bool>) Json(Number value)
  noexcept : kind_(Kind::natural) { value_.whole = value; }
  template <std::floating_point Number>
  Json(Number value) noexcept : kind_(Kind::real) {
    value_.real = static_cast<double>(value);
  }
  Json(const char* text) : Json(std::string(text)) {}
  Json(std::string_view text) : Json(std::string(text)) {}
  Json(std::string text);
  // An object if each element is an array of a text and a value, otherwise an array.
  Json(List list);
  template <JsonList Values>
  Json(const Values& values) {
    if constexpr (JsonMap<Values>) {
      become_object();
      for (const auto& [key, value] : values) append_member(key, Json(value));
    } else {
      become_array();
      for (const auto& value : values) push_back(Json(value));
    }
  }
  // NOLINTEND(google-explicit-constructor)

  Json(const Json& other);
  Json(Json&& other) noexcept : kind_(other.kind_), value_(other.value_) { other.kind_ = Kind::null; }
  Json& operator=(const Json& other);
  Json& operator=(Json&& other) noexcept;
  ~Json() {
    if (kind_ >= Kind::string) destroy();
  }

  static Json array(List list = {});
  static Json object(List list = {});
  static Json parse(std::string_view text);  // as parse_json() of "the JSON text"

  bool is_null() const { return kind_ == Kind::null; }
  bool is_boolean() const { return kind_ == Kind::boolean; }
  bool is_number() const { return is_number_integer() || is_number_float(); }
  bool is_number_integer() const { return kind_ == Kind::integer || kind_ == Kind::natural; }
  bool is_number_unsigned() const { return kind_ == Kind::natural; }  // as the parser reads a number without a sign
  bool is_number_float() const { return kind_ == Kind::real; }
  bool is_string() const { return kind_ == Kind::string; }
  bool is_array() const { return kind_ == Kind::array; }
  bool is_object() const { return kind_ == Kind::object; }
  const char* type_name() const;  // null, boolean, number, string, array or object

  // bool, a number, std::string, Json, a list such as std::vector, or a map. A whole number must fit; a number with a
  // fraction is no whole one; a boolean is no number.
  template <class T>
  T get() const {
    if constexpr (std::same_as<T, bool>) {
      return boolean();
    } else if constexpr (std::signed_integral<T>) {
      return static_cast<T>(integer(std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
    } else if constexpr (std::unsigned_integral<T>) {
      return static_cast<T>(natural(std::numeric_limits<T>::max()));
    } else if constexpr (std::floating_point<T>) {
      return static_cast<T>(real());
    } else if constexpr (std::same_as<T, Json>) {
      return *this;
    } else if constexpr (JsonMap<T>) {
      T map;
      for (const auto& [key, value] : items_of_object())
        map.emplace(key, value.template get<typename T::mapped_type>());
      return map;
    } else if constexpr (JsonList<T>) {
      T list;
      for (const Json& value : elements()) list.push_back(value.get<typename T::value_type>());
      return list;
    } else {
      return T(text());
    }
  }
  template <class T>
  void get_to(T& value) const {
    value = get<T>();
  }
  template <std::same_as<const std::string&> Text>
  Text get_ref() const {
    return text();
  }

  // The size of a null is 0, that of another single value 1.
  std::size_t size() const;
  bool empty() const { return size() == 0; }

  // A const value has no member or element that is missing; another one gets the member, a null becomes an object.
  Json& operator[](std::string_view key);
  const Json& operator[](std::string_view key) const { return at(key); }
  template <std::integral Index>
  Json& operator[](Index index) {
    return element(static_cast<std::size_t>(index));
  }
  template <std::integral Index>
  const Json& operator[](Index index) const {
    return element(static_cast<std::size_t>(index));
  }
  Json& at(std::string_view key);
  const Json& at(std::string_view key) const;
  template <std::integral Index>
  const Json& at(Index index) const {
    return element(static_cast<std::size_t>(index));
  }
  template <std::integral Index>
  Json& at(Index index) {
    return element(static_cast<std::size_t>(index));
  }
  const Json& front() const;
  const Json& back() const;
  Json& back();

  // Finds nothing in what is no object.
  iterator find(std::string_view key);
  const_iterator find(std::string_view key) const;
  bool contains(std::string_view key) const { return member(key) != nullptr; }
  // The member of an object, or `otherwise` without one.
  template <class T>
  T value(std::string_view key, const T& otherwise) const {
    const Json* found = member_of_object(key);
    return found ? found->get<T>() : otherwise;
  }
  std::string value(std::string_view key, const char* otherwise) const { return value(key, std::string(otherwise)); }

  // A null has no elements. begin() and items() refuse a single value; items() refuses an array too.
  iterator begin();
  iterator end();
  const_iterator begin() const;
  const_iterator end() const;
  JsonItems<Json, JsonMember> items();
  JsonItems<const Json, const JsonMember> items() const;

  // A null becomes an array or an object first.
  void push_back(Json value);
  void append_member(std::string key, Json value);  // at the end of an object; the key must be new
  void update(const Json& object);                  // replaces members, and adds new ones at the end
  std::size_t erase(std::string_view key);          // the number of members erased

  // Two objects are equal if their keys have one order too; numbers are compared by their values.
  friend bool operator==(const Json& a, const Json& b) { return a.equals(b); }
  friend std::partial_ordering operator<=>(const Json& a, const Json& b) { return a.order(b); }  // of numbers alone

  // Formats on one line, or with `indent` spaces per level. NaN and infinity are null.
  std::string dump(int indent = -1, BadText bad_text = BadText::refuse) const;
  friend std::ostream& operator<<(std::ostream& out, const Json& json) { return json.print(out); }

 private:
  friend class JsonWriter;
  enum class Kind : std::uint8_t { null, boolean, integer, natural, real, string, array, object };
  struct Object;
  union Value {
    bool boolean;
    std::uint64_t whole;  // of an integer in two's complement
    double real;
    std::string* string;
    std::vector<Json>* array;
    Object* object;
  };

  void destroy() noexcept;
  void become_array();
  void become_object();
  [[noreturn]] void fail_wanted(const char* what) const;
  [[noreturn]] void fail_range() const;
  bool is_negative() const;  // a whole number below 0
  bool boolean() const;
  std::int64_t integer(std::int64_t least, std::int64_t most) const;
  std::uint64_t natural(std::uint64_t most) const;
  double real() const;
  const std::string& text() const;
  const std::vector<Json>& elements() const;
  JsonItems<const Json, const JsonMember> items_of_object() const;
  Json& element(std::size_t index);
  const Json& element(std::size_t index) const;
  const Json* member(std::string_view key) const;            // null without one
  const Json* member_of_object(std::string_view key) const;  // JsonError for what is no object
  bool equals(const Json& other) const;
  std::partial_ordering order(const Json& other) const;
  std::ostream& print(std::ostream& out) const;

  Kind kind_ = Kind::null;
  Value value_{};
};

struct JsonMember {
  std::string key;
  Json value;
};

// InputError that starts with `file_name` if the text is no JSON, has a duplicate key in an object, or nests deeper
// than `max_depth`.
Json parse_json(std::string_view text, const std::string& file_name, int max_depth = 64);

// Formats with an indentation of two spaces and a final newline, as Hugging Face does.
std::string json_text(const Json& json);

// The same value with the keys of all its objects in the order of the alphabet.
Json with_sorted_keys(const Json& json);

}  // namespace comera::io
