#include "lib/data/tokenizer/pipeline/aligned_text.h"

#include <algorithm>

#include "lib/data/tokenizer/unicode.h"

namespace comera::data {

AlignedText::AlignedText(std::string_view whole, Span place, bool follows_origins)
    : text(whole.substr(place.begin, place.size())), follows(follows_origins), original(place) {
  if (!follows) return;
  from.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    next_code_point(text, at);
    from.insert(from.end(), at - begin, {place.begin + begin, place.begin + at});
  }
}

Span AlignedText::origin_of(Span part) const {
  if (!follows || from.empty()) return {original.begin, original.begin};
  if (part.begin >= part.end) {
    const std::size_t at = part.begin < from.size() ? from[part.begin].begin : from.back().end;
    return {at, at};
  }
  return {from[part.begin].begin, from[part.end - 1].end};
}

void Rewrite::write(std::string_view text, std::size_t origin) {
  made_.text += text;
  if (!source_.follows) return;
  const Span span = source_.from.empty() ? source_.original : source_.from[std::min(origin, source_.from.size() - 1)];
  made_.from.insert(made_.from.end(), text.size(), span);
}

void Rewrite::keep(std::size_t bytes) {
  made_.text.append(source_.text, at_, bytes);
  if (source_.follows) {
    const auto begin = source_.from.begin() + static_cast<std::ptrdiff_t>(at_);
    made_.from.insert(made_.from.end(), begin, begin + static_cast<std::ptrdiff_t>(bytes));
  }
  at_ += bytes;
}

void Rewrite::replace(std::size_t bytes, std::string_view by) {
  write(by, at_);
  at_ += bytes;
}

void Rewrite::replace_span(std::size_t bytes, std::string_view by) {
  at_ += bytes;
  insert(by);
}

void Rewrite::insert(std::string_view text) { write(text, at_ == 0 ? 0 : at_ - 1); }

}  // namespace comera::data
