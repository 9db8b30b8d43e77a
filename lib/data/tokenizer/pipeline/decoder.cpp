#include "lib/data/tokenizer/pipeline/decoder.h"

#include <algorithm>
#include <charconv>

#include "lib/data/tokenizer/pipeline/byte_characters.h"
#include "lib/data/tokenizer/pipeline/metaspace.h"
#include "lib/data/tokenizer/pipeline/normalizer.h"
#include "lib/data/tokenizer/unicode.h"

namespace comera::data {
namespace {

void replace_all(std::string& text, std::string_view old, std::string_view by) {
  for (std::size_t at = text.find(old); at != std::string::npos; at = text.find(old, at + by.size()))
    text.replace(at, old.size(), by);
}

// Blanks that English does not write.
void clean_up(std::string& text) {
  constexpr std::pair<const char*, const char*> rules[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [old, by] : rules) replace_all(text, old, by);
}

Decoder word_piece(const JsonNode& node) {
  const std::string prefix = node.text_or("prefix", "##");
  const bool cleans = node.flag_or("cleanup", true);
  return [=](std::vector<std::string>& pieces) {
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      std::string& piece = pieces[i];
      if (i > 0 && piece.starts_with(prefix))
        piece.erase(0, prefix.size());
      else if (i > 0)
        piece = fmt::format(" {}", piece);
      if (cleans) clean_up(piece);
    }
  };
}

void byte_level(std::vector<std::string>& pieces) {
  std::string bytes;
  for (const std::string& piece : pieces) bytes += bytes_of_piece(piece);
  pieces = {valid_utf8(bytes)};
}

// The byte of a piece <0xNN>; -1 if it is none.
int byte_of_piece(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || !piece.ends_with(">")) return -1;
  int byte = -1;
  const auto [end, error] = std::from_chars(piece.data() + 3, piece.data() + 5, byte, 16);
  return error == std::errc{} && end == piece.data() + 5 ? byte : -1;
}

void byte_fallback(std::vector<std::string>& pieces) {
  std::vector<std::string> made;
  std::string bytes;
  const auto flush = [&] {
    if (bytes.empty()) return;
    if (find_invalid_utf8(bytes) == std::string_view::npos)
      made.push_back(bytes);
    else
      for (std::size_t i = 0; i < bytes.size(); ++i) made.emplace_back("\xEF\xBF\xBD");
    bytes.clear();
  };
  for (const std::string& piece : pieces) {
    if (const int byte = byte_of_piece(piece); byte >= 0) {
      bytes += static_cast<char>(byte);
      continue;
    }
    flush();
    made.push_back(piece);
  }
  flush();
  pieces = std::move(made);
}

Decoder metaspace(const JsonNode& node) {
  const Metaspace rule = read_metaspace(node);
  return [=](std::vector<std::string>& pieces) {
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const bool drops = i == 0 && rule.scheme != Metaspace::Scheme::never;
      replace_all(pieces[i], rule.replacement, drops ? "" : " ");
    }
  };
}

Decoder strip(const JsonNode& node) {
  const std::string content = node.at("content").text();
  const std::int64_t start = node.integer_or("start", 0), stop = node.integer_or("stop", 0);
  if (content.empty()) node.at("content").fail("must not be empty");
  return [=](std::vector<std::string>& pieces) {
    for (std::string& piece : pieces) {
      for (std::int64_t i = 0; i < start && piece.starts_with(content); ++i) piece.erase(0, content.size());
      for (std::int64_t i = 0; i < stop && piece.ends_with(content); ++i) piece.resize(piece.size() - content.size());
    }
  };
}

Decoder replace(const JsonNode& node) {
  const Pattern pattern = read_pattern(node.at("pattern"));
  const std::string content = node.at("content").text();
  return [=](std::vector<std::string>& pieces) {
    for (std::string& piece : pieces) {
      std::string made;
      std::size_t at = 0;
      pattern.for_each_match(piece, [&](Span match) {
        made.append(piece, at, match.begin - at) += content;
        at = match.end;
      });
      piece = made + piece.substr(at);
    }
  };
}

Decoder bpe(const JsonNode& node) {
  const std::string suffix = node.text_or("suffix", "</w>");
  return [=](std::vector<std::string>& pieces) {
    for (std::size_t i = 0; i < pieces.size(); ++i) replace_all(pieces[i], suffix, i + 1 == pieces.size() ? "" : " ");
  };
}

void fuse(std::vector<std::string>& pieces) {
  std::string all;
  for (const std::string& piece : pieces) all += piece;
  pieces = {std::move(all)};
}

Decoder sequence(const JsonNode& node) {
  std::vector<Decoder> all;
  node.at("decoders").for_each_item([&](const JsonNode& item) { all.push_back(read_decoder(item)); });
  return [=](std::vector<std::string>& pieces) {
    for (const Decoder& one : all) one(pieces);
  };
}

}  // namespace

Decoder read_decoder(const JsonNode& node) {
  const std::string type = node.type();
  if (type == "Sequence") return sequence(node);
  if (type == "BPEDecoder") return bpe(node);
  if (type == "ByteFallback") return byte_fallback;
  if (type == "ByteLevel") return byte_level;
  if (type == "Fuse") return fuse;
  if (type == "Metaspace") return metaspace(node);
  if (type == "Replace") return replace(node);
  if (type == "Strip") return strip(node);
  if (type == "WordPiece") return word_piece(node);
  node.fail_unknown_type("decoder",
                         "Sequence, BPEDecoder, ByteFallback, ByteLevel, Fuse, Metaspace, Replace, Strip, WordPiece");
}

}  // namespace comera::data
