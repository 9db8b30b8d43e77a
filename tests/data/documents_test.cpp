// Task clm: packed documents, each with its own positions, and windows that count every token once.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "lib/data/corpus.h"
#include "lib/data/loader.h"
#include "tests/data/scratch.h"

using namespace comera::data;

namespace {

// Letters 'a' .. 'z' are ids 5 .. 30. Documents begin with [CLS] 2 and end with [SEP] 3.
std::shared_ptr<const Dataset> documents(const Scratch& scratch, const std::string& name, const std::string& text,
                                         std::int64_t length, bool ends = true) {
  DataSpec spec;
  spec.files = {scratch.write(name, text)};
  spec.task = Task::clm;
  spec.max_length = length;
  spec.ends = ends;
  return Dataset::open(spec, letters());
}

LoaderOptions in_order(std::int64_t batch, std::int64_t stride = 0) {
  LoaderOptions options;
  options.batch = batch;
  options.shuffle = false;
  options.stride = stride;
  return options;
}

std::vector<std::int32_t> row(const Batch& batch, const char* name, std::int64_t sequence) {
  const auto all = batch[name].as<const std::int32_t>();
  const auto begin = all.begin() + sequence * batch.length;
  return {begin, begin + batch["lengths"].as<const std::int32_t>()[static_cast<std::size_t>(sequence)]};
}

using Tokens = std::vector<std::int32_t>;

// Counts every predicted token together with the tokens before it in its document.
void add_predictions(const Batch& batch, std::map<std::pair<Tokens, std::int32_t>, int>& seen) {
  for (std::int64_t b = 0; b < batch.sequences; ++b) {
    const Tokens ids = row(batch, "input_ids", b), targets = row(batch, "targets", b),
                 begins = row(batch, "key_begin", b);
    for (std::size_t t = 0; t < ids.size(); ++t)
      if (targets[t] >= 0)
        ++seen[{Tokens(ids.begin() + begins[t], ids.begin() + static_cast<std::ptrdiff_t>(t) + 1), targets[t]}];
  }
}

}  // namespace

TEST_CASE("documents: they are packed with their borders and continue in the next sequence") {
  const Scratch scratch;
  const auto loader =
      Loader::open(documents(scratch, "a.txt", "a b\nc\n\f\nd e f g h i\n\f\n\n\f\nj k\n", 10), in_order(3));
  Batch batch;
  REQUIRE(loader->next(batch));
  REQUIRE(batch.sequences == 2);
  CHECK(batch.length == 16);
  CHECK(row(batch, "input_ids", 0) == Tokens{2, 5, 6, 7, 3, 2, 8, 9, 10, 11});
  CHECK(row(batch, "targets", 0) == Tokens{5, 6, 7, 3, -1, 8, 9, 10, 11, 12});
  CHECK(row(batch, "key_begin", 0) == Tokens{0, 0, 0, 0, 0, 5, 5, 5, 5, 5});
  CHECK(row(batch, "position_ids", 0) == Tokens{0, 1, 2, 3, 4, 0, 1, 2, 3, 4});
  CHECK(row(batch, "input_ids", 1) == Tokens{12, 13, 3, 2, 14, 15, 3});
  CHECK(row(batch, "targets", 1) == Tokens{13, 3, -1, 14, 15, 3, -1});
  CHECK(row(batch, "key_begin", 1) == Tokens{0, 0, 0, 3, 3, 3, 3});
  CHECK(batch.counted == 4 + 7 + 3);  // every token except the first of each document
  CHECK(batch["targets"].as<const std::int32_t>()[10] == -1);
  CHECK(!loader->next(batch));
}

TEST_CASE("documents: a JSONL record is a document, including its line ends") {
  const Scratch scratch;
  const auto loader = Loader::open(
      documents(scratch, "a.jsonl", "{\"text\": \"a b\\nc\"}\n{\"text\": \"d\"}\n", 12, false), in_order(2));
  Batch batch;
  REQUIRE(loader->next(batch));
  CHECK(row(batch, "input_ids", 0) == Tokens{2, 5, 6, 7, 2, 8});
  CHECK(row(batch, "targets", 0) == Tokens{5, 6, 7, -1, 8, -1});
}

TEST_CASE("documents: windows with a stride predict every token once, as packing does") {
  const Scratch scratch;
  std::string text;
  for (int i = 0; i < 75; ++i) text += std::string(i ? " " : "") + static_cast<char>('a' + i * i % 26);
  const auto dataset = documents(scratch, "a.txt", text + "\n\f\na b c\n", 16);
  for (const std::int64_t stride : {std::int64_t{1}, std::int64_t{5}, std::int64_t{12}}) {
    const auto loader = Loader::open(dataset, in_order(4, stride));
    std::map<std::pair<Tokens, std::int32_t>, int> seen;
    std::int64_t counted = 0, shortest = 1000;
    for (Batch batch; loader->next(batch);) {
      counted += batch.counted;
      add_predictions(batch, seen);
    }
    for (const auto& [prediction, times] : seen)
      if (prediction.first.front() != 2)
        shortest = std::min(shortest, static_cast<std::int64_t>(prediction.first.size()));
    CHECK(counted == 76 + 4);
    CHECK(shortest >= 16 - stride);  // smallest context of a token after the first window
  }
}

TEST_CASE("documents: a long document is cut at a line end and continues without a border") {
  const Scratch scratch;
  std::string line, text;
  for (int i = 0; i < 500; ++i) line += i ? " a" : "a";
  while (text.size() < Corpus::longest_piece + 5000) text += line + "\n";
  const auto lines = static_cast<std::int64_t>(std::count(text.begin(), text.end(), '\n'));
  const auto dataset = documents(scratch, "a.txt", text, 100);
  const auto loader = Loader::open(dataset, in_order(64));
  std::int64_t counted = 0, tokens = 0;
  for (Batch batch; loader->next(batch);) counted += batch.counted, tokens += batch.tokens;
  CHECK(tokens == lines * 500 + 2);
  CHECK(counted == tokens - 1);
}

TEST_CASE("documents: a stream resumes at any step, also inside a long document") {
  const Scratch scratch;
  std::string text;
  for (int i = 0; text.size() < Corpus::longest_piece + 300000; ++i) {
    for (int j = 0; j < 40; ++j) text += std::string(j ? " " : "") + static_cast<char>('a' + (i * 7 + j * j) % 26);
    text += i % 15000 == 50 ? "\n\f\n" : "\n";
  }
  const auto dataset = documents(scratch, "a.txt", text, 64);
  LoaderOptions options = in_order(32);
  options.shuffle = true;
  options.seed = 3;
  const auto print = [](Loader& loader) {
    Batch batch;
    REQUIRE(loader.next(batch));
    std::string all;
    for (const char* name : {"input_ids", "targets", "key_begin", "position_ids"})
      for (const std::int32_t value : batch[name].as<const std::int32_t>()) all += std::to_string(value) + " ";
    return all;
  };
  const auto loader = Loader::open(dataset, options);
  std::vector<LoaderState> states;
  std::vector<std::string> steps;
  for (int i = 0; i < 330; ++i) {
    states.push_back(loader->state());
    steps.push_back(print(*loader));
  }
  for (const std::size_t stop : {0, 17, 100, 260, 320}) {
    const auto again = Loader::open(dataset, options, LoaderState::from_json(states[stop].to_json()));
    for (std::size_t i = stop; i < stop + 5; ++i) CHECK(print(*again) == steps[i]);
  }
}
