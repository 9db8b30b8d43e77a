#include "lib/data/template/python_text.h"

#include <utf8proc.h>

#include <algorithm>

#include "lib/data/tokenizer/unicode.h"

namespace comera::data::jinja {
namespace {

// Bidirectional classes B, S and WS, and category Zs (the definition of str.isspace()).
bool is_blank(std::uint32_t point) {
  switch (point) {
    case 0x20:
    case 0x85:
    case 0xA0:
    case 0x1680:
    case 0x2028:
    case 0x2029:
    case 0x202F:
    case 0x205F:
    case 0x3000: return true;
    default:
      return (point >= 0x9 && point <= 0xD) || (point >= 0x1C && point <= 0x1F) || (point >= 0x2000 && point <= 0x200A);
  }
}

bool is_cased(std::uint32_t point) {
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(point));
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL || category == UTF8PROC_CATEGORY_LT;
}

template <class Keep>
std::string_view trimmed(std::string_view text, bool left, bool right, Keep&& drops) {
  while (left && !text.empty()) {
    std::size_t next = 0;
    if (!drops(next_code_point(text, next))) break;
    text.remove_prefix(next);
  }
  while (right && !text.empty()) {
    std::size_t last = character_before(text, text.size());
    const std::size_t begin = last;
    if (!drops(next_code_point(text, last))) break;
    text = text.substr(0, begin);
  }
  return text;
}

enum class Case : std::uint8_t { upper, lower, title };

// Characters whose upper case is several ones, without those of Greek with iota.
void append_case(std::string& text, std::uint32_t point, Case wanted) {
  const auto to = static_cast<utf8proc_int32_t>(point);
  if (point == 0xDF && wanted != Case::lower) {
    text += wanted == Case::upper ? "SS" : "Ss";
  } else if (point >= 0xFB00 && point <= 0xFB06 && wanted != Case::lower) {
    constexpr const char* upper[] = {"FF", "FI", "FL", "FFI", "FFL", "ST", "ST"};
    constexpr const char* title[] = {"Ff", "Fi", "Fl", "Ffi", "Ffl", "St", "St"};
    text += (wanted == Case::upper ? upper : title)[point - 0xFB00];
  } else if (point == 0x130 && wanted == Case::lower) {
    text += "i\xCC\x87";
  } else {
    append_utf8(text, static_cast<std::uint32_t>(wanted == Case::upper   ? utf8proc_toupper(to)
                                                 : wanted == Case::lower ? utf8proc_tolower(to)
                                                                         : utf8proc_totitle(to)));
  }
}

std::string in_case(std::string_view text, Case wanted) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) append_case(result, next_code_point(text, at), wanted);
  return result;
}

// Parts between runs of blanks; the last one is the rest as it stands.
std::vector<std::string> split_at_blanks(std::string_view text, std::int64_t most) {
  std::vector<std::string> parts;
  text = without_blanks_before(text);
  while (!text.empty()) {
    if (most >= 0 && std::ssize(parts) == most) {
      parts.emplace_back(text);
      break;
    }
    std::size_t end = 0, next = 0;
    while (end < text.size() && !is_blank(next_code_point(text, next))) end = next;
    parts.emplace_back(text.substr(0, end));
    text = without_blanks_before(text.substr(end));
  }
  return parts;
}

std::vector<std::string> split_at_blanks_from_end(std::string_view text, std::int64_t most) {
  std::vector<std::string> parts;
  text = without_blanks_behind(text);
  while (!text.empty()) {
    if (most >= 0 && std::ssize(parts) == most) {
      parts.emplace_back(text);
      break;
    }
    std::size_t begin = text.size();
    while (begin > 0) {
      const std::size_t before = character_before(text, begin);
      if (is_python_blank(text, before)) break;
      begin = before;
    }
    parts.emplace_back(text.substr(begin));
    text = without_blanks_behind(text.substr(0, begin));
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

}  // namespace

bool is_python_blank(std::string_view text, std::size_t at) { return is_blank(next_code_point(text, at)); }
std::string_view without_blanks_before(std::string_view text) { return trimmed(text, true, false, is_blank); }
std::string_view without_blanks_behind(std::string_view text) { return trimmed(text, false, true, is_blank); }

std::string_view character_at(std::string_view text, std::size_t at) {
  std::size_t end = at;
  next_code_point(text, end);
  return text.substr(at, end - at);
}

std::string stripped(std::string_view text, const std::optional<std::string>& characters, bool left, bool right) {
  if (!characters) return std::string(trimmed(text, left, right, is_blank));
  std::vector<std::uint32_t> drops;
  for (std::size_t at = 0; at < characters->size();) drops.push_back(next_code_point(*characters, at));
  return std::string(trimmed(text, left, right, [&](std::uint32_t point) {
    return std::find(drops.begin(), drops.end(), point) != drops.end();
  }));
}

std::vector<std::string> split(std::string_view text, const std::optional<std::string>& separator, std::int64_t most) {
  if (!separator) return split_at_blanks(text, most);
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t at = most >= 0 && std::ssize(parts) == most ? std::string_view::npos : text.find(*separator);
    parts.emplace_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + separator->size());
  }
}

std::vector<std::string> split_from_end(std::string_view text, const std::optional<std::string>& separator,
                                        std::int64_t most) {
  if (!separator) return split_at_blanks_from_end(text, most);
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t at = most >= 0 && std::ssize(parts) == most ? std::string_view::npos : text.rfind(*separator);
    const std::size_t begin = at == std::string_view::npos ? 0 : at + separator->size();
    parts.emplace_back(text.substr(begin));
    if (at == std::string_view::npos) break;
    text = text.substr(0, at);
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string> lines;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = at;
    const std::uint32_t point = next_code_point(text, at);
    const bool ends = (point >= 0xA && point <= 0xD) || (point >= 0x1C && point <= 0x1E) || point == 0x85 ||
                      point == 0x2028 || point == 0x2029;
    if (!ends) continue;
    if (point == '\r' && at < text.size() && text[at] == '\n') ++at;
    lines.emplace_back(text.substr(begin, (keep_ends ? at : end) - begin));
    begin = at;
  }
  if (begin < text.size()) lines.emplace_back(text.substr(begin));
  return lines;
}

std::string replaced(std::string_view text, std::string_view old, std::string_view by, std::int64_t most) {
  std::string result;
  std::int64_t count = 0;
  std::size_t at = 0;
  if (old.empty()) {  // between all characters
    for (; at < text.size() && (most < 0 || count < most); ++count) {
      result += by;
      const std::string_view character = character_at(text, at);
      result += character;
      at += character.size();
    }
    if (at == text.size() && (most < 0 || count < most)) result += by;
    return result += text.substr(at);
  }
  for (; most < 0 || count < most; ++count) {
    const std::size_t found = text.find(old, at);
    if (found == std::string_view::npos) break;
    (result += text.substr(at, found - at)) += by;
    at = found + old.size();
  }
  return result += text.substr(at);
}

std::int64_t count_of(std::string_view text, std::string_view part) {
  if (part.empty()) return length_of(text) + 1;
  std::int64_t count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string_view::npos; at += part.size()) ++count;
  return count;
}

std::int64_t length_of(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

std::vector<std::string_view> characters(std::string_view text) {
  std::vector<std::string_view> all;
  for (std::size_t at = 0; at < text.size();) {
    all.push_back(character_at(text, at));
    at += all.back().size();
  }
  return all;
}

std::string upper(std::string_view text) { return in_case(text, Case::upper); }
std::string lower(std::string_view text) { return in_case(text, Case::lower); }

std::string capitalized(std::string_view text) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const Case wanted = at == 0 ? Case::title : Case::lower;
    append_case(result, next_code_point(text, at), wanted);
  }
  return result;
}

std::string titled(std::string_view text) {
  std::string result;
  bool inside = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::uint32_t point = next_code_point(text, at);
    append_case(result, point, inside ? Case::lower : Case::title);
    inside = is_cased(point);
  }
  return result;
}

}  // namespace comera::data::jinja
