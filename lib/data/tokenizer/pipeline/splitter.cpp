#include "lib/data/tokenizer/pipeline/splitter.h"

#include "lib/core/terminal/log.h"
#include "lib/data/tokenizer/pipeline/byte_characters.h"
#include "lib/data/tokenizer/pipeline/metaspace.h"
#include "lib/data/tokenizer/pipeline/normal_forms.h"
#include "lib/data/tokenizer/pipeline/normalizer.h"
#include "lib/data/tokenizer/unicode.h"

namespace comera::data {
namespace {

// The split of GPT-2 (Radford et al. 2019): contractions, and words, numbers and signs with the blank before them.
constexpr const char* gpt2_split = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// What becomes of a match.
enum class Behaviour : std::uint8_t { removed, isolated, merged_with_previous, merged_with_next, contiguous };

struct Part {
  Span span;
  bool match = false;
};

using Finder = std::function<void(std::string_view text, const std::function<void(Span)>& visit)>;

Finder characters_that(bool (*fit)(std::uint32_t)) {
  return [=](std::string_view text, const std::function<void(Span)>& visit) {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t begin = at;
      if (fit(next_code_point(text, at))) visit({begin, at});
    }
  };
}

Finder matches_of(Pattern pattern) {
  return [pattern = std::move(pattern)](std::string_view text, const std::function<void(Span)>& visit) {
    pattern.for_each_match(text, visit);
  };
}

// Matches and what lies between them, in order.
std::vector<Part> parts_of(std::string_view text, const Finder& find, bool invert) {
  std::vector<Part> parts;
  std::size_t at = 0;
  find(text, [&](Span match) {
    if (match.begin > at) parts.push_back({{at, match.begin}, invert});
    parts.push_back({match, !invert});
    at = match.end;
  });
  if (at < text.size()) parts.push_back({{at, text.size()}, invert});
  return parts;
}

// A match that follows no match joins its neighbour before it.
void append_merged(const std::vector<Part>& parts, std::size_t shift, std::vector<Span>& words) {
  bool before = false;
  bool any = false;
  for (const Part& part : parts) {
    if (part.match && !before && any)
      words.back().end = shift + part.span.end;
    else
      words.push_back({shift + part.span.begin, shift + part.span.end});
    before = part.match;
    any = true;
  }
}

void append_merged_with_next(const std::vector<Part>& parts, std::size_t shift, std::vector<Span>& words) {
  std::vector<Span> backwards;
  bool behind = false;
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    if (part->match && !behind && !backwards.empty())
      backwards.back().begin = shift + part->span.begin;
    else
      backwards.push_back({shift + part->span.begin, shift + part->span.end});
    behind = part->match;
  }
  words.insert(words.end(), backwards.rbegin(), backwards.rend());
}

void append_parts(const std::vector<Part>& parts, Behaviour behaviour, std::size_t shift, std::vector<Span>& words) {
  if (behaviour == Behaviour::merged_with_previous) return append_merged(parts, shift, words);
  if (behaviour == Behaviour::merged_with_next) return append_merged_with_next(parts, shift, words);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (behaviour == Behaviour::removed && parts[i].match) continue;
    const Span span{shift + parts[i].span.begin, shift + parts[i].span.end};
    if (behaviour == Behaviour::contiguous && i > 0 && parts[i].match == parts[i - 1].match)
      words.back().end = span.end;
    else
      words.push_back(span);
  }
}

Splitter split_at(Finder find, Behaviour behaviour, bool invert = false) {
  return [find = std::move(find), behaviour, invert](Words& words) {
    std::vector<Span> made;
    made.reserve(words.parts.size());
    for (const Span& part : words.parts) {
      const std::string_view text = std::string_view(words.text.text).substr(part.begin, part.size());
      append_parts(parts_of(text, find, invert), behaviour, part.begin, made);
    }
    words.parts = std::move(made);
  };
}

// Rewrites every word: `by` writes the bytes of a word until rewrite.at() is its end.
void rewrite_words(Words& words, const std::function<void(Rewrite&, Span)>& by) {
  Rewrite rewrite(words.text);
  std::vector<Span> made;
  for (const Span& part : words.parts) {
    rewrite.drop(part.begin - rewrite.at());
    const std::size_t begin = rewrite.written();
    by(rewrite, part);
    made.push_back({begin, rewrite.written()});
  }
  words.text = rewrite.finish();
  words.parts = std::move(made);
}

Behaviour behaviour_of(const JsonNode& node) {
  const std::string name = node.text();
  if (name == "Removed") return Behaviour::removed;
  if (name == "Isolated") return Behaviour::isolated;
  if (name == "MergedWithPrevious") return Behaviour::merged_with_previous;
  if (name == "MergedWithNext") return Behaviour::merged_with_next;
  if (name == "Contiguous") return Behaviour::contiguous;
  node.fail("\"{}\" is not known; known are Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous",
            printable(name));
}

void write_bytes_of_words(Words& words) {
  rewrite_words(words, [&](Rewrite& rewrite, Span part) {
    std::string written;
    for (std::size_t at = part.begin; at < part.end;) {
      const std::size_t begin = at;
      next_code_point(words.text.text, at);
      written.clear();
      for (std::size_t i = begin; i < at; ++i)
        written += character_of_byte(static_cast<unsigned char>(words.text.text[i]));
      rewrite.replace(at - begin, written);
    }
  });
}

void prepend_to_words(Words& words, std::string_view text, const std::function<bool(std::size_t)>& wanted) {
  std::size_t index = 0;
  rewrite_words(words, [&](Rewrite& rewrite, Span part) {
    const bool has = std::string_view(words.text.text).substr(part.begin).starts_with(text);
    if (wanted(index++) && !has) rewrite.replace(0, text);
    rewrite.keep(part.size());
  });
}

Splitter byte_level(const JsonNode& node) {
  const bool prefix = node.flag_or("add_prefix_space", true), splits = node.flag_or("use_regex", true);
  const Splitter split = split_at(matches_of(Pattern::expression(gpt2_split, node.place())), Behaviour::isolated);
  return [=](Words& words) {
    if (prefix) prepend_to_words(words, " ", [](std::size_t) { return true; });
    if (splits) split(words);
    write_bytes_of_words(words);
  };
}

Splitter metaspace(const JsonNode& node) {
  const Metaspace rule = read_metaspace(node);
  const Splitter split = split_at(matches_of(Pattern::literal(rule.replacement)), Behaviour::merged_with_next);
  return [=](Words& words) {
    const bool at_start = words.text.original.begin == 0 && !words.parts.empty() && words.parts.front().begin == 0;
    rewrite_words(words, [&](Rewrite& rewrite, Span part) {
      while (rewrite.at() < part.end) {
        const bool blank = words.text.text[rewrite.at()] == ' ';
        blank ? rewrite.replace(1, rule.replacement) : rewrite.keep(1);
      }
    });
    prepend_to_words(words, rule.replacement, [&](std::size_t index) {
      return rule.scheme == Metaspace::Scheme::always ||
             (rule.scheme == Metaspace::Scheme::first && index == 0 && at_start);
    });
    if (rule.splits) split(words);
  };
}

Splitter fixed_length(const JsonNode& node) {
  const std::int64_t length = node.integer_or("length", 5);
  if (length < 1) node.fail("\"length\" must be at least 1, is {}", length);
  return split_at(
      [=](std::string_view text, const std::function<void(Span)>& visit) {
        for (std::size_t at = 0, begin = 0; at < text.size(); begin = at) {
          for (std::int64_t i = 0; i < length && at < text.size(); ++i) next_code_point(text, at);
          visit({begin, at});
        }
      },
      Behaviour::isolated);
}

Splitter delimiter(const JsonNode& node) {
  return split_at(matches_of(Pattern::literal(node.at("delimiter").text())), Behaviour::removed);
}

Splitter digits(const JsonNode& node) {
  const bool single = node.flag_or("individual_digits", false);
  return split_at(characters_that(is_numeric), single ? Behaviour::isolated : Behaviour::contiguous);
}

Splitter sequence(const JsonNode& node) {
  std::vector<Splitter> all;
  node.at("pretokenizers").for_each_item([&](const JsonNode& item) { all.push_back(read_splitter(item)); });
  return [=](Words& words) {
    for (const Splitter& one : all) one(words);
  };
}

Splitter bert() {
  return [blanks = split_at(characters_that(is_white_space), Behaviour::removed),
          signs = split_at(characters_that(is_punctuation), Behaviour::isolated)](Words& words) {
    blanks(words);
    signs(words);
  };
}

}  // namespace

Splitter read_splitter(const JsonNode& node) {
  const std::string type = node.type();
  if (type == "Sequence") return sequence(node);
  if (type == "BertPreTokenizer") return bert();
  if (type == "ByteLevel") return byte_level(node);
  if (type == "CharDelimiterSplit") return delimiter(node);
  if (type == "Digits") return digits(node);
  if (type == "FixedLength") return fixed_length(node);
  if (type == "Metaspace") return metaspace(node);
  if (type == "Punctuation") {
    const auto behaviour = node.find("behavior");
    return split_at(characters_that(is_punctuation), behaviour ? behaviour_of(*behaviour) : Behaviour::isolated);
  }
  if (type == "Split")
    return split_at(matches_of(read_pattern(node.at("pattern"))), behaviour_of(node.at("behavior")),
                    node.flag_or("invert", false));
  if (type == "Whitespace") {  // \w of Rust has the joiners, that of other expressions in these files has not
    const char* words = R"([\w\x{200c}\x{200d}]+|[^\w\s\x{200c}\x{200d}]+)";
    return split_at(matches_of(Pattern::expression(words, node.place())), Behaviour::removed, true);
  }
  if (type == "WhitespaceSplit") return split_at(characters_that(is_white_space), Behaviour::removed);
  node.fail_unknown_type("pre-tokenizer",
                         "Sequence, BertPreTokenizer, ByteLevel, CharDelimiterSplit, Digits, FixedLength, Metaspace, "
                         "Punctuation, Split, Whitespace, WhitespaceSplit");
}

}  // namespace comera::data
