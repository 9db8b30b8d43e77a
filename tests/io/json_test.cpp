// Values of JSON beside those of the library that parses and formats them: the same text for the same value.
#include "lib/io/json.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "lib/core/error.h"
#include "lib/io/json_events.h"
#include "tests/core/cpu_seconds.h"

using namespace comera;
using namespace comera::io;
using Catch::Matchers::Contains;
using Theirs = nlohmann::ordered_json;

namespace {

std::string dump(const Theirs& json, int indent) {
  return json.dump(indent, ' ', false, Theirs::error_handler_t::replace);
}

// A value and the library's value of the same meaning, which are compared as text.
struct Both {
  Json ours;
  Theirs theirs;

  void check() const {
    for (const int indent : {-1, 0, 2, 7}) CHECK(ours.dump(indent, Json::BadText::replace) == dump(theirs, indent));
  }
};

class Random {
 public:
  Both value(int depth) {
    switch (below(depth > 0 ? 9 : 7)) {
      case 0: return {nullptr, nullptr};
      case 1: return of(below(2) == 1);
      case 2: return of(static_cast<std::int64_t>(bits_() >> below(64)) * (below(2) == 0 ? 1 : -1));
      case 3: return of(bits_() >> below(64));
      case 4: return of(real());
      case 5:
      case 6: return of(text());
      case 7: return array(depth);
      default: return object(depth);
    }
  }

  std::size_t below(std::size_t end) { return bits_() % end; }

  // Any bits are a double, among them NaN, infinities, denormals and zeros of both signs.
  double real() {
    if (below(2) == 0) return std::ldexp(static_cast<double>(below(1000)), static_cast<int>(below(60)) - 40);
    std::uint64_t pattern = bits_();
    if (below(4) == 0) pattern &= 0x800FFFFFFFFFFFFF;
    double value = 0;
    std::memcpy(&value, &pattern, sizeof value);
    return value;
  }

  // Plain signs, control characters, what JSON escapes, UTF-8 of each length, and bytes that are none.
  std::string text() {
    static const std::vector<std::string> parts = {
        "a", "Z", " ", "\"",   "\\",   "/",        "\b",       "\t",   "\n",   "\r",   "\x01",   "\x1f",  "\x7f",
        "é", "€", "😀", "\x80", "\xff", "\xed\xa0", "\xc0\xaf", "\xe2", "\xf0", "\xc3", "\u2028", "word ", "0"};
    std::string text;
    for (std::size_t i = below(12); i > 0; --i) text += parts[below(parts.size())];
    return below(20) == 0 ? text + '\0' + text : text;
  }

 private:
  template <class T>
  static Both of(const T& value) {
    return {value, value};
  }
  Both array(int depth) {
    Both both{Json::array(), Theirs::array()};
    for (std::size_t i = below(5); i > 0; --i) {
      Both element = value(depth - 1);
      both.ours.push_back(element.ours);
      both.theirs.push_back(element.theirs);
    }
    return both;
  }
  Both object(int depth) {
    Both both{Json::object(), Theirs::object()};
    for (std::size_t i = below(below(10) == 0 ? 40 : 5); i > 0; --i) {
      const std::string key = text() + std::to_string(i);  // else two could be equal once replaced
      Both member = value(depth - 1);
      both.ours[key] = member.ours;
      both.theirs[key] = member.theirs;
    }
    return both;
  }

  std::mt19937_64 bits_{20261125};
};

// Parses what the library wrote, and writes it again.
void check_parsed(const std::string& text) {
  const Json ours = parse_json(text, "j");
  const Theirs theirs = Theirs::parse(text);
  CHECK(ours.dump() == theirs.dump());
  CHECK(ours.dump(3) == theirs.dump(3));
  CHECK(ours == parse_json(ours.dump(2), "j"));
}

}  // namespace

TEST_CASE("json: the text of random values is that of the library, byte for byte, and reads back") {
  Random random;
  for (int i = 0; i < 3000; ++i) {
    const Both both = random.value(4);
    both.check();
    check_parsed(dump(both.theirs, i % 3 - 1));
  }
}

TEST_CASE("json: the text of numbers at the limits and of empty containers is that of the library") {
  using Reals = std::numeric_limits<double>;
  for (const double value : {0.0,
                             -0.0,
                             1.0,
                             -1.0,
                             0.1,
                             1e-5,
                             1e15,
                             1e16,
                             1e21,
                             1e22,
                             1.5e300,
                             123456789.125,
                             1.0 / 3,
                             9007199254740993.0,
                             Reals::min(),
                             Reals::max(),
                             Reals::denorm_min(),
                             -Reals::denorm_min(),
                             Reals::epsilon(),
                             Reals::infinity(),
                             -Reals::infinity(),
                             Reals::quiet_NaN()})
    Both{value, value}.check();
  for (const float value : {0.1f, 1e-5f, 16777217.0f, 3.4e38f, 1e-45f}) Both{value, value}.check();
  for (const std::int64_t value : {std::int64_t{0}, std::int64_t{-1}, INT64_MIN, INT64_MAX}) Both{value, value}.check();
  for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{1} << 63, UINT64_MAX}) Both{value, value}.check();
  Both{Json::array(), Theirs::array()}.check();
  Both{Json::object(), Theirs::object()}.check();
  Both{{{"a", Json::array()}, {"b", Json::object()}, {"c", {}}, {"d", {{"e", {Json::array()}}}}},
       {{"a", Theirs::array()}, {"b", Theirs::object()}, {"c", {}}, {"d", {{"e", {Theirs::array()}}}}}}
      .check();
  for (const char* text : {"-0", "-0.0", "18446744073709551615", "18446744073709551616", "-9223372036854775808",
                           "-9223372036854775809", "1E2", "1e-400", "[[],{},[{}]]", R"("\ud83d\ude00\u0000")"})
    check_parsed(text);
  CHECK(json_text({{"a", {1, 2}}}) == "{\n  \"a\": [\n    1,\n    2\n  ]\n}\n");
}

TEST_CASE("json: lists in braces become objects and arrays as those of the library") {
  const Json element = 7;
  const Theirs their_element = 7;
  Both{{{"a", 1}, {"b", {1, 2}}, {"c", {"x", "y"}}}, {{"a", 1}, {"b", {1, 2}}, {"c", {"x", "y"}}}}.check();
  Both{{{"a", 1}, {"b", 2}, 3}, {{"a", 1}, {"b", 2}, 3}}.check();
  Both{{{"a", "b"}, {"c", "d"}}, {{"a", "b"}, {"c", "d"}}}.check();
  Both{{{{"a", 1}}, {{"b", 2}}}, {{{"a", 1}}, {{"b", 2}}}}.check();
  Both{{{"a", {element}}}, {{"a", {their_element}}}}.check();
  Both{{{"a", {{"b", 1}}}}, {{"a", {{"b", 1}}}}}.check();
  Both{Json{{"a", 1}}, Theirs{{"a", 1}}}.check();
  Both{Json::array({{"a", 1}}), Theirs::array({{"a", 1}})}.check();
  const std::map<std::string, std::vector<std::int64_t>> map{{"b", {1, 2}}, {"a", {}}};
  Both{map, map}.check();
  const std::vector<bool> flags{true, false};
  Both{flags, flags}.check();
  const std::vector<float> numbers{0.1f, 1};
  Both{numbers, numbers}.check();
}

TEST_CASE("json: a text that is no UTF-8 is refused or replaced") {
  CHECK_THROWS_AS(Json("a\xff").dump(), JsonError);
  CHECK_THROWS_AS((Json{{"\xc3", 1}}).dump(), JsonError);
  CHECK(Json("a\xff").dump(-1, Json::BadText::replace) == "\"a\xef\xbf\xbd\"");
  CHECK(json_text(Json("a\xff")) == "\"a\xef\xbf\xbd\"\n");
}

TEST_CASE("json: what has another type, does not fit or is missing throws an error that says so") {
  const Json json = parse_json(
      R"({"text":"3","flag":true,"none":null,"half":2.5,"whole":3.0,"large":18446744073709551615,"negative":-1,
          "huge":1e300,"list":[1,"x"],"object":{"a":1}})",
      "j");
  CHECK_THROWS_WITH(json["text"].get<int>(), "a number was wanted, string came");
  CHECK_THROWS_WITH(json["list"].get<std::string>(), "a string was wanted, array came");
  CHECK_THROWS_WITH(json["large"].get<std::int64_t>(), Contains("18446744073709551615 is no whole number"));
  CHECK_THROWS_WITH(json.at("missing"), "the key \"missing\" is missing");
  CHECK_THROWS_WITH(json["list"].at(2), "the element 2 of an array of 2 is missing");
  CHECK(json["whole"].get<int>() == 3);
  CHECK(json["large"].get<std::uint64_t>() == UINT64_MAX);
  CHECK(json["large"].get<double>() == 18446744073709551616.0);
  CHECK(json["negative"].get<double>() == -1);
  CHECK_THROWS_AS(json["negative"].get<std::uint64_t>(), JsonError);
  CHECK_THROWS_AS(Json(300).get<std::uint8_t>(), JsonError);
  CHECK_THROWS_AS(Json(std::int64_t{1} << 31).get<int>(), JsonError);
  for (const char* key : {"text", "flag", "none", "half", "huge", "list", "object"}) {
    CHECK_THROWS_AS(json[key].get<int>(), JsonError);
    CHECK_THROWS_AS(json[key].get<std::uint64_t>(), JsonError);
  }
  for (const char* key : {"text", "flag", "none", "list", "object"})
    CHECK_THROWS_AS(json[key].get<double>(), JsonError);
  for (const char* key : {"text", "none", "half", "list", "object"}) CHECK_THROWS_AS(json[key].get<bool>(), JsonError);
  for (const char* key : {"flag", "none", "half", "list", "object"})
    CHECK_THROWS_AS(json[key].get<std::string>(), JsonError);
  CHECK_THROWS_AS(json["list"].get<std::vector<int>>(), JsonError);
  CHECK_THROWS_AS(json["text"].get<std::vector<int>>(), JsonError);
  CHECK_THROWS_AS(json["missing"], JsonError);
  CHECK_THROWS_AS(json["list"]["a"], JsonError);
  CHECK_THROWS_AS(json["list"][-1], JsonError);
  CHECK_THROWS_AS(json["text"].begin(), JsonError);
  CHECK_THROWS_AS(json["text"].items(), JsonError);
  CHECK_THROWS_AS(json["list"].items(), JsonError);
  CHECK_THROWS_AS(json["text"].value("a", 1), JsonError);
  CHECK_THROWS_AS(json["object"].value("a", "x"), JsonError);
  CHECK_THROWS_AS(json["text"] < 1, JsonError);
  CHECK_THROWS_AS(Json(1).push_back(2), JsonError);
  CHECK_THROWS_AS(Json(1)["a"], JsonError);
  CHECK_THROWS_AS(Json::array().back(), JsonError);
  CHECK_THROWS_AS(Json::array().front(), JsonError);
  CHECK_THROWS_AS(Json().erase("a"), JsonError);
  CHECK_THROWS_AS(Json::object().update(1), JsonError);
  CHECK_THROWS_AS(Json::object({1}), JsonError);
  CHECK_THROWS_AS(Json::parse("[1"), InputError);
}

TEST_CASE("json: lookups find what is there and nothing else") {
  Json json{{"a", 1}, {"b", {2, 3}}};
  CHECK(json.contains("a"));
  CHECK_FALSE(json.contains("c"));
  CHECK_FALSE(Json(1).contains("a"));
  CHECK(json.find("c") == json.end());
  CHECK(Json().find("c") == Json().end());
  CHECK(json.find("b").key() == "b");
  CHECK(json.find("b")->size() == 2);
  CHECK(json.value("a", 5) == 1);
  CHECK(json.value("c", 5) == 5);
  CHECK(json.value("c", "x") == "x");
  CHECK(json.value("c", Json()).is_null());
  CHECK(json["b"].get<std::vector<int>>() == std::vector<int>{2, 3});
  CHECK(Json{{"x", 1}}.get<std::map<std::string, int>>() == std::map<std::string, int>{{"x", 1}});
  json["c"]["d"] = "new";
  json.update({{"a", true}, {"e", nullptr}});
  CHECK(json.dump() == R"({"a":true,"b":[2,3],"c":{"d":"new"},"e":null})");
  CHECK(json.erase("b") == 1);
  CHECK(json.erase("b") == 0);
  json.append_member("f", 0.5);
  for (auto value : json) value = 0;  // copies
  for (Json& value : json) value = Json::array({value});
  CHECK(json.dump() == R"({"a":[true],"c":[{"d":"new"}],"e":[null],"f":[0.5]})");
  std::string keys;
  for (const auto& [key, value] : json.items()) keys += key, value = keys;
  CHECK(json.dump() == R"({"a":"a","c":"ac","e":"ace","f":"acef"})");
  CHECK(json.front() == "a");
  CHECK(json.back() == "acef");
}

TEST_CASE("json: numbers are compared by value, objects with the order of their keys") {
  CHECK(Json(1) == Json(1u));
  CHECK(Json(1) == Json(1.0));
  CHECK(Json(-1) != Json(UINT64_MAX));
  CHECK(Json(-1) < Json(UINT64_MAX));
  CHECK(Json(2) > Json(1.5));
  CHECK(Json(0) != Json(false));
  CHECK(Json(0) != Json(nullptr));
  CHECK(Json("1") != Json(1));
  CHECK(Json() == Json(nullptr));
  CHECK(Json(NAN) != Json(NAN));
  CHECK(Json{{"a", 1}, {"b", 2}} != Json{{"b", 2}, {"a", 1}});
  CHECK(Json{{"b", 2}, {"a", {{"d", 1}, {"c", {{{"f", 1}, {"e", 2}}}}}}} != Json());
  CHECK(with_sorted_keys({{"b", 2}, {"a", {{"d", 1}, {"c", {{{"f", 1}, {"e", 2}}}}}}}).dump() ==
        R"({"a":{"c":[{"e":2,"f":1}],"d":1},"b":2})");
}

TEST_CASE("json: copies are deep, and a move leaves null") {
  Json first{{"a", {1, "two", {{"b", 3}}}}};
  const std::string text = first.dump();
  Json copy = first;
  copy["a"][2]["b"] = 4;
  CHECK(first.dump() == text);
  CHECK(copy["a"][2]["b"] == 4);
  const Json moved = std::move(first);
  CHECK(moved.dump() == text);
  CHECK(first.is_null());  // NOLINT(bugprone-use-after-move)
  copy = copy["a"];        // a value inside the one that it replaces
  copy = std::move(copy[2]);
  CHECK(copy.dump() == R"({"b":4})");
  Json& same = copy;
  copy = same;
  copy = std::move(same);
  CHECK(copy.dump() == R"({"b":4})");
}

TEST_CASE("json: 100,000 members are added, found and copied in less than a second") {
  const auto key = [](int i) { return fmt::format("key {}", i * 7919 % 100'003); };
  const double start = cpu_seconds();
  Json json;
  for (int i = 0; i < 100'000; ++i) json[key(i)] = i;
  std::int64_t sum = 0;
  for (int i = 0; i < 100'000; ++i) sum += json.at(key(i)).get<std::int64_t>() - i + json.contains(key(i) + "x");
  const Json copy = json;
  for (int i = 0; i < 5; ++i) json.erase(key(i * 9999));
  CHECK(cpu_seconds() - start < second());
  CHECK(sum == 0);
  CHECK(copy.size() == 100'000);
  CHECK(json.size() == 99'995);
  CHECK_FALSE(json.contains(key(9999)));
  CHECK(json[key(10'000)] == 10'000);
  CHECK(copy.at(key(9999)) == 9999);
}

TEST_CASE("json: an object of 100,000 keys keeps their order and is read in less than a second") {
  std::string text = "{";
  for (int i = 0; i < 100'000; ++i)
    text += fmt::format("{}\"key {}\": [{}, \"{}\"]", i == 0 ? "" : ",", 99'999 - i, i, i);
  const double start = cpu_seconds();
  const Json json = parse_json(text + "}", "j");
  CHECK(cpu_seconds() - start < second());
  CHECK(json.size() == 100'000);
  CHECK(json.begin().key() == "key 99999");
  CHECK(json.back() == Json{99'999, "99999"});
  CHECK_THROWS_WITH(parse_json(text + ", \"key 7\": 1}", "j"), Contains("key \"key 7\" stands there twice"));
}

TEST_CASE("json: every kind of value reads as the library writes it, and what is none is refused") {
  const std::string text =
      R"({"a":[1,-2,3.5,true,false,null,"x\u00e9\n"],"b":{},"c":[],"d":18446744073709551615,"e":{"f":{"g":[[]]}}})";
  check_parsed(text);
  for (const char* scalar : {"1", "null", "\"x\"", "-0.5", "true"}) check_parsed(scalar);
  for (const char* bad : {"", "{", "[1,]", "{\"a\" 1}", "1 2", "{\"a\":1}}", "\"\xff\"", "nul"})
    CHECK_THROWS_WITH(parse_json(bad, "j"), Contains("not valid JSON"));
  CHECK_THROWS_WITH(parse_json("[1e999]", "j"), Contains("too large"));
  CHECK_THROWS_WITH(parse_json(std::string(65, '['), "j"), Contains("nests deeper than 64"));
  CHECK_THROWS_WITH(parse_json(R"({"a": {"b": 1, "b": 2}})", "j"), Contains("key \"b\" stands there twice"));
  CHECK(parse_json(R"({"a": {"b": 1}, "b": 2})", "j")["b"] == 2);
}
