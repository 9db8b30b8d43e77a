#include "lib/data/tokenizer/pipeline/normalizer.h"

#include "lib/data/tokenizer/pipeline/byte_characters.h"
#include "lib/data/tokenizer/pipeline/charsmap.h"
#include "lib/data/tokenizer/pipeline/normal_forms.h"
#include "lib/data/tokenizer/unicode.h"

namespace comera::data {
namespace {

// Rewrites character by character: `by` appends what stands for a character. The first of several characters takes the
// place of the old one.
void rewrite_characters(AlignedText& text, const std::function<void(std::string&, std::uint32_t)>& by) {
  Rewrite rewrite(text);
  std::string written;
  while (!rewrite.done()) {
    std::size_t end = rewrite.at();
    const std::uint32_t code_point = next_code_point(text.text, end);
    written.clear();
    by(written, code_point);
    rewrite.replace(end - rewrite.at(), written);
  }
  text = rewrite.finish();
}

void lower(AlignedText& text) { rewrite_characters(text, append_lower); }

// Keeps the characters for which `keeps` holds.
void filter(AlignedText& text, bool (*keeps)(std::uint32_t)) {
  Rewrite rewrite(text);
  while (!rewrite.done()) {
    std::size_t end = rewrite.at();
    const bool kept = keeps(next_code_point(text.text, end));
    kept ? rewrite.keep(end - rewrite.at()) : rewrite.drop(end - rewrite.at());
  }
  text = rewrite.finish();
}

void clean(AlignedText& text) {
  filter(text, [](std::uint32_t c) { return !is_removed(c); });
  rewrite_characters(text, [](std::string& written, std::uint32_t c) {
    is_white_space(c) ? void(written += ' ') : append_utf8(written, c);
  });
}

void set_ideographs_apart(AlignedText& text) {
  Rewrite rewrite(text);
  while (!rewrite.done()) {
    std::size_t end = rewrite.at();
    const bool apart = is_cjk(next_code_point(text.text, end));
    if (apart) rewrite.replace(0, " ");
    rewrite.keep(end - rewrite.at());
    if (apart) rewrite.insert(" ");
  }
  text = rewrite.finish();
}

Normalizer bert(const JsonNode& node) {
  const bool cleans = node.flag_or("clean_text", true), apart = node.flag_or("handle_chinese_chars", true),
             lowers = node.flag_or("lowercase", true), strips = node.flag_or("strip_accents", lowers);
  return [=](AlignedText& text) {
    if (cleans) clean(text);
    if (apart) set_ideographs_apart(text);
    if (strips) {
      normalise(text, NormalForm::nfd);
      filter(text, [](std::uint32_t c) { return !is_nonspacing(c); });
    }
    if (lowers) lower(text);
  };
}

Normalizer strip(const JsonNode& node) {
  const bool left = node.flag_or("strip_left", true), right = node.flag_or("strip_right", true);
  return [=](AlignedText& text) {
    std::size_t begin = text.text.size(), end = 0;
    for (std::size_t at = 0; at < text.text.size();) {
      const std::size_t start = at;
      if (is_white_space(next_code_point(text.text, at))) continue;
      begin = std::min(begin, start);
      end = at;
    }
    if (!left) begin = 0;
    if (!right) end = text.text.size();
    Rewrite rewrite(text);
    rewrite.drop(begin);
    if (end > begin) rewrite.keep(end - begin);
    text = rewrite.finish();
  };
}

Normalizer replace(const JsonNode& node) {
  const Pattern pattern = read_pattern(node.at("pattern"));
  const std::string content = node.at("content").text();
  return [=](AlignedText& text) {
    Rewrite rewrite(text);
    pattern.for_each_match(text.text, [&](Span match) {
      rewrite.keep(match.begin - rewrite.at());
      rewrite.replace_span(match.size(), content);
    });
    rewrite.keep(text.text.size() - rewrite.at());
    text = rewrite.finish();
  };
}

Normalizer prepend(const JsonNode& node) {
  const std::string written = node.at("prepend").text();
  return [=](AlignedText& text) {
    if (text.text.empty()) return;
    Rewrite rewrite(text);
    rewrite.replace(0, written);
    rewrite.keep(text.text.size());
    text = rewrite.finish();
  };
}

// Rules of the NMT toolkits for control and space characters.
void nmt(AlignedText& text) {
  filter(text, [](std::uint32_t c) {
    return !((c >= 0x1 && c <= 0x8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F);
  });
  rewrite_characters(text, [](std::string& written, std::uint32_t c) {
    const bool space = c == 0x9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 || (c >= 0x200B && c <= 0x200F) ||
                       c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
    space ? void(written += ' ') : append_utf8(written, c);
  });
}

Normalizer sequence(const JsonNode& node) {
  std::vector<Normalizer> all;
  node.at("normalizers").for_each_item([&](const JsonNode& item) { all.push_back(read_normalizer(item)); });
  return [=](AlignedText& text) {
    for (const Normalizer& one : all) one(text);
  };
}

Normalizer normal_form(NormalForm form) {
  return [=](AlignedText& text) { normalise(text, form); };
}

Normalizer precompiled(const JsonNode& node) {
  const JsonNode map = node.at("precompiled_charsmap");
  const auto charsmap = std::make_shared<const Charsmap>(map.text(), map.place());
  return [=](AlignedText& text) { charsmap->apply(text); };
}

}  // namespace

Pattern read_pattern(const JsonNode& node) {
  if (const auto text = node.find("String")) return Pattern::literal(text->text());
  const JsonNode expression = node.at("Regex");
  return Pattern::expression(expression.text(), expression.place());
}

Normalizer read_normalizer(const JsonNode& node) {
  const std::string type = node.type();
  if (type == "Sequence") return sequence(node);
  if (type == "BertNormalizer") return bert(node);
  if (type == "NFC") return normal_form(NormalForm::nfc);
  if (type == "NFD") return normal_form(NormalForm::nfd);
  if (type == "NFKC") return normal_form(NormalForm::nfkc);
  if (type == "NFKD") return normal_form(NormalForm::nfkd);
  if (type == "Lowercase") return lower;
  if (type == "StripAccents") return [](AlignedText& text) { filter(text, [](auto c) { return !is_mark(c); }); };
  if (type == "Strip") return strip(node);
  if (type == "Replace") return replace(node);
  if (type == "Prepend") return prepend(node);
  if (type == "Precompiled") return precompiled(node);
  if (type == "ByteLevel") return write_bytes_as_characters;
  if (type == "Nmt") return nmt;
  node.fail_unknown_type("normalizer",
                         "Sequence, BertNormalizer, NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, Replace, "
                         "Prepend, Precompiled, ByteLevel, Nmt");
}

}  // namespace comera::data
