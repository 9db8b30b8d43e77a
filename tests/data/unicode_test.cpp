#include "lib/data/tokenizer/unicode.h"

#include <catch2/catch.hpp>

using namespace comera::data;

TEST_CASE("unicode: the first byte of invalid UTF-8 is found") {
  CHECK(find_invalid_utf8("plain text of more than eight bytes") == std::string::npos);
  CHECK(find_invalid_utf8("na\xC3\xAFve \xE6\x97\xA5\xE6\x9C\xAC \xF0\x9F\x98\x80") == std::string::npos);
  CHECK(find_invalid_utf8("abc\xFFz") == 3);
  CHECK(find_invalid_utf8("12345678\xC3") == 8);      // truncated
  CHECK(find_invalid_utf8("\xC0\xAF") == 0);          // overlong
  CHECK(find_invalid_utf8("\xE0\x80\xAF") == 0);      // overlong
  CHECK(find_invalid_utf8("a\xED\xA0\x80") == 1);     // surrogate
  CHECK(find_invalid_utf8("\xF4\x90\x80\x80") == 0);  // beyond U+10FFFF
  CHECK(find_invalid_utf8("\xF0\x8F\xBF\xBF") == 0);  // overlong
  CHECK(find_invalid_utf8("") == std::string::npos);
}

TEST_CASE("unicode: code points survive encoding and decoding") {
  for (std::uint32_t c : {0x24u, 0x7Fu, 0x80u, 0x7FFu, 0x800u, 0xFFFFu, 0x10000u, 0x10FFFFu}) {
    std::string text;
    append_utf8(text, c);
    std::size_t at = 0;
    CHECK(next_code_point(text, at) == c);
    CHECK(at == text.size());
  }
}

TEST_CASE("unicode: character classes equal those of the reference") {
  CHECK(is_removed(0));
  CHECK(is_removed(0xFFFD));
  CHECK(is_removed(0x0C));
  CHECK(is_removed(0x200D));  // zero width joiner
  CHECK(is_removed(0xE000));  // private use
  CHECK_FALSE(is_removed('\t'));
  CHECK_FALSE(is_removed(0x378));  // unassigned characters are kept
  CHECK_FALSE(is_removed(0x8E2));  // Cf since Unicode 9
  CHECK(is_space(0xA0));
  CHECK(is_space(0x2028));
  CHECK(is_space(0x3000));
  CHECK_FALSE(is_space(0x200B));
  CHECK(is_punctuation('$'));
  CHECK(is_punctuation('^'));
  CHECK(is_punctuation(0x3002));
  CHECK(is_punctuation(0x2014));
  CHECK_FALSE(is_punctuation(0x20AC));  // a currency sign outside ASCII is no punctuation
  CHECK_FALSE(is_punctuation(0x2E52));  // Unicode 14
  CHECK(is_cjk(0x4E00));
  CHECK(is_cjk(0x2B920));
  CHECK_FALSE(is_cjk(0x2B820));
  CHECK_FALSE(is_cjk(0x3042));  // hiragana
  CHECK_FALSE(is_cjk(0xAC00));  // hangul
}

TEST_CASE("unicode: accents are removed, capitals become lower case") {
  const auto plain = [](std::uint32_t c) {
    std::string text;
    append_without_accents(text, c);
    return text;
  };
  const auto lower = [](std::uint32_t c) {
    std::string text;
    append_lower(text, c);
    return text;
  };
  CHECK(plain(0xE9) == "e");
  CHECK(plain(0x1EA4) == "A");                         // two marks
  CHECK(plain(0x301) == "");                           // only a mark
  CHECK(plain(0xAC00) == "\xE1\x84\x80\xE1\x85\xA1");  // hangul is decomposed
  CHECK(plain(0x1FEF) == "`");
  CHECK(lower(0xC9) == "\xC3\xA9");
  CHECK(lower(0x130) == "i\xCC\x87");
  CHECK(lower(0xA7CB) == "\xC9\xA4");
  CHECK(lower('a') == "a");
}
