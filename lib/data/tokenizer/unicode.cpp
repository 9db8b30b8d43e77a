#include "lib/data/tokenizer/unicode.h"

#include <utf8proc.h>

#include <cstring>

#include "lib/data/tokenizer/unicode_ranges.h"

namespace comera::data {
namespace {

// Ranges in which the class "Mn" or "P*" differs between Unicode 15 and Unicode 8.0: later characters, and a few with
// a changed class.
constexpr CodePoints mark_changed[] = {
    {0x7FD, 0x7FD},     {0x898, 0x89F},     {0x8CA, 0x8E1},     {0x9FE, 0x9FE},     {0xAFA, 0xAFF},
    {0xB55, 0xB55},     {0xC04, 0xC04},     {0xC3C, 0xC3C},     {0xD00, 0xD00},     {0xD3B, 0xD3C},
    {0xD81, 0xD81},     {0xEBA, 0xEBA},     {0xECE, 0xECE},     {0x1734, 0x1734},   {0x180F, 0x180F},
    {0x1885, 0x1886},   {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFB},   {0xA82C, 0xA82C},   {0xA8C5, 0xA8C5},
    {0xA8FF, 0xA8FF},   {0xA9BD, 0xA9BD},   {0x10D24, 0x10D27}, {0x10EAB, 0x10EAC}, {0x10EFD, 0x10EFF},
    {0x10F46, 0x10F50}, {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x11073, 0x11074}, {0x110C2, 0x110C2},
    {0x111C9, 0x111C9}, {0x111CF, 0x111CF}, {0x1123E, 0x1123E}, {0x11241, 0x11241}, {0x1133B, 0x1133B},
    {0x11438, 0x1143F}, {0x11442, 0x11444}, {0x11446, 0x11446}, {0x1145E, 0x1145E}, {0x1182F, 0x11837},
    {0x11839, 0x1183A}, {0x1193B, 0x1193C}, {0x1193E, 0x1193E}, {0x11943, 0x11943}, {0x119D4, 0x119D7},
    {0x119DA, 0x119DB}, {0x119E0, 0x119E0}, {0x11A01, 0x11A0A}, {0x11A33, 0x11A38}, {0x11A3B, 0x11A3E},
    {0x11A47, 0x11A47}, {0x11A51, 0x11A56}, {0x11A59, 0x11A5B}, {0x11A8A, 0x11A96}, {0x11A98, 0x11A99},
    {0x11C30, 0x11C36}, {0x11C38, 0x11C3D}, {0x11C3F, 0x11C3F}, {0x11C92, 0x11CA7}, {0x11CAA, 0x11CB0},
    {0x11CB2, 0x11CB3}, {0x11CB5, 0x11CB6}, {0x11D31, 0x11D36}, {0x11D3A, 0x11D3A}, {0x11D3C, 0x11D3D},
    {0x11D3F, 0x11D45}, {0x11D47, 0x11D47}, {0x11D90, 0x11D91}, {0x11D95, 0x11D95}, {0x11D97, 0x11D97},
    {0x11EF3, 0x11EF4}, {0x11F00, 0x11F01}, {0x11F36, 0x11F3A}, {0x11F40, 0x11F40}, {0x11F42, 0x11F42},
    {0x13440, 0x13440}, {0x13447, 0x13455}, {0x16F4F, 0x16F4F}, {0x16FE4, 0x16FE4}, {0x1CF00, 0x1CF2D},
    {0x1CF30, 0x1CF46}, {0x1E000, 0x1E006}, {0x1E008, 0x1E018}, {0x1E01B, 0x1E021}, {0x1E023, 0x1E024},
    {0x1E026, 0x1E02A}, {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF},
    {0x1E4EC, 0x1E4EF}, {0x1E944, 0x1E94A},
};
constexpr CodePoints punctuation_changed[] = {
    {0x61D, 0x61D},     {0x9FD, 0x9FD},     {0xA76, 0xA76},     {0xC77, 0xC77},     {0xC84, 0xC84},
    {0x166D, 0x166D},   {0x1B7D, 0x1B7E},   {0x2E43, 0x2E4F},   {0x2E52, 0x2E5D},   {0x10EAD, 0x10EAD},
    {0x10F55, 0x10F59}, {0x10F86, 0x10F89}, {0x111C9, 0x111C9}, {0x1144B, 0x1144F}, {0x1145A, 0x1145B},
    {0x1145D, 0x1145D}, {0x11660, 0x1166C}, {0x116B9, 0x116B9}, {0x1183B, 0x1183B}, {0x11944, 0x11946},
    {0x119E2, 0x119E2}, {0x11A3F, 0x11A46}, {0x11A9A, 0x11A9C}, {0x11A9E, 0x11AA2}, {0x11B00, 0x11B09},
    {0x11C41, 0x11C45}, {0x11C70, 0x11C71}, {0x11EF7, 0x11EF8}, {0x11F43, 0x11F4F}, {0x11FFF, 0x11FFF},
    {0x12FF1, 0x12FF2}, {0x16E97, 0x16E9A}, {0x16FE2, 0x16FE2}, {0x1E95E, 0x1E95F},
};
constexpr CodePoints control_changed[] = {{0x890, 0x891}, {0x8E2, 0x8E2}, {0x110CD, 0x110CD}, {0x13430, 0x1343F}};

constexpr CodePoints cjk_blocks[] = {{0x3400, 0x4DBF},
                                     {0x4E00, 0x9FFF},
                                     {0xF900, 0xFAFF},
                                     {0x20000, 0x2A6DF},
                                     {0x2A700, 0x2B73F},
                                     {0x2B740, 0x2B81F},
                                     // The block begins at U+2B820, but in the reference it begins here.
                                     {0x2B920, 0x2CEAF},
                                     {0x2F800, 0x2FA1F}};

// Capitals of Unicode 16 and 17: lower case = capital + shift.
struct Capital {
  std::uint32_t first, last;
  std::int32_t shift;
};
constexpr Capital later_capitals[] = {
    {0x1C89, 0x1C89, 1},      {0xA7CB, 0xA7CB, 0x264 - 0xA7CB},
    {0xA7CC, 0xA7CC, 1},      {0xA7CE, 0xA7CE, 1},
    {0xA7D2, 0xA7D2, 1},      {0xA7D4, 0xA7D4, 1},
    {0xA7DA, 0xA7DA, 1},      {0xA7DC, 0xA7DC, 0x19B - 0xA7DC},
    {0x10D50, 0x10D65, 0x20}, {0x16EA0, 0x16EB8, 0x1B},
};

utf8proc_category_t category(std::uint32_t code_point) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
}

// Length of the well-formed sequence at `at`, 0 if there is none.
std::size_t sequence_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0u; };
  const auto continues = [&](std::size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return continues(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const bool fits = !(first == 0xE0 && byte(1) < 0xA0) && !(first == 0xED && byte(1) > 0x9F);
    return fits && continues(1) && continues(2) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const bool fits = !(first == 0xF0 && byte(1) < 0x90) && !(first == 0xF4 && byte(1) > 0x8F);
    return fits && continues(1) && continues(2) && continues(3) ? 4 : 0;
  }
  return 0;
}

}  // namespace

std::size_t find_invalid_utf8(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    std::uint64_t eight = 0;
    if (at + 8 <= text.size() && (std::memcpy(&eight, text.data() + at, 8), (eight & 0x8080808080808080u) == 0)) {
      at += 8;
      continue;
    }
    const std::size_t length = sequence_length(text, at);
    if (length == 0) return at;
    at += length;
  }
  return std::string_view::npos;
}

void append_utf8(std::string& text, std::uint32_t code_point) {
  if (code_point < 0x80) {
    text += static_cast<char>(code_point);
  } else if (code_point < 0x800) {
    text += static_cast<char>(0xC0 | code_point >> 6);
    text += static_cast<char>(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    text += static_cast<char>(0xE0 | code_point >> 12);
    text += static_cast<char>(0x80 | (code_point >> 6 & 0x3F));
    text += static_cast<char>(0x80 | (code_point & 0x3F));
  } else {
    text += static_cast<char>(0xF0 | code_point >> 18);
    text += static_cast<char>(0x80 | (code_point >> 12 & 0x3F));
    text += static_cast<char>(0x80 | (code_point >> 6 & 0x3F));
    text += static_cast<char>(0x80 | (code_point & 0x3F));
  }
}

bool is_space(std::uint32_t code_point) {
  if (code_point == '\t' || code_point == '\n' || code_point == '\r') return true;
  const auto kind = category(code_point);
  return kind == UTF8PROC_CATEGORY_ZS || kind == UTF8PROC_CATEGORY_ZL || kind == UTF8PROC_CATEGORY_ZP;
}

bool is_removed(std::uint32_t code_point) {
  if (code_point == 0 || code_point == 0xFFFD) return true;
  if (code_point == '\t' || code_point == '\n' || code_point == '\r') return false;
  const auto kind = category(code_point);
  if (kind == UTF8PROC_CATEGORY_CC || kind == UTF8PROC_CATEGORY_CO) return true;
  return kind == UTF8PROC_CATEGORY_CF && !within(control_changed, code_point);
}

bool is_punctuation(std::uint32_t code_point) {
  if (code_point < 0x80) {
    const bool letter_or_digit = (code_point >= '0' && code_point <= '9') || (code_point >= 'a' && code_point <= 'z') ||
                                 (code_point >= 'A' && code_point <= 'Z');
    return code_point > 0x20 && code_point < 0x7F && !letter_or_digit;
  }
  const auto kind = category(code_point);
  return (kind >= UTF8PROC_CATEGORY_PC && kind <= UTF8PROC_CATEGORY_PO) != within(punctuation_changed, code_point);
}

bool is_nonspacing(std::uint32_t code_point) {
  return (category(code_point) == UTF8PROC_CATEGORY_MN) != within(mark_changed, code_point);
}

bool is_cjk(std::uint32_t code_point) { return code_point >= 0x3400 && within(cjk_blocks, code_point); }

void append_without_accents(std::string& text, std::uint32_t code_point) {
  constexpr std::uint32_t composed_later = 0x11938;  // Unicode 13 added its decomposition
  utf8proc_int32_t parts[32] = {static_cast<utf8proc_int32_t>(code_point)};
  int boundary = 0;
  const auto count = code_point == composed_later ? 1
                                                  : utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code_point),
                                                                            parts, 32, UTF8PROC_DECOMPOSE, &boundary);
  for (utf8proc_ssize_t i = 0; i < count; ++i)
    if (!is_nonspacing(static_cast<std::uint32_t>(parts[i]))) append_utf8(text, static_cast<std::uint32_t>(parts[i]));
}

void append_lower(std::string& text, std::uint32_t code_point) {
  if (code_point == 0x130)
    return append_utf8(text, 'i'), append_utf8(text, 0x307);  // the only capital whose lower case has two code points
  if (category(code_point) == UTF8PROC_CATEGORY_CN)
    for (const Capital& capital : later_capitals)
      if (code_point >= capital.first && code_point <= capital.last)
        code_point += static_cast<std::uint32_t>(capital.shift);
  append_utf8(text, static_cast<std::uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code_point))));
}

}  // namespace comera::data
