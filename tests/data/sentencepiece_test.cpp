#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/data/tokenizer/sentencepiece_check.h"
#include "lib/data/tokenizer/tokenizer.h"
#include "lib/data/tokenizer/tokenizer_train.h"
#include "lib/data/tokenizer/unicode.h"
#include "tests/data/scratch.h"

using namespace comera::data;

namespace {

enum class Type { normal = 1, unknown = 2, user_defined = 4 };
struct Piece {
  std::string text;
  float score;
  Type type = Type::normal;
};

// A length-delimited field of a protobuf message. Every length here is below 128.
std::string field(int number, const std::string& bytes) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
}

// A unigram model of these pieces (ids from 1) that adds no space at the start. Fields of sentencepiece_model.proto:
// piece {text 1, score 2, type 3}, trainer_spec 2 {model_type 3}, normalizer_spec 3 {add_dummy_prefix 3}.
std::shared_ptr<const Tokenizer> unigram_of(std::vector<Piece> pieces) {
  pieces.insert(pieces.begin(), {"<unk>", 0.0f, Type::unknown});
  std::string model;
  for (const Piece& piece : pieces) {
    char score[4];
    std::memcpy(score, &piece.score, 4);
    model += field(1, field(1, piece.text) + '\x15' + std::string(score, 4) + '\x18' + static_cast<char>(piece.type));
  }
  return parse_sentencepiece(model + field(2, {'\x18', 1}) + field(3, {'\x18', 0}), "unigram");
}

// Position and length of a model's precompiled_charsmap: field 2 after the name of the rules.
std::pair<std::size_t, std::size_t> charsmap_of(const std::string& model) {
  std::size_t at = model.find("nmt_nfkc_cf") + 11;
  REQUIRE(model.at(at) == '\x12');
  std::size_t length = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(model.at(++at));
    length |= std::size_t{byte & 0x7fU} << shift;
    if (byte < 0x80) break;
  }
  return {at + 1, length};
}

std::string number(std::uint32_t value) { return {reinterpret_cast<const char*>(&value), 4}; }

// A map of 768 units that match nothing, except the given ones: index, label, offset, and true if a leaf follows. Unit
// 600 is a leaf.
struct MapUnit {
  std::uint32_t index, label, offset;
  bool leaf = false;
};
std::string map_of(const std::vector<MapUnit>& units, const std::string& texts) {
  std::vector<std::uint32_t> array(768, 0x80000000U);
  for (const MapUnit& unit : units) array[unit.index] = unit.label | unit.offset << 10 | (unit.leaf ? 0x100U : 0U);
  std::string map = number(768 * 4);
  for (const std::uint32_t unit : array) map += number(unit);
  return map + texts;
}

}  // namespace

// The ids and texts below come from the Python package sentencepiece 0.2.3.
TEST_CASE("SentencePiece: published models give the ids and text of the reference") {
  const char* data = std::getenv("COMERA_DATA");
  if (!data) {
    WARN("COMERA_DATA is not set: SentencePiece models are not tested");
    return;
  }
  const std::string folder = std::string(data) + "/tokenizers/";
  const auto llama = load_tokenizer(folder + "llama2-32k-tokenizer.model");
  CHECK(llama->encode("Hello, world!") == Ids{15043, 29892, 3186, 29991});
  CHECK(llama->encode("  na\xC3\xAFve  \xE6\x97\xA5\xE6\x9C\xAC ") ==
        Ids{259, 1055, 30085, 345, 259, 30325, 30346, 29871});
  CHECK(llama->decode({259, 1055, 30085, 345, 259, 30325, 30346, 29871}) ==
        "  na\xC3\xAFve  \xE6\x97\xA5\xE6\x9C\xAC ");
  CHECK(llama->vocab_size() == 32000);
  CHECK(llama->specials().cls == 1);  // <s>
  CHECK(llama->specials().sep == 2);  // </s>
  CHECK(llama->specials().mask == -1);
  CHECK_THROWS_WITH(require_specials(*llama, true), Catch::Contains("holds no [MASK]"));

  const auto albert = load_tokenizer(folder + "albert-30k-spiece.model");
  CHECK(albert->encode("Hello, world!") == Ids{13, 1, 7523, 15, 126, 187});
  CHECK(albert->decode({13, 1, 7523, 15, 126, 187}) == " \xE2\x81\x87 ello, world!");
  const Specials& s = albert->specials();
  CHECK(Ids{s.pad, s.unknown, s.cls, s.sep, s.mask} == Ids{0, 1, 2, 3, 4});

  // Segmentations with scores that differ only by the rounding of their sums.
  CHECK(albert->encode("    0.19999999999999996") == Ids{713, 9, 3889, 23170, 23170, 3483, 23170, 4060});
  CHECK(albert->encode("      time.sleep(99999)") == Ids{85, 9, 21092, 5, 23170, 3483, 6});
  CHECK(albert->encode("timeshift=(-)nnn (default 0)") ==
        Ids{85, 14157, 3726, 5, 8, 6, 103, 9377, 13, 5, 13862, 9708, 713, 6});

  const auto unigram = load_tokenizer(folder + "sp-test-unigram-1k.model");
  CHECK(unigram->encode("-----") == Ids{4, 35, 415, 415});
}

TEST_CASE("SentencePiece: a long text is tokenised in parts and has the tokens of the whole") {
  const char* data = std::getenv("COMERA_DATA");
  if (!data) {
    WARN("COMERA_DATA is not set: SentencePiece models are not tested");
    return;
  }
  const std::string folder = std::string(data) + "/tokenizers/";
  const char* words[] = {"The",
                         "  quick",
                         "na\xC3\xAFve",
                         "\xE6\x97\xA5\xE6\x9C\xAC",
                         "fox,",
                         "(12.5)",
                         "\xD1\x81\xD0\xBB\xD0\xBE\xD0\xB2\xD0\xBE",
                         "unhappily",
                         "   x"};
  for (const char* name : {"llama2-32k-tokenizer.model", "sp-test-unigram-1k.model"}) {
    const auto tokenizer = load_tokenizer(folder + name);
    std::string text, part;
    Ids wanted;
    for (std::uint32_t i = 0; text.size() < (std::size_t{1} << 20); ++i) {
      const std::string word = words[(i * 2654435761u >> 8) % std::size(words)];
      // A separate part starts only where a single blank precedes a letter.
      if (part.size() > 5000 && word.front() != ' ' && part.back() != ' ') {
        tokenizer->encode(part, wanted);
        text += part + " ";
        part.clear();
      }
      part += (part.empty() ? "" : " ") + word;
    }
    tokenizer->encode(part, wanted);
    text += part;
    CHECK(tokenizer->encode(text) == wanted);
    Ids start;
    tokenizer->encode_start(text, 1000, start);
    CHECK(start.size() >= 1000);
    CHECK(start.size() < wanted.size() / 4);
    CHECK(std::equal(start.begin(), start.end(), wanted.begin()));
  }
}

// The Python package sentencepiece 0.2.3 returns these ids for the bytes of the three models.
TEST_CASE("SentencePiece: scores of unigram pieces add up and compare as in version 0.2.3") {
  // A user-defined piece scores .1 * (bytes - 1): .2 - 1.05 > -1.0. A single byte scores 0.
  CHECK(unigram_of({{"x", -1.05f}, {"abc", 0, Type::user_defined}, {"xabc", -1.0f}})->encode("xabc") == Ids{1, 2});
  // Sums that differ only by their rounding: it depends on the preceding pieces, and the first of two equal sums wins.
  const auto ties = unigram_of({{"-", 0, Type::user_defined}, {"x", -10.13f}, {"xx", -8.37f}, {"xxx", -4.34f}});
  CHECK(ties->encode("-xxxx") == Ids{1, 2, 4});
  CHECK(ties->encode("-xxxxxxxx") == Ids{1, 3, 4, 4});
  CHECK(ties->encode("x-xxxxxxxx") == Ids{2, 1, 3, 4, 4});
  // Beyond 1e5 the rounding of the sum would lose a score of .002, so the sum restarts.
  const auto far = unigram_of({{"a", -1000.0f}, {"b", -.001f}, {"bb", -.003f}});
  for (const auto& [before, ends] : {std::pair{1, Ids{2, 2}}, {100, Ids{3}}, {101, Ids{2, 2}}, {300, Ids{3}}}) {
    const Ids ids = far->encode(std::string(static_cast<std::size_t>(before), 'a') + "bb");
    CHECK(Ids(ids.begin() + before, ids.end()) == ends);
  }
}

TEST_CASE("SentencePiece: a model is saved unchanged, and other bytes are refused") {
  const Scratch scratch;
  TrainTokenizerOptions options;
  options.vocab_size = 20;
  const std::string model = train_sentencepiece(std::vector<std::string>{"abab cdcd abcd", "dcba abab"}, options);
  const auto tokenizer = parse_sentencepiece(model, "m.model");
  tokenizer->save(comera::Folder(scratch.path(".")));
  const auto again = load_tokenizer(scratch.path("."));
  CHECK(again->hash() == tokenizer->hash());
  CHECK(again->encode("abcd") == tokenizer->encode("abcd"));
  scratch.write("sentence_bert_config.json", R"({"do_lower_case": true})");
  CHECK_THROWS_WITH(load_tokenizer(scratch.path(".")), Catch::Contains("tokenizer.model: sentence_bert_config.json") &&
                                                           Catch::Contains("write the texts in lower case"));
  CHECK_THROWS_WITH(tokenizer->decode({1000}), Catch::Contains("id 1000 is outside the vocabulary"));
  CHECK_THROWS_WITH(parse_sentencepiece("not a model", "m.model"),
                    Catch::Contains("m.model: is not a SentencePiece model"));
  CHECK_THROWS_WITH(parse_sentencepiece("", "m.model"), Catch::Contains("m.model: is not a SentencePiece model"));
  CHECK_THROWS_AS(parse_sentencepiece(model.substr(0, model.size() / 2), "m.model"), comera::InputError);
}

TEST_CASE("a table of a SentencePiece model is refused where a text could leave it") {
  const auto message = [](const std::string& map) -> std::string {
    try {
      check_charsmap(map, "m.model");
    } catch (const comera::InputError& error) {
      return error.what();
    }
    return "accepted";
  };
  const std::string texts("x\0y\0", 4);
  const MapUnit root{0, 0, 256};  // its children begin at unit 256
  const std::uint32_t a = 256 ^ 'a', b = 256 ^ 'b';
  CHECK(message("") == "accepted");
  CHECK(message(map_of({root}, texts)) == "accepted");
  CHECK(message(map_of({root, {a, 'a', a ^ 600U, true}}, texts)) == "accepted");  // "a" becomes "x"; no path continues
  CHECK_THAT(message(map_of({{0, 0, 1024}}, texts)),
             Catch::Contains("m.model") && Catch::Contains("leads out of itself"));
  CHECK_THAT(message(map_of({root, {a, 'a', 1024}}, texts)), Catch::Contains("leads out of itself"));
  CHECK_THAT(message(map_of({root, {a, 'a', a ^ 256U}}, texts)), Catch::Contains("no end"));
  CHECK_THAT(message(map_of({root, {b, 'b', b ^ 256U, true}}, texts)), Catch::Contains("no end"));
  CHECK_THAT(message(map_of({root, {a, 'a', a ^ 600U, true}}, "x")),
             Catch::Contains("has no end or more than 1024 bytes"));
  CHECK_THAT(message(map_of({root, {a, 'a', a ^ 600U, true}}, "")), Catch::Contains("leads out of its texts"));
  CHECK_THAT(message(map_of({root, {a, 'a', a ^ 600U, true}}, std::string("\xff\0", 2))), Catch::Contains("not UTF-8"));
  for (const std::uint32_t size : {0U, 1U, 4U, 3073U, 0x10000U, 0xffffffffU}) {
    std::string map = map_of({root}, texts);
    map.replace(0, 4, number(size));
    INFO(size);
    CHECK_THAT(message(map), Catch::Contains("precompiled_charsmap is damaged"));
  }
  CHECK_THAT(message("abc"), Catch::Contains("has no trie"));
  CHECK_THAT(message(std::string(5 << 20, 'x')), Catch::Contains("more than 4 MiB"));
}

TEST_CASE("a SentencePiece model whose table has rotted anywhere is refused or reads every text") {
  TrainTokenizerOptions options;
  options.vocab_size = 20;
  const std::string model = train_sentencepiece(std::vector<std::string>{"abab cdcd abcd", "dcba abab"}, options);
  const auto [begin, length] = charsmap_of(model);
  REQUIRE(length > 100'000);
  std::string text;
  for (std::uint32_t point = 1; point < 0x3000; ++point) append_utf8(text, point);
  // Consecutive unknown characters are one piece.
  CHECK(parse_sentencepiece(model, "whole")->encode(text).size() > 100);
  int refused = 0;
  for (std::uint32_t round = 0; round < 150; ++round) {
    std::string damaged = model;
    // Early units are near the root. A few rounds change the size field and the texts at the end.
    const std::size_t at = round < 4     ? round
                           : round < 100 ? 4 + round * 41
                                         : length - 1 - (round - 100) * (length / 60);
    damaged[begin + at] = static_cast<char>(damaged[begin + at] ^ static_cast<char>(0x11 * (round % 15 + 1)));
    try {
      parse_sentencepiece(damaged, "damaged")->encode(text);
    } catch (const comera::InputError&) {
      ++refused;
    }
  }
  CHECK(refused > 20);
}

TEST_CASE("SentencePiece: the nesting of user-defined pieces is limited") {
  std::vector<Piece> pieces{{"x", -1.0f}};
  std::string text;
  for (int i = 0; i < 64; ++i) pieces.push_back({text += 'a', 0.0f, Type::user_defined});
  CHECK(unigram_of(pieces)->encode(text).size() == 1);
  pieces.push_back({text += 'a', 0.0f, Type::user_defined});
  CHECK_THROWS_WITH(unigram_of(pieces), Catch::Contains("more than 64 pieces"));
}
