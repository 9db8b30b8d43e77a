// Small tokenizers whose ids can be worked out by hand, and the errors.
// tests/data/interop/tokenizer_json_against_pypi.py compares every component with the package `tokenizers` on real
// text.
#include <catch2/catch.hpp>

#include "lib/core/error.h"
#include "lib/core/files/folder.h"
#include "lib/data/tokenizer/pipeline/pipeline.h"
#include "lib/data/word_pieces.h"
#include "tests/data/scratch.h"

using namespace comera;
using namespace comera::data;
using Catch::Matchers::Contains;

namespace {

// A tokenizer.json of a model and further members, such as R"("decoder":{...})".
std::string json_of(const std::string& model, const std::string& others = "") {
  return fmt::format(R"({{"version":"1.0",{}{}"model":{}}})", others, others.empty() ? "" : ",", model);
}

Pipeline pipeline_of(const std::string& model, const std::string& others = "") {
  return Pipeline({.tokenizer = json_of(model, others)}, "tokenizer.json");
}

Ids ids_of(const Tokenizer& tokenizer, std::string_view text) { return tokenizer.encode(text); }

std::vector<Span> offsets_of(const Pipeline& pipeline, std::string_view text) {
  Ids ids;
  std::vector<Span> offsets;
  pipeline.encode(text, ids, offsets);
  return offsets;
}

void check_error(const std::string& json, const std::string& wanted) {
  CHECK_THROWS_WITH(Pipeline({.tokenizer = json}, "DIR/tokenizer.json"), Contains(wanted));
}

const std::string letters_model =
    R"({"type":"BPE","vocab":{"h":0,"e":1,"l":2,"o":3,"ll":4,"he":5,"hell":6,"hello":7,"Ġ":8,"Ġhello":9},)"
    R"("merges":[["l","l"],["h","e"],"he ll","hell o",["Ġ","hello"]]})";
const std::string byte_level = R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"use_regex":true},)"
                               R"("decoder":{"type":"ByteLevel"})";
const std::string word_model = R"({"type":"WordLevel","unk_token":"?","vocab":{"?":0,"a":1,"b":2,"<s>":3,"</s>":4}})";
const std::string white_space = R"("pre_tokenizer":{"type":"WhitespaceSplit"})";

}  // namespace

TEST_CASE("tokenizer.json: byte-level BPE merges the pair that was learned first") {
  const Pipeline pipeline = pipeline_of(letters_model, byte_level);
  CHECK(ids_of(pipeline, "hello hello") == Ids{7, 9});
  CHECK(ids_of(pipeline, "helo") == Ids{5, 2, 3});
  CHECK(ids_of(pipeline, "lllo") == Ids{4, 2, 3});
  CHECK(offsets_of(pipeline, "hello hello") == std::vector<Span>{{0, 5}, {5, 11}});
  CHECK(pipeline.decode({7, 9}, false) == "hello hello");
  CHECK(pipeline.vocab_size() == 10);
  CHECK(pipeline.piece(9) == "Ġhello");
  CHECK((pipeline.has(9) && !pipeline.has(10) && !pipeline.has(-1)));
  CHECK_THROWS_WITH(pipeline.piece(10), Contains("id 10 is outside the vocabulary of 10 entries"));
}

TEST_CASE("tokenizer.json: ids may be left out") {
  const Pipeline pipeline = pipeline_of(R"({"type":"WordLevel","unk_token":"a","vocab":{"a":0,"##b":3}})", white_space);
  CHECK(pipeline.vocab_size() == 4);
  CHECK((pipeline.has(0) && !pipeline.has(1) && !pipeline.has(2) && pipeline.has(3)));
  CHECK_THROWS_WITH(pipeline.decode({1}, false), Contains("id 1 is outside the vocabulary"));
  CHECK(pieces_inside_words(pipeline) == std::vector<bool>{false, false, false, true});
}

TEST_CASE("tokenizer.json: an unknown character is the unknown piece, once or joined, or bytes") {
  const std::string head = R"({"type":"BPE","unk_token":"?","vocab":{"?":0,"a":1},"merges":[])";
  CHECK(ids_of(pipeline_of(head + R"(,"fuse_unk":false})"), "axya") == Ids{1, 0, 0, 1});
  CHECK(ids_of(pipeline_of(head + R"(,"fuse_unk":true})"), "axya") == Ids{1, 0, 1});
  std::string bytes = R"({"type":"BPE","byte_fallback":true,"merges":[],"vocab":{)";
  for (int i = 0; i < 256; ++i) bytes += fmt::format(R"("<0x{:02X}>":{},)", i, i);
  const Pipeline fallback = pipeline_of(bytes + R"("a":256}})", R"("decoder":{"type":"ByteFallback"})");
  CHECK(ids_of(fallback, "a\xC3\xA9") == Ids{256, 0xC3, 0xA9});
  CHECK(fallback.decode({256, 0xC3, 0xA9}, false) == "a\xC3\xA9");
}

TEST_CASE("tokenizer.json: Unigram takes the most likely split") {
  const Pipeline pipeline =
      pipeline_of(R"({"type":"Unigram","unk_id":0,"vocab":[["?",0],["a",-2],["b",-2],["ab",-3],["aba",-6.5]]})");
  CHECK(ids_of(pipeline, "ab") == Ids{3});      // -3 is more than -4
  CHECK(ids_of(pipeline, "aba") == Ids{3, 1});  // -5 is more than -6.5
  CHECK(ids_of(pipeline, "axb") == Ids{1, 0, 2});
}

TEST_CASE("tokenizer.json: normalisers keep the origin of what they write") {
  const Pipeline pipeline = pipeline_of(
      word_model, R"("normalizer":{"type":"Sequence","normalizers":[{"type":"NFD"},{"type":"StripAccents"},)"
                  R"({"type":"Lowercase"},{"type":"Replace","pattern":{"Regex":"z+"},"content":"b"}]},)" +
                      white_space);
  CHECK(ids_of(pipeline, "\xC3\x81 zzz") == Ids{1, 2});                              // A with acute accent
  CHECK(offsets_of(pipeline, "\xC3\x81 zzz") == std::vector<Span>{{0, 2}, {5, 6}});  // as the package: the last z
}

TEST_CASE("tokenizer.json: added tokens come before everything else") {
  const auto added = [](const std::string& flags) {
    return R"("added_tokens":[{"id":9,"content":"<x>","special":true)" + flags + "}]," + white_space;
  };
  const Pipeline plain = pipeline_of(word_model, added(""));
  CHECK(ids_of(plain, "a<x>b") == Ids{1, 9, 2});
  CHECK(plain.vocab_size() == 10);
  CHECK(plain.decode({1, 9, 2}, false) == "a b");
  CHECK(plain.decode({1, 9, 2}, true) == "a <x> b");
  const Pipeline alone = pipeline_of(word_model, added(R"(,"single_word":true)"));
  CHECK(ids_of(alone, "a<x>b <x>") == Ids{0, 9});
  CHECK(ids_of(alone, "<x>\u00bd") == Ids{9, 0});  // one half is a number, but no digit
  CHECK(ids_of(alone, "<x>\u200d") == Ids{0});     // a joiner belongs to the word before it
  CHECK(offsets_of(pipeline_of(word_model, added(R"(,"lstrip":true)")), "a  <x>")[1] == Span{1, 6});
}

TEST_CASE("tokenizer.json: joiners are parts of words for Whitespace") {
  const Pipeline words = pipeline_of(word_model, R"("pre_tokenizer":{"type":"Whitespace"})");
  CHECK(offsets_of(words, "a\u200d. a") == std::vector<Span>{{0, 4}, {4, 5}, {6, 7}});
}

TEST_CASE("tokenizer.json: what stands around a text and between two comes from the post-processor") {
  const auto specials = [](const std::string& frame) {
    return pipeline_of(word_model, fmt::format(R"("post_processor":{})", frame)).specials();
  };
  const Specials bert = specials(R"({"type":"BertProcessing","cls":["<s>",3],"sep":["</s>",4]})");
  CHECK(bert.cls == 3);
  CHECK(bert.sep == 4);
  CHECK(bert.separators == 1);
  CHECK(bert.second_type);
  const Specials roberta = specials(R"({"type":"RobertaProcessing","cls":["<s>",3],"sep":["</s>",4]})");
  CHECK(roberta.separators == 2);
  CHECK_FALSE(roberta.second_type);
  const Specials llama =
      specials(R"({"type":"TemplateProcessing","special_tokens":{"<s>":{"id":"<s>","ids":[3]}},)"
               R"("single":[{"SpecialToken":{"id":"<s>"}},{"Sequence":{"id":"A"}}],)"
               R"("pair":[{"SpecialToken":{"id":"<s>"}},{"Sequence":{"id":"A"}},{"SpecialToken":{"id":"<s>"}},)"
               R"({"Sequence":{"id":"B"}}]})");
  CHECK(llama.begin == 3);
  CHECK(llama.sep == -1);
  CHECK(llama.framed);
}

TEST_CASE("tokenizer.json: a text cut into parts has the tokens of the whole") {
  const Pipeline pipeline = pipeline_of(letters_model, byte_level);
  std::string text = "hello";
  for (int i = 0; i < 40; ++i) text += i % 3 ? " hello" : "  hell";
  const Cut place = pipeline.cut(text.substr(0, 200));
  CHECK(place.next < 200);
  Ids parts = pipeline.Tokenizer::encode(std::string_view(text).substr(0, place.end));
  pipeline.encode(std::string_view(text).substr(place.next), parts);
  CHECK(parts == ids_of(pipeline, text));
}

TEST_CASE("tokenizer.json: a folder's copy has the same bytes, ids and special pieces") {
  const Scratch scratch;
  const std::string json = json_of(word_model, white_space), config = R"({"eos_token":{"content":"</s>"}})";
  const std::string path = scratch.write("tokenizer.json", json);
  scratch.write("tokenizer_config.json", config);
  const auto tokenizer = load_tokenizer(path);
  CHECK(tokenizer->specials().end == 4);
  const Scratch copy;
  tokenizer->save(Folder(copy.path("")));
  const auto again = load_tokenizer(copy.path(""));
  CHECK(again->hash() == tokenizer->hash());
  CHECK(again->specials().end == 4);
  CHECK(again->encode("a b c") == Ids{1, 2, 0});
}

TEST_CASE("tokenizer.json: texts are in lower case if sentence-transformers says so beside it") {
  const auto opened = [](const std::string& normalizer, const char* lower) {
    const Scratch scratch;
    scratch.write("tokenizer.json", json_of(word_model, normalizer + white_space));
    scratch.write("sentence_bert_config.json", fmt::format(R"({{"do_lower_case": {}}})", lower));
    return load_tokenizer(scratch.path(""));
  };
  const std::string nfc = R"("normalizer":{"type":"NFC"},)",
                    list = R"("normalizer":{"type":"Sequence","normalizers":[{"type":"NFC"}]},)",
                    lowers = R"("normalizer":{"type":"Sequence","normalizers":[{"type":"Lowercase"}]},)";
  for (const std::string& normalizer : {std::string(), nfc, list}) {
    CHECK(opened(normalizer, "true")->encode("A b <s>") == Ids{1, 2, 3});
    CHECK(opened(normalizer, "false")->encode("A b") == Ids{0, 2});
    CHECK(opened(normalizer, "true")->hash() != opened(normalizer, "false")->hash());
  }
  CHECK(opened(lowers, "true")->hash() == opened(lowers, "false")->hash());
  // The copy in a run's folder has the rule itself.
  const Scratch copy;
  opened(nfc, "true")->save(Folder(copy.path("")));
  CHECK(load_tokenizer(copy.path(""))->encode("A b") == Ids{1, 2});
  copy.write("sentence_bert_config.json", R"({"do_lower_case": true})");
  CHECK(load_tokenizer(copy.path(""))->hash() == opened(nfc, "true")->hash());
}

TEST_CASE("tokenizer.json: vocab.json and merges.txt of gpt2 are the same tokenizer") {
  const Scratch scratch;
  scratch.write("vocab.json", R"({"l":0,"o":1,"lo":2,"Ġ":3,"Ġlo":4,"<|endoftext|>":5})");
  CHECK_THROWS_WITH(load_tokenizer(scratch.path("vocab.json")), Contains("merges.txt is missing beside it"));
  scratch.write("merges.txt", "#version: 0.2\nl o\nĠ lo\n");
  const auto tokenizer = load_tokenizer(scratch.path(""));
  CHECK(tokenizer->encode("lo lo<|endoftext|>") == Ids{2, 4, 5});
  CHECK(tokenizer->decode({2, 4, 5}) == "lo lo");
}

TEST_CASE("tokenizer.json: what is not known or wrong is named with its place") {
  check_error("[1", "DIR/tokenizer.json");
  check_error("{}", "\"model\" is missing");
  check_error(json_of(R"({"type":"CTC","vocab":{}})"), "the model \"CTC\" is not known; known are BPE");
  check_error(json_of(word_model, R"("normalizer":{"type":"Romanise"})"),
              "tokenizer.json.normalizer: the normalizer \"Romanise\" is not known; known are");
  check_error(json_of(word_model, R"("pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"UnicodeScripts"}]})"),
              "pre_tokenizer.pretokenizers[0]: the pre-tokenizer \"UnicodeScripts\" is not known");
  check_error(json_of(word_model, R"("decoder":{"type":"CTC"})"), "the decoder \"CTC\" is not known");
  check_error(json_of(word_model, R"("post_processor":{"type":"X"})"), "the post-processor \"X\" is not known");
  check_error(json_of(R"({"type":"WordLevel","unk_token":"?","vocab":{"?":-1}})"), "-1");
  check_error(json_of(R"({"type":"WordLevel","unk_token":"?","vocab":{"?":4194305}})"), "4194305");
  check_error(json_of(R"({"type":"WordLevel","unk_token":"?","vocab":{"?":0,"a":0}})"), "a");
  check_error(json_of(R"({"type":"BPE","vocab":{"a":0},"merges":[["a","b"]]})"), "merges[0]");
  check_error(json_of(R"({"type":"BPE","vocab":{"a":0},"merges":[],"dropout":0.1})"), "dropout");
  check_error(json_of(word_model, R"("post_processor":{"type":"BertProcessing","cls":["<s>",77],"sep":["</s>",4]})"),
              "id 77 is outside the vocabulary");
}

TEST_CASE("tokenizer.json: regular expressions are those of Oniguruma, and end") {
  const auto matches = [](const char* expression, std::string_view text) {
    std::vector<Span> spans;
    Pattern::expression(expression, "place").for_each_match(text, [&](Span span) { spans.push_back(span); });
    return spans;
  };
  CHECK(matches("a|bc", "abca") == std::vector<Span>{{0, 1}, {1, 3}, {3, 4}});
  CHECK(matches("x*", "axxb") == std::vector<Span>{{1, 3}});  // empty matches are not visited
  CHECK(matches(R"(\s)",
                "a\xE1\xA0\x8E"
                "b")
            .empty());                                                 // U+180E is no white space
  CHECK(matches(R"(\w+)", "e\xCC\x81") == std::vector<Span>{{0, 3}});  // a mark is part of a word
  CHECK_THROWS_WITH(matches("(a", "a"), Contains("place: the regular expression (a cannot be read"));
  CHECK_THROWS_WITH(matches("[a[b]]", "a"), Contains("a class within a class"));
  CHECK_THROWS_WITH(matches("(a+)+$", std::string(60, 'a') + "b"), Contains("takes too many steps"));
}
