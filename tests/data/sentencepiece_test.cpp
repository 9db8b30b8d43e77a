#include <catch2/catch.hpp>
#include <cstdlib>

#include "lib/core/error.h"
#include "lib/core/file.h"
#include "lib/data/tokenizer.h"
#include "lib/data/tokenizer_train.h"
#include "tests/data/scratch.h"

using namespace comera::data;

// Ids and texts below are those of the Python package sentencepiece 0.2.3.
TEST_CASE("published SentencePiece models give the reference's ids and text") {
  const char* data = std::getenv("COMERA_DATA");
  if (!data) {
    WARN("COMERA_DATA is not set: SentencePiece models are not tested");
    return;
  }
  const std::string folder = std::string(data) + "/tokenizers/";
  const auto llama = load_tokenizer(folder + "llama2-32k-tokenizer.model");
  CHECK(llama->encode("Hello, world!") == Ids{15043, 29892, 3186, 29991});
  CHECK(llama->encode("  na\xC3\xAFve  \xE6\x97\xA5\xE6\x9C\xAC ") == Ids{259, 1055, 30085, 345, 259, 30325, 30346, 29871});
  CHECK(llama->decode({259, 1055, 30085, 345, 259, 30325, 30346, 29871}) == "  na\xC3\xAFve  \xE6\x97\xA5\xE6\x9C\xAC ");
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

  const auto unigram = load_tokenizer(folder + "sp-test-unigram-1k.model");
  CHECK(unigram->encode("-----") == Ids{4, 35, 415, 415});
}

TEST_CASE("a SentencePiece model is saved as it was and refused where it is none") {
  const Scratch scratch;
  TrainTokenizerOptions options;
  options.vocab_size = 20;
  const std::string model = train_sentencepiece(std::vector<std::string>{"abab cdcd abcd", "dcba abab"}, options);
  const auto tokenizer = parse_sentencepiece(model, "m.model");
  tokenizer->save(scratch.path("."));
  const auto again = load_tokenizer(scratch.path("."));
  CHECK(again->hash() == tokenizer->hash());
  CHECK(again->encode("abcd") == tokenizer->encode("abcd"));
  CHECK_THROWS_WITH(tokenizer->decode({1000}), Catch::Contains("id 1000 is outside the vocabulary"));
  CHECK_THROWS_WITH(parse_sentencepiece("not a model", "m.model"), Catch::Contains("m.model: is not a SentencePiece model"));
  CHECK_THROWS_WITH(parse_sentencepiece("", "m.model"), Catch::Contains("m.model: is not a SentencePiece model"));
  CHECK_THROWS_AS(parse_sentencepiece(model.substr(0, model.size() / 2), "m.model"), comera::InputError);
}
