// Batches of pairs for masked words, of whole words, and of the tasks with labels of words, sets of labels and pairs.
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "lib/core/error.h"
#include "lib/data/collate.h"
#include "lib/data/loader.h"
#include "lib/data/word_pieces.h"
#include "tests/data/scratch.h"

using namespace comera::data;

namespace {

using Numbers = std::vector<std::int32_t>;

Numbers numbers(const Batch& batch, const char* name) {
  const auto view = batch[name].as<const std::int32_t>();
  return {view.begin(), view.end()};
}

Numbers row_of(const Batch& batch, const char* name, std::int64_t row, std::int64_t length) {
  const auto view = batch[name].as<const std::int32_t>().subspan(static_cast<std::size_t>(row * batch.length));
  return {view.begin(), view.begin() + length};
}

DataSpec spec_of(const Scratch& scratch, const std::string& rows, Task task, std::vector<std::string> text) {
  DataSpec spec;
  spec.files = {scratch.write("rows.tsv", rows)};
  spec.task = task;
  spec.text = std::move(text);
  if (has_classes(task)) spec.label = "label";
  return spec;
}

Batch first_batch(const DataSpec& spec, std::int64_t sequences, bool shuffle = false) {
  LoaderOptions options;
  options.batch = sequences;
  options.shuffle = shuffle;
  options.seed = 3;
  Batch batch;
  REQUIRE(Loader::open(Dataset::open(spec, letters()), options)->next(batch));
  return batch;
}

// A piece that is masked is [MASK] or another piece, so lengths and types are compared, and targets.
std::map<std::int32_t, std::int32_t> targets_of(const Batch& batch) {
  std::map<std::int32_t, std::int32_t> targets;
  const Numbers index = numbers(batch, "masked_index"), words = numbers(batch, "masked_targets");
  for (std::size_t i = 0; i < index.size(); ++i)
    if (index[i] >= 0) targets[index[i]] = words[i];
  return targets;
}

}  // namespace

TEST_CASE("pairs for masked words: the first text is cut, the second goes on behind the first text again") {
  const Scratch scratch;
  DataSpec spec = spec_of(scratch, "doc\tcode\na b c d e\tf g h i j k l\n\tn o\np\t\n", Task::mlm, {"doc", "code"});
  spec.max_length = 10, spec.first_length = 3;
  const Batch batch = first_batch(spec, 8);
  REQUIRE(batch.sequences == 3);  // the last row has no second text
  CHECK(numbers(batch, "lengths") == Numbers{10, 9, 4});
  const auto restored = [&](std::int64_t row, std::int64_t length) {
    Numbers ids = row_of(batch, "input_ids", row, length);
    for (const auto& [at, id] : targets_of(batch))
      if (at / batch.length == row) ids[static_cast<std::size_t>(at % batch.length)] = id;
    return ids;
  };
  CHECK(restored(0, 10) == Numbers{2, 5, 6, 7, 3, 10, 11, 12, 13, 3});  // [CLS] a b c [SEP] f g h i [SEP]
  CHECK(restored(1, 9) == Numbers{2, 5, 6, 7, 3, 14, 15, 16, 3});       // [CLS] a b c [SEP] j k l [SEP]
  CHECK(restored(2, 4) == Numbers{2, 18, 19, 3});                       // [CLS] n o [SEP]
  CHECK(row_of(batch, "token_type_ids", 0, 10) == Numbers{0, 0, 0, 0, 0, 1, 1, 1, 1, 1});
  CHECK(row_of(batch, "token_type_ids", 2, 4) == Numbers{0, 0, 0, 0});
}

TEST_CASE("pairs for masked words resume anywhere, also inside a second text") {
  const Scratch scratch;
  std::string rows = "doc\tcode\n";
  for (int i = 0; i < 400; ++i) {
    rows += std::string(1 + i % 5, 'a') + "\t";
    for (int j = 0; j < i % 90; ++j) rows += std::string(j ? " " : "") + static_cast<char>('a' + (i + j) % 26);
    rows += "\n";
  }
  DataSpec spec = spec_of(scratch, rows, Task::mlm, {"doc", "code"});
  spec.max_length = 16;
  const auto dataset = Dataset::open(spec, letters());
  LoaderOptions options;
  options.batch = 4;
  const auto loader = Loader::open(dataset, options);
  for (int step = 0; step < 300; ++step) {
    const LoaderState state = LoaderState::from_json(loader->state().to_json());
    Batch batch, again;
    REQUIRE(loader->next(batch));
    if (step % 50 != 7) continue;
    REQUIRE(Loader::open(dataset, options, state)->next(again));
    for (const char* name : {"input_ids", "token_type_ids", "lengths", "masked_index", "masked_targets"})
      CHECK(numbers(batch, name) == numbers(again, name));
  }
}

TEST_CASE("whole words are masked with all their pieces or not at all") {
  const Scratch scratch;
  std::string line;
  for (int i = 0; i < 4000; ++i) line += std::string(1 + i % 4, static_cast<char>('a' + i % 26)) + " ";
  DataSpec spec;
  spec.files = {scratch.write("words.txt", line + "\n")};
  spec.task = Task::mlm;
  spec.max_length = 64;
  const auto tokenizer = letters();
  const std::vector<bool> goes_on = pieces_inside_words(*tokenizer);
  CHECK((!goes_on[5] && goes_on[31]));
  LoaderOptions options;
  options.batch = 100;
  options.whole_words = true;
  Batch batch;
  REQUIRE(Loader::open(Dataset::open(spec, tokenizer), options)->next(batch));
  std::map<std::int32_t, std::int32_t> targets = targets_of(batch);
  Numbers ids = numbers(batch, "input_ids");
  for (const auto& [at, id] : targets) ids[static_cast<std::size_t>(at)] = id;
  std::int64_t cut = 0, longer = 0;
  for (std::size_t k = 0; k < ids.size(); ++k) {
    if (!goes_on[static_cast<std::size_t>(ids[k])] || tokenizer->specials().contains(ids[k - 1])) continue;
    const auto at = static_cast<std::int32_t>(k);
    cut += targets.contains(at) != targets.contains(at - 1);
    longer += targets.contains(at);
  }
  CHECK(cut == 0);
  CHECK(longer > 100);
  // 15 % of 62 tokens are 9; the last words that do not fit are left out.
  const double share = static_cast<double>(targets.size()) / static_cast<double>(batch.sequences);
  CHECK((share > 8 && share <= 9));
  options.whole_words = false;
  Batch pieces;
  REQUIRE(Loader::open(Dataset::open(spec, tokenizer), options)->next(pieces));
  CHECK(targets_of(pieces) != targets);
}

TEST_CASE("a word longer than the number of tokens to mask is cut") {
  const auto tokenizer = letters();
  const std::vector<bool> goes_on = pieces_inside_words(*tokenizer);
  Ids ids{2, 5, 31, 31, 31, 31, 31, 31, 31, 31, 31, 31, 31, 3};
  std::vector<std::int32_t> positions, targets;
  mask_tokens(ids, 0, *tokenizer, {0.15, 1, &goes_on}, positions, targets);
  CHECK(positions == std::vector<std::int32_t>{1, 2});
  CHECK(targets == std::vector<std::int32_t>{5, 31});
}

TEST_CASE("sets of labels: one number per text and label") {
  const Scratch scratch;
  const DataSpec spec =
      spec_of(scratch, "text\tlabel\na\tred|blue\nb\t\nc\tgreen\nd\tblue|red|red\n", Task::multilabel, {"text"});
  const auto dataset = Dataset::open(spec, letters());
  CHECK(dataset->labels() == std::vector<std::string>{"blue", "green", "red"});
  const Batch batch = first_batch(spec, 4);
  CHECK(numbers(batch, "label_sets") == Numbers{1, 0, 1, 0, 0, 0, 0, 1, 0, 1, 0, 1});
  CHECK(batch.counted == 12);
  CHECK_THROWS_WITH(Dataset::open(spec, letters(), {"blue", "green"}),
                    Catch::Contains("rows.tsv: line 2: unknown label 'red'; the labels are 'blue', 'green'"));
}

TEST_CASE("labels of words are at the first piece of each word that fits") {
  const Scratch scratch;
  DataSpec spec = spec_of(scratch, "text\tlabel\nabc d ef\tN V N\nab\tV\n", Task::tag, {"text"});
  const auto dataset = Dataset::open(spec, letters());
  CHECK(dataset->labels() == std::vector<std::string>{"N", "V"});
  Batch batch = first_batch(spec, 2);
  CHECK(row_of(batch, "input_ids", 0, 8) == Numbers{2, 5, 32, 33, 8, 9, 36, 3});
  CHECK(row_of(batch, "word_labels", 0, 8) == Numbers{-1, 0, -1, -1, 1, 0, -1, -1});
  CHECK(row_of(batch, "word_labels", 1, 8) == Numbers{-1, 1, -1, -1, -1, -1, -1, -1});
  CHECK(batch.counted == 4);
  spec.label = "";
  CHECK(row_of(first_batch(spec, 2), "word_labels", 0, 8) == Numbers{-1, -2, -1, -1, -2, -2, -1, -1});
  DataSpec wrong = spec_of(scratch, "text\tlabel\na b\tN\n", Task::tag, {"text"});
  CHECK_THROWS_WITH(Dataset::open(wrong, letters()),
                    Catch::Contains("rows.tsv: line 2: the text has 2 words and column 'label' has 1 labels"));
  wrong.text = {"text", "label"};
  CHECK_THROWS_WITH(Dataset::open(wrong, letters()), Catch::Contains("the tag task reads one column"));
}

TEST_CASE("pairs of texts: all first texts, then all second ones in the same order, whatever the order of rows") {
  const Scratch scratch;
  std::string rows = "one\ttwo\n";
  for (int i = 0; i < 26; ++i)
    rows += std::string(1 + i % 5, static_cast<char>('a' + i)) + "\t" + static_cast<char>('a' + i) + "\n";
  DataSpec spec = spec_of(scratch, rows, Task::pairs, {"one", "two"});
  const Batch batch = first_batch(spec, 13, true);
  REQUIRE(batch.sequences == 26);
  CHECK(batch.counted == 13);
  const Numbers ids = numbers(batch, "input_ids"), partners = numbers(batch, "partners");
  const auto samples = batch["samples"].as<const std::int64_t>();
  CHECK(std::set<std::int64_t>(samples.begin(), samples.end()).size() == 26);
  for (std::int64_t i = 0; i < 13; ++i) {
    CHECK(partners[static_cast<std::size_t>(i)] == i);
    const auto first = static_cast<std::size_t>(i * batch.length),
               second = first + 13 * static_cast<std::size_t>(batch.length);
    CHECK(ids[first + 1] == ids[second + 1]);
    CHECK((ids[first] == 2 && ids[second] == 2 && ids[second + 2] == 3));
  }
  spec.text = {"one"};
  CHECK_THROWS_WITH(Dataset::open(spec, letters()), Catch::Contains("the pairs task reads two columns"));
}

TEST_CASE("pairs for masked words need a table, and room for the second text") {
  const Scratch scratch;
  DataSpec spec = spec_of(scratch, "doc\tcode\na\tb\n", Task::mlm, {"doc", "code"});
  spec.max_length = 10, spec.first_length = 7;
  CHECK_THROWS_WITH(Dataset::open(spec, letters()), Catch::Contains("leaves no room for the second in 10 tokens"));
  spec.first_length = 0;
  CHECK_NOTHROW(Dataset::open(spec, letters()));
  spec.files.push_back(scratch.write("text.txt", "a b\n"));
  CHECK_THROWS_WITH(Dataset::open(spec, letters()), Catch::Contains("text.txt: --text names columns"));
}
