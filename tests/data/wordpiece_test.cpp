#include "lib/data/tokenizer/wordpiece.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "tests/data/scratch.h"

using namespace comera::data;

namespace {

//                                 0      1      2      3      4       5    6     7     8      9   10 11   12
const std::string small_vocab =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nun\n##aff\n##able\nable\n##f\n,\n'\nna\n"
    "##ive\nnaive\n.\n##s\nn't\n\xE6\x97\xA5\n";
//                                 13     14  15  16   17      18

std::shared_ptr<const Tokenizer> small() { return parse_wordpiece(small_vocab, "small.txt"); }

std::string folder() {
  const auto path = std::filesystem::temp_directory_path() / ("comera_wordpiece_" + std::to_string(::getpid()));
  std::filesystem::create_directories(path);
  return path.string();
}

}  // namespace

TEST_CASE("WordPiece: words are cut greedily into the longest pieces") {
  const auto t = small();
  CHECK(t->encode("unaffable") == Ids{5, 6, 7});
  CHECK(t->encode("unaffablex") == Ids{1});  // the whole word is unknown
  CHECK(t->encode("un able, UNAFF") == Ids{5, 8, 10, 5, 6});
  CHECK(t->encode("") == Ids{});
  CHECK(t->encode(" \t\n") == Ids{});
  CHECK(t->encode("nas") == Ids{12, 16});
}

TEST_CASE("WordPiece: text is cleaned, accents are stripped, ideographs are separated") {
  const auto t = small();
  CHECK(t->encode("Na\xC3\xAFve") == Ids{14});
  CHECK(t->encode("nai\xCC\x88ve") == Ids{14});
  CHECK(t->encode("na\xE2\x80\x8Bive") == Ids{14});  // the zero width space is dropped
  CHECK(t->encode("na\xC2\xA0un") == Ids{12, 5});    // the no-break space splits words
  CHECK(t->encode(std::string("na\0ive", 6)) == Ids{14});
  CHECK(t->encode("na\x0Cive") == Ids{14});
  CHECK(t->encode("un\xE6\x97\xA5"
                  "able") == Ids{5, 18, 8});
}

TEST_CASE("WordPiece: special pieces are recognised in text") {
  const auto t = small();
  CHECK(t->encode("un[MASK]able") == Ids{5, 4, 8});
  CHECK(t->encode("[SEP][CLS]") == Ids{3, 2});
  CHECK(t->encode("[mask]") == Ids{1, 1, 1});
  CHECK(t->encode("[") == Ids{1});
}

TEST_CASE("WordPiece: a word of more than 100 characters is unknown") {
  const auto t = parse_wordpiece("[UNK]\na\n##a\n\xC3\xA9\n##\xC3\xA9\n", "v", LetterCase::cased);
  CHECK(t->encode(std::string(100, 'a')).size() == 100);
  CHECK(t->encode(std::string(101, 'a')) == Ids{0});
  std::string accents;
  for (int i = 0; i < 100; ++i) accents += "\xC3\xA9";  // 200 bytes
  CHECK(t->encode(accents).size() == 100);
}

TEST_CASE("WordPiece: the vocabulary and the file beside it decide between cased and uncased") {
  CHECK(parse_wordpiece("[UNK]\nab\n", "v")->encode("AB") == Ids{1});
  CHECK(parse_wordpiece("[UNK]\nAb\n", "v")->encode("Ab ab") == Ids{1, 0});
  CHECK(parse_wordpiece("[UNK]\nAb\n", "v", LetterCase::uncased)->encode("Ab") == Ids{0});
  CHECK(parse_wordpiece("[UNK]\na\xCC\x81\na\n", "v", LetterCase::cased)->encode("a\xCC\x81") == Ids{1});

  const std::string path = folder();
  comera::write_file_atomic(path + "/vocab.txt", "[UNK]\nab\nAB\n");
  comera::write_file_atomic(path + "/tokenizer_config.json", R"({"do_lower_case": true, "strip_accents": null})");
  CHECK(load_tokenizer(path)->encode("AB") == Ids{1});
  CHECK(load_tokenizer(path, LetterCase::cased)->encode("AB") == Ids{2});
  comera::write_file_atomic(path + "/tokenizer_config.json", R"({"do_lower_case": false})");
  CHECK(load_tokenizer(path + "/vocab.txt")->encode("AB") == Ids{2});
  comera::write_file_atomic(path + "/sentence_bert_config.json", R"({"do_lower_case": true})");
  CHECK(load_tokenizer(path)->encode("AB") == Ids{1});
  CHECK(load_tokenizer(path, LetterCase::cased)->encode("AB") == Ids{2});
  comera::write_file_atomic(path + "/sentence_bert_config.json", R"({"do_lower_case": null})");
  CHECK(load_tokenizer(path)->encode("AB") == Ids{2});
  comera::write_file_atomic(path + "/tokenizer_config.json", R"({"do_lower_case": 1})");
  CHECK_THROWS_WITH(load_tokenizer(path), Catch::Contains("\"do_lower_case\" must be true, false or null"));
  std::filesystem::remove_all(path);
}

TEST_CASE("WordPiece: decoding joins pieces and removes blanks before punctuation") {
  const auto t = small();
  CHECK(t->decode({2, 5, 6, 7, 10, 8, 15, 3}) == "unaffable, able.");
  CHECK(t->decode({2, 5, 3}, true) == "[CLS] un [SEP]");
  CHECK(t->decode({7, 5}) == "##able un");  // no piece before it to join
  CHECK(t->decode({12, 17, 11}) == "nan't '");
  CHECK(t->decode({}) == "");
  CHECK_THROWS_WITH(t->decode({19}), Catch::Contains("id 19 is outside the vocabulary of 19 entries"));
  CHECK_THROWS_AS(t->decode({-1}), comera::InputError);
}

TEST_CASE("WordPiece: the memory of a vocabulary depends on its pieces and is limited") {
  std::string vocab = "[UNK]\n";
  for (std::int64_t i = 0; i <= most_pieces; ++i) vocab += fmt::format("{:x}\n", i);
  CHECK_THROWS_WITH(parse_wordpiece(vocab, "v.txt"),
                    Catch::Contains("v.txt: holds 4194306 pieces; at most 4194304 are read"));
  const Scratch scratch;
  CHECK_THROWS_WITH(load_tokenizer(scratch.write("vocab.txt", "[UNK]\n" + std::string(largest_vocabulary, 'x'))),
                    Catch::Contains("larger than the 33554432 bytes"));
}

TEST_CASE("WordPiece: the parts of a cut text have the tokens of the whole") {
  const auto tokenizer = letters();
  const std::string texts[] = {"ab cd ef", "ab,cd.(ef)", "[CLS]ab[SEP]", "\xE6\x97\xA5\xE6\x9C\xAC\xE8\xAA\x9E",
                               "ab\tcd [MASK] e-f"};
  for (const std::string& text : texts)
    for (std::size_t size = 2; size <= text.size(); ++size) {
      const std::string_view window = whole_characters(text, size);
      const Cut cut = tokenizer->cut(window);
      REQUIRE(cut.next >= 1);
      REQUIRE(cut.next <= window.size());
      REQUIRE(cut.end <= cut.next);
      if (cut.end == window.size()) continue;  // no cut: the word or the special piece has no end in the window
      Ids parts;
      tokenizer->encode(text.substr(0, cut.end), parts);
      tokenizer->encode(text.substr(cut.next), parts);
      CHECK(parts == tokenizer->encode(text));
    }
}

TEST_CASE("WordPiece: a saved tokenizer loads as the same tokenizer") {
  const std::string path = folder();
  const auto t = parse_wordpiece(small_vocab, "small.txt", LetterCase::cased);
  t->save(comera::Folder(path));
  const auto again = load_tokenizer(path);
  CHECK(again->hash() == t->hash());
  CHECK(again->encode("NA na") == t->encode("NA na"));
  CHECK(small()->hash() != t->hash());
  CHECK(t->hash().size() == 32);
  std::filesystem::remove_all(path);
}

TEST_CASE("WordPiece: an unusable vocabulary gives an error message") {
  CHECK_THROWS_WITH(parse_wordpiece("a\nb\n", "v.txt"), Catch::Contains("v.txt: holds no [UNK] among its 2 entries"));
  CHECK_THROWS_WITH(parse_wordpiece("", "v.txt"), Catch::Contains("v.txt: is empty"));
  CHECK_THROWS_WITH(parse_wordpiece("[UNK]\na\xFF\n", "v.txt"), Catch::Contains("v.txt: line 2: byte 2 is not UTF-8"));
  CHECK_THROWS_WITH(load_tokenizer("/nowhere/vocab.txt"), Catch::Contains("/nowhere/vocab.txt: there is no such file"));
  CHECK_THROWS_WITH(require_specials(*parse_wordpiece("[UNK]\n", "v.txt"), false),
                    Catch::Contains("v.txt: holds no [CLS]"));
  CHECK_THROWS_WITH(require_specials(*parse_wordpiece("[UNK]\n[CLS]\n[SEP]\n", "v.txt"), true),
                    Catch::Contains("holds no [MASK]"));
}

TEST_CASE("WordPiece: bert-base-uncased gives the published ids") {
  const char* data = std::getenv("COMERA_DATA");
  if (!data) {
    WARN("COMERA_DATA is not set: bert-base-uncased is not tested");
    return;
  }
  const auto t = load_tokenizer(std::string(data) + "/tokenizers/bert-base-uncased-vocab.txt");
  CHECK(t->vocab_size() == 30522);
  CHECK(t->encode("Hello, world!") == Ids{7592, 1010, 2088, 999});
  CHECK(t->specials().pad == 0);
  CHECK(t->specials().unknown == 100);
  CHECK(t->specials().cls == 101);
  CHECK(t->specials().sep == 102);
  CHECK(t->specials().mask == 103);
  CHECK(t->decode(t->encode("Hello, world!")) == "hello, world!");
}
