#include "lib/data/tokenizer/tokenizer_train.h"

#include <catch2/catch.hpp>
#include <iostream>
#include <map>
#include <set>
#include <sstream>

#include "lib/core/error.h"
#include "lib/data/random.h"
#include "lib/data/tokenizer/pipeline/pipeline.h"
#include "lib/data/tokenizer/sentencepiece_progress.h"
#include "lib/data/tokenizer/training/pair_merger.h"
#include "lib/data/tokenizer/training/tokenizer_files.h"
#include "lib/data/tokenizer/training/word_counts.h"
#include "tests/core/seen_tasks.h"
#include "tests/data/scratch.h"

using namespace comera::data;

namespace {

const std::vector<std::string> hug = {"hug hug hug hug hug hug hug hug hug hug", "pug pug pug pug pug",
                                      "pun pun pun pun pun pun pun pun pun pun pun pun", "bun bun bun bun",
                                      "hugs hugs hugs hugs hugs"};

std::vector<std::string> many_texts() {
  std::vector<std::string> texts;
  const char* words[] = {"tensor", "train", "rank",   "training", "core", "cores",
                         "ranks",  "layer", "layers", "the",      "of",   "and"};
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (int j = 0; j < 8; ++j) text += std::string(j ? " " : "") + words[(i * i + 7 * j * i + j) % 12];
    texts.push_back(text + ".");
  }
  return texts;
}

TextSource source_of(const std::vector<std::string>& texts) {
  return [&texts](const TakeText& take) {
    for (const std::string& text : texts) take(text);
  };
}

std::shared_ptr<const Tokenizer> pipeline_of(const std::string& json, TextFrame frame) {
  return std::make_shared<Pipeline>(PipelineFiles{json, trained_tokenizer_config(frame), ""}, "learned");
}

// Counts all pairs anew for every merge.
class PlainMerger {
 public:
  void add_word(std::vector<std::int32_t> symbols, std::int64_t count) {
    words_.emplace_back(std::move(symbols), count);
  }

  std::optional<SymbolPair> best(std::int64_t least) const {
    std::map<std::pair<std::int32_t, std::int32_t>, std::int64_t> counts;
    for (const auto& [symbols, count] : words_)
      for (std::size_t i = 0; i + 1 < symbols.size(); ++i) counts[{symbols[i], symbols[i + 1]}] += count;
    std::optional<SymbolPair> found;
    for (const auto& [pair, count] : counts)
      if (count >= least) found = SymbolPair{pair.first, pair.second}, least = count + 1;
    return found;
  }

  void merge(SymbolPair pair, std::int32_t made) {
    for (auto& [symbols, count] : words_) {
      std::vector<std::int32_t> after;
      for (std::size_t i = 0; i < symbols.size(); ++i) {
        const bool match = i + 1 < symbols.size() && symbols[i] == pair.left && symbols[i + 1] == pair.right;
        after.push_back(match ? made : symbols[i]);
        i += match;
      }
      symbols = after;
    }
  }

 private:
  std::vector<std::pair<std::vector<std::int32_t>, std::int64_t>> words_;
};

}  // namespace

TEST_CASE("tokenizer train: merges by places are those of counting all pairs anew") {
  const Random random(5, 0, Purpose::sample);
  std::uint64_t drawn = 0;
  const auto below = [&](std::uint32_t limit) {
    return static_cast<std::int32_t>(random.draw(drawn++).word[0] % limit);
  };
  for (int round = 0; round < 200; ++round) {
    PairMerger fast;
    PlainMerger plain;
    const int letters = 1 + round % 4;  // few letters give runs, whose pairs overlap
    for (int word = 0; word < 12; ++word) {
      std::vector<std::int32_t> symbols(static_cast<std::size_t>(1 + below(12)));
      for (std::int32_t& symbol : symbols) symbol = below(static_cast<std::uint32_t>(letters));
      const std::int64_t count = 1 + below(4);
      fast.add_word(symbols, count);
      plain.add_word(symbols, count);
    }
    fast.start();
    // Every fourth merge makes a symbol that exists already, as when two pairs make the same piece.
    for (std::int32_t made = letters;; ++made) {
      const auto a = fast.best(2), b = plain.best(2);
      REQUIRE(a.has_value() == b.has_value());
      if (!a || made > 60) break;
      REQUIRE(a->left == b->left);
      REQUIRE(a->right == b->right);
      const std::int32_t symbol = made % 4 == 3 ? made - 1 : made;
      fast.merge(*a, symbol);
      plain.merge(*b, symbol);
    }
  }
}

TEST_CASE("tokenizer train: a byte-level BPE has the most frequent pairs and restores every text") {
  TrainTokenizerOptions options;
  options.vocab_size = 5 + 256 + 4;
  const std::string json = train_bpe(source_of(hug), options);

  const auto tokenizer = pipeline_of(json, TextFrame::encoder);
  CHECK(tokenizer->vocab_size() == options.vocab_size);
  CHECK(tokenizer->piece(5 + 256) == "ug");
  CHECK(tokenizer->piece(5) == "!");
  options.vocab_size = 400;
  std::vector<std::string> texts = many_texts();
  texts.insert(texts.end(),
               {"na\xC3\xAFve  \xE6\x97\xA5\xE6\x9C\xAC\xE8\xAA\x9E \xD1\x81\xD0\xBB\xD0\xBE\xD0\xB2\xD0\xBE",
                "def f(x):\n\treturn x  # \xF0\x9F\x99\x82"});
  const auto larger = pipeline_of(train_bpe(source_of(texts), options), TextFrame::encoder);
  CHECK(train_bpe(source_of(texts), options) == train_bpe(source_of(texts), options));
  for (const std::string& text : texts) CHECK(larger->decode(larger->encode(text)) == text);
  CHECK(larger->encode("tensor train").size() < 6);
  const Specials& s = larger->specials();
  CHECK(Ids{s.pad, s.cls, s.sep, s.mask} == Ids{0, 2, 3, 4});
  options.frame = TextFrame::decoder;
  const auto decoder = pipeline_of(train_bpe(source_of(texts), options), TextFrame::decoder);
  CHECK(Ids{decoder->specials().pad, decoder->specials().begin, decoder->specials().end} == Ids{0, 2, 3});
  CHECK(decoder->specials().mask == -1);
}

TEST_CASE("tokenizer train: a tokenizer.json has the ids of the vocab.txt or of the SentencePiece model") {
  const auto texts = many_texts();
  TrainTokenizerOptions options;
  options.vocab_size = 60;
  const std::string vocab = train_wordpiece(texts, options);
  const auto words = parse_wordpiece(vocab, "vocab.txt", LetterCase::uncased);
  const auto same = pipeline_of(wordpiece_tokenizer_json(vocab, options.letter_case), TextFrame::encoder);
  const std::string model = train_sentencepiece(texts, options);
  const auto pieces = parse_sentencepiece(model, "model");
  const auto equal = pipeline_of(unigram_tokenizer_json(model, options.frame), TextFrame::encoder);
  for (const std::string& text :
       {texts[0], texts[77], std::string("  Na\xC3\xAFve  RANK \xEF\xBC\xA1 [MASK] cores\t")}) {
    CHECK(same->encode(text) == words->encode(text));
    if (text.find('[') == std::string::npos) CHECK(equal->encode(text) == pieces->encode(text));
  }
  CHECK(equal->decode(equal->encode(texts[5])) == texts[5]);
}

TEST_CASE("tokenizer train: a table of words stays small and keeps the frequent ones") {
  WordCounts counts(100, 10000);
  for (int i = 0; i < 5000; ++i) {
    counts.add("common");
    counts.add("rare" + std::to_string(i));
    if (i % 3 == 0) counts.add("often");
  }
  CHECK(counts.dropped() > 4800);
  const auto words = counts.take_sorted();
  CHECK(words.size() <= 101);
  CHECK(std::is_sorted(words.begin(), words.end()));
  const auto has = [&](const std::string& word, std::int64_t count) {
    return std::find(words.begin(), words.end(), std::pair(word, count)) != words.end();
  };
  CHECK(has("common", 5000));
  CHECK(has("often", 1667));
}

TEST_CASE("tokenizer train: WordPiece merges the most frequent pairs first") {
  // Pairs: ##u ##g 20, ##u ##n 16, h ##u 15; then h ##ug 15, p ##un 12, p ##ug 5 and hug ##s 5.
  TrainTokenizerOptions options;
  options.vocab_size = 5 + 7 + 7 + 4;
  CHECK(train_wordpiece(hug, options) ==
        "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nb\ng\nh\nn\np\ns\nu\n##b\n##g\n##h\n##n\n##p\n##s\n##u\n##ug\n##"
        "un\nhug\npun\n");
}

TEST_CASE("tokenizer train: rare pairs are not merged and rare characters get no piece") {
  TrainTokenizerOptions options;
  options.vocab_size = 1000;
  options.min_count = 13;
  CHECK(train_wordpiece(hug, options).ends_with("##ug\n##un\nhug\n"));
  options.alphabet = 3;  // u 36, g 20, then p 17 before n 16 and h 15
  options.min_count = 1;
  CHECK(train_wordpiece(hug, options) == "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ng\np\nu\n##g\n##p\n##u\npu\npug\n");
}

TEST_CASE("tokenizer train: a vocabulary encodes its texts without unknowns, and training is deterministic") {
  const auto texts = many_texts();
  TrainTokenizerOptions options;
  options.vocab_size = 60;
  const std::string vocab = train_wordpiece(texts, options);
  CHECK(train_wordpiece(texts, options) == vocab);
  const auto tokenizer = parse_wordpiece(vocab, "trained");
  CHECK(tokenizer->vocab_size() <= 60);
  for (const std::string& text : texts)
    for (std::int32_t id : tokenizer->encode(text)) CHECK(id > 4);
}

TEST_CASE(
    "tokenizer train: SentencePiece models have the special pieces, restore the text, and training is deterministic") {
  const auto texts = many_texts();
  for (const char* model : {"unigram", "bpe"}) {
    TrainTokenizerOptions options;
    options.vocab_size = 60;
    options.model = model;
    options.letter_case = LetterCase::cased;
    const std::string bytes = train_sentencepiece(texts, options);
    CHECK(train_sentencepiece(texts, options) == bytes);
    const auto tokenizer = parse_sentencepiece(bytes, "trained");
    CHECK(tokenizer->vocab_size() <= 60);
    const Specials& s = tokenizer->specials();
    CHECK(Ids{s.pad, s.unknown, s.cls, s.sep, s.mask} == Ids{0, 1, 2, 3, 4});
    for (const std::string& text : {texts[0], texts[77]}) CHECK(tokenizer->decode(tokenizer->encode(text)) == text);
    Ids framed = tokenizer->encode(texts[3]);
    framed.insert(framed.begin(), s.cls);
    framed.push_back(s.sep);
    CHECK(tokenizer->decode(framed) == texts[3]);
  }
}

TEST_CASE("tokenizer train: a sample depends on the seed and keeps the order of the files, for every format") {
  const Scratch scratch;
  std::string text, tsv = "id\ttext\n", jsonl;
  for (int i = 0; i < 100; ++i) {
    text += "line " + std::to_string(i) + "\n\n";
    tsv += std::to_string(i) + "\trow " + std::to_string(i) + "\n";
    jsonl += "{\"text\": \"record " + std::to_string(i) + "\"}\n";
  }
  SampleSpec spec;
  spec.files = {scratch.write("a.txt", text), scratch.write("b.tsv", tsv), scratch.write("c.jsonl", jsonl)};
  spec.lines = 0;
  const auto all = sample_texts(spec);
  REQUIRE(all.size() == 300);
  CHECK(all.front() == "line 0");
  CHECK(all[150] == "row 50");
  CHECK(all.back() == "record 99");
  spec.lines = 50;
  spec.seed = 3;
  const auto some = sample_texts(spec);
  CHECK(some.size() == 50);
  CHECK(some == sample_texts(spec));
  auto rest = all.begin();
  for (const std::string& one : some) {
    rest = std::find(rest, all.end(), one);
    REQUIRE(rest != all.end());
  }
  spec.seed = 4;
  CHECK(some != sample_texts(spec));
}

TEST_CASE("tokenizer train: lines of SentencePiece become tasks, and lines of errors pass through") {
  std::ostringstream shown;
  std::streambuf* const before = std::cerr.rdbuf(shown.rdbuf());
  const auto now = [] { return comera::tasks_at_hand().back(); };
  {
    SentencePieceProgress progress(3, 1000);
    progress.sentence_read();
    CHECK(now().what == "reading sentences");
    CHECK(now().done == 1);
    CHECK(now().of == 3);
    std::cerr << "trainer_spec {\n"
              << "unigram.cc(1) LOG(INFO) "
              << "Making suffix array..." << std::endl;
    CHECK(now().what == "indexing substrings");
    std::cerr << "unigram.cc(5) LOG(INFO) EM sub_iter=0 size=1900 obj=9\n";
    CHECK(now().what == "passes over sentences");
    CHECK(now().of == 5);  // 1 of this round, 2 at 1425 pieces, 2 at 1069
    std::cerr << "unigram.cc(5) LOG(INFO) EM sub_iter=1 size=1900 obj=9\n";
    CHECK(now().done == 1);
    std::cerr << "trainer.cc(7) LOG(ERROR) lost\n"
              << "trainer.cc(8) [a == b] wrong\n";
  }
  {
    SentencePieceProgress progress(3, 1000);
    std::cerr << "trainer.cc(6) LOG(INFO) Alphabet size=40\n"
              << "bpe.cc(2) LOG(INFO) Added: freq=3 size=20 all=7\n";
    CHECK(now().what == "merging pieces");
    CHECK(now().done == 60);
    CHECK(now().of == 1000);
  }
  CHECK(std::cerr.rdbuf(before) == shown.rdbuf());
  CHECK(shown.str() == "trainer.cc(7) LOG(ERROR) lost\ntrainer.cc(8) [a == b] wrong\n");
}

TEST_CASE("tokenizer train: the training of SentencePiece models has progress and no messages") {
  std::vector<std::string> texts;
  std::uint64_t state = 1;
  for (int i = 0; i < 8000; ++i) {
    std::string text;
    for (int j = 0; j < 40; ++j) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      text += j % 5 == 4 ? ' ' : static_cast<char>('a' + (state >> 60));
    }
    texts.push_back(text);
  }
  for (const char* kind : {"unigram", "bpe"}) {
    TrainTokenizerOptions options;
    options.model = kind;
    options.vocab_size = 1000;
    std::ostringstream shown;
    std::streambuf* const before = std::cerr.rdbuf(shown.rdbuf());
    comera::SeenTasks seen;
    train_sentencepiece(texts, options);
    const auto& tasks = seen.end();
    std::cerr.rdbuf(before);
    CHECK(shown.str().empty());
    REQUIRE(tasks.contains(options.model == "bpe" ? "merging pieces" : "passes over sentences"));
    const comera::TaskView& task = tasks.at(options.model == "bpe" ? "merging pieces" : "passes over sentences");
    CHECK(task.done > 0);
    CHECK(task.of > 0);
  }
}

TEST_CASE("tokenizer train: unusable texts and options give an error message") {
  const Scratch scratch;
  TrainTokenizerOptions options;
  options.vocab_size = 10;
  CHECK_THROWS_WITH(train_wordpiece(hug, options),
                    Catch::Contains("10 entries has no room for the 19") && Catch::Contains("use --vocab-size 19"));
  CHECK_THROWS_WITH(train_wordpiece(std::vector<std::string>{" "}, options), Catch::Contains("no word to learn from"));
  options.model = "word";
  CHECK_THROWS_WITH(train_sentencepiece(hug, options), Catch::Contains("'unigram' or 'bpe', not 'word'"));
  options.model = "bpe";
  options.vocab_size = 5000;
  CHECK_THROWS_AS(train_sentencepiece(hug, options), comera::InputError);
  options.model = "unigram";
  options.vocab_size = 8;
  CHECK_THROWS_WITH(train_sentencepiece(hug, options),
                    Catch::Contains("more different characters than a vocabulary of 8 pieces has room for") &&
                        Catch::Contains("use a larger --vocab-size"));
  SampleSpec spec;
  spec.files = {scratch.write("empty.txt", "\n \n")};
  CHECK_THROWS_WITH(sample_texts(spec), Catch::Contains("empty.txt: holds no text to learn from"));
}
