#include "lib/data/tokenizer/pipeline/normal_forms.h"

#include <utf8proc.h>

#include <algorithm>
#include <optional>

#include "lib/data/tokenizer/unicode.h"
#include "lib/data/tokenizer/unicode_ranges.h"

namespace comera::data {
namespace {

// The tables of Hugging Face's `tokenizers` are older than utf8proc's (Unicode 15). Where they differ: marks of only
// one of the two, characters without a combining class there, and without a decomposition.
constexpr CodePoints mark_changed[] = {
    {0x7FD, 0x7FD},     {0x898, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},     {0xAFA, 0xAFF},
    {0xB55, 0xB55},     {0xC04, 0xC04},     {0xC3C, 0xC3C},     {0xCF3, 0xCF3},     {0xD00, 0xD00},
    {0xD3B, 0xD3C},     {0xD81, 0xD81},     {0xEBA, 0xEBA},     {0xECE, 0xECE},     {0x1715, 0x1715},
    {0x180F, 0x180F},   {0x1ABF, 0x1ACE},   {0x1CF2, 0x1CF3},   {0x1CF7, 0x1CF7},   {0x1DF6, 0x1DFA},
    {0xA82C, 0xA82C},   {0xA8FF, 0xA8FF},   {0x10D24, 0x10D27}, {0x10EAB, 0x10EAC}, {0x10EFD, 0x10EFF},
    {0x10F46, 0x10F50}, {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x11073, 0x11074}, {0x110C2, 0x110C2},
    {0x11145, 0x11146}, {0x111C9, 0x111C9}, {0x111CE, 0x111CF}, {0x11241, 0x11241}, {0x1133B, 0x1133B},
    {0x1145E, 0x1145E}, {0x1182C, 0x1183A}, {0x11930, 0x11935}, {0x11937, 0x11938}, {0x1193B, 0x1193E},
    {0x11940, 0x11940}, {0x11942, 0x11943}, {0x119D1, 0x119D7}, {0x119DA, 0x119E0}, {0x119E4, 0x119E4},
    {0x11A01, 0x11A0A}, {0x11A33, 0x11A39}, {0x11A3B, 0x11A3E}, {0x11A47, 0x11A47}, {0x11A51, 0x11A5B},
    {0x11A8A, 0x11A99}, {0x11D31, 0x11D36}, {0x11D3A, 0x11D3A}, {0x11D3C, 0x11D3D}, {0x11D3F, 0x11D45},
    {0x11D47, 0x11D47}, {0x11D8A, 0x11D8E}, {0x11D90, 0x11D91}, {0x11D93, 0x11D97}, {0x11EF3, 0x11EF6},
    {0x11F00, 0x11F01}, {0x11F03, 0x11F03}, {0x11F34, 0x11F3A}, {0x11F3E, 0x11F42}, {0x13440, 0x13440},
    {0x13447, 0x13455}, {0x16F4F, 0x16F4F}, {0x16F7F, 0x16F87}, {0x16FE4, 0x16FE4}, {0x16FF0, 0x16FF1},
    {0x1CF00, 0x1CF2D}, {0x1CF30, 0x1CF46}, {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE},
    {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF}};
constexpr CodePoints class_added[] = {
    {0x7FD, 0x7FD},     {0x898, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},     {0xC3C, 0xC3C},
    {0xD3B, 0xD3C},     {0xEBA, 0xEBA},     {0xECE, 0xECE},     {0x1715, 0x1715},   {0x1ABF, 0x1ACE},
    {0x1DF6, 0x1DFA},   {0xA82C, 0xA82C},   {0x10D24, 0x10D27}, {0x10EAB, 0x10EAC}, {0x10EFD, 0x10EFF},
    {0x10F46, 0x10F50}, {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x1133B, 0x1133B}, {0x1145E, 0x1145E},
    {0x11839, 0x1183A}, {0x11938, 0x11938}, {0x1193D, 0x1193E}, {0x11943, 0x11943}, {0x119E0, 0x119E0},
    {0x11A34, 0x11A34}, {0x11A47, 0x11A47}, {0x11A99, 0x11A99}, {0x11D42, 0x11D42}, {0x11D44, 0x11D45},
    {0x11D97, 0x11D97}, {0x11F41, 0x11F42}, {0x16FF0, 0x16FF1}, {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136},
    {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF}};
constexpr CodePoints decomposition_added[] = {
    {0x32FF, 0x32FF},   {0xA7F2, 0xA7F4},   {0xAB69, 0xAB69},   {0x10781, 0x10785}, {0x10787, 0x107B0},
    {0x107B2, 0x107BA}, {0x11938, 0x11938}, {0x1E030, 0x1E06D}, {0x1F16C, 0x1F16C}, {0x1FBF0, 0x1FBF9}};

// A character of the new text. `change`: 1 for one that was added, 0 for one that stands for a character of the old
// text, -n for one that stands for n + 1 of them.
struct Written {
  std::uint32_t code_point = 0;
  int change = 0;
  int combining_class = 0;
};

const utf8proc_property_t& property_of(std::uint32_t code_point) {
  return *utf8proc_get_property(static_cast<utf8proc_int32_t>(code_point));
}

int combining_class(std::uint32_t code_point) {
  return within(class_added, code_point) ? 0 : property_of(code_point).combining_class;
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

std::vector<Written> decompose(std::string_view text, bool compatible) {
  const int options = UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0);
  std::vector<Written> result;
  for (std::size_t at = 0; at < text.size();) {
    const std::uint32_t code_point = next_code_point(text, at);
    utf8proc_int32_t parts[32] = {static_cast<utf8proc_int32_t>(code_point)};
    int boundary = 0;
    const utf8proc_ssize_t found =
        within(decomposition_added, code_point)
            ? 1
            : utf8proc_decompose_char(parts[0], parts, 32, static_cast<utf8proc_option_t>(options), &boundary);
    for (utf8proc_ssize_t i = 0; i < std::max<utf8proc_ssize_t>(found, 1); ++i) {
      const auto part = static_cast<std::uint32_t>(parts[i]);
      result.push_back({part, i > 0, combining_class(part)});
    }
  }
  // Marks behind a character come in the order of their classes.
  for (auto at = result.begin(); at != result.end();) {
    const auto first = std::find_if(at, result.end(), [](const Written& w) { return w.combining_class != 0; });
    at = std::find_if(first, result.end(), [](const Written& w) { return w.combining_class == 0; });
    std::stable_sort(first, at,
                     [](const Written& a, const Written& b) { return a.combining_class < b.combining_class; });
  }
  return result;
}

// The one character that stands for two.
std::optional<std::uint32_t> composed(std::uint32_t first, std::uint32_t second) {
  const bool vowel_or_tail = (second >= 0x1161 && second <= 0x1175) || (second >= 0x11A8 && second <= 0x11C2);
  if (second < 0x300 || (property_of(second).comb_index == UINT16_MAX && !vowel_or_tail)) return std::nullopt;
  utf8proc_int32_t pair[] = {static_cast<utf8proc_int32_t>(first), static_cast<utf8proc_int32_t>(second)};
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);
  if (utf8proc_normalize_utf32(pair, 2, options) != 1) return std::nullopt;
  return static_cast<std::uint32_t>(pair[0]);
}

// Canonical composition of a decomposed text: a mark joins the last starter unless a mark of its class stands between.
void compose(std::vector<Written>& text) {
  std::size_t kept = 0;
  std::optional<std::size_t> starter;
  int last_class = -1;  // of the characters kept behind the starter; -1: none
  for (std::size_t i = 0; i < text.size(); ++i) {
    const Written one = text[i];
    const bool blocked = last_class != -1 && last_class >= one.combining_class;
    if (starter && !blocked) {
      if (const auto joined = composed(text[*starter].code_point, one.code_point)) {
        text[*starter].code_point = *joined;
        text[*starter].change += one.change - 1;
        continue;
      }
    }
    if (one.combining_class == 0) {
      starter = kept;
      last_class = -1;
    } else {
      last_class = one.combining_class;
    }
    text[kept++] = one;
  }
  text.resize(kept);
}

std::size_t length_at(std::string_view text, std::size_t at) {
  std::size_t end = at;
  next_code_point(text, end);
  return end - at;
}

}  // namespace

void normalise(AlignedText& text, NormalForm form) {
  if (is_ascii(text.text)) return;
  std::vector<Written> written = decompose(text.text, form == NormalForm::nfkd || form == NormalForm::nfkc);
  if (form == NormalForm::nfc || form == NormalForm::nfkc) compose(written);
  Rewrite rewrite(text);
  std::string utf8;
  for (const Written& one : written) {
    utf8.clear();
    append_utf8(utf8, one.code_point);
    if (one.change > 0 || rewrite.done()) {
      rewrite.insert(utf8);
      continue;
    }
    rewrite.replace(length_at(text.text, rewrite.at()), utf8);
    for (int i = 0; i > one.change && !rewrite.done(); --i) rewrite.drop(length_at(text.text, rewrite.at()));
  }
  text = rewrite.finish();
}

bool is_white_space(std::uint32_t c) {
  return (c >= 0x9 && c <= 0xD) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
         c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_mark(std::uint32_t code_point) {
  const auto kind = utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
  const bool mark = kind == UTF8PROC_CATEGORY_MN || kind == UTF8PROC_CATEGORY_MC || kind == UTF8PROC_CATEGORY_ME;
  return mark != within(mark_changed, code_point);
}

bool is_numeric(std::uint32_t code_point) {
  const auto kind = utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
  return kind == UTF8PROC_CATEGORY_ND || kind == UTF8PROC_CATEGORY_NL || kind == UTF8PROC_CATEGORY_NO;
}

}  // namespace comera::data
