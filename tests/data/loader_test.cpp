#include "lib/data/loader.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "lib/core/error.h"
#include "tests/data/scratch.h"

using namespace comera::data;

namespace {

// All contents of a batch as text, for comparison.
std::string print(const Batch& batch) {
  std::string text = fmt::format("{} {} {} {}:", batch.sequences, batch.length, batch.counted, batch.tokens);
  if (batch.sequences == 0) return text;
  for (const char* name : {"input_ids", "token_type_ids", "lengths", "labels", "masked_index", "masked_targets"})
    if (batch.has(name))
      for (std::int32_t value : batch[name].as<std::int32_t>()) text += fmt::format(" {}", value);
  for (std::int64_t value : batch["samples"].as<std::int64_t>()) text += fmt::format(" {}", value);
  return text;
}

std::string next_step(Loader& loader, std::int64_t accumulate = 1) {
  std::vector<Batch> parts(static_cast<std::size_t>(accumulate));
  REQUIRE(loader.next(parts));
  std::string text;
  for (const Batch& part : parts) text += print(part) + "\n";
  return text;
}

std::string word(int length) { return std::string(static_cast<std::size_t>(length), 'a'); }

// `rows` rows; the text of row i has 1 + i % 40 tokens.
std::string tsv(int rows) {
  std::string text = "text\tlabel\n";
  for (int i = 0; i < rows; ++i) text += word(1 + i % 40) + "\t" + (i % 3 == 0 ? "yes" : "no") + "\n";
  return text;
}

// Lines of 0 to 60 tokens, in documents of several lines.
std::string corpus(int lines, int salt) {
  std::string text;
  for (int i = 0; i < lines; ++i) {
    const int n = (i * 7919 + salt) % 61;
    for (int j = 0; j < n; ++j) text += std::string(j ? " " : "") + static_cast<char>('a' + (i + j * j + salt) % 26);
    text += i % 17 == 5 ? "\n\f\n" : "\n";
  }
  return text;
}

struct Corpus {
  Scratch scratch;
  std::shared_ptr<const TextDataset> rows(int count = 3000) {
    DataSpec spec;
    spec.files = {scratch.write("rows.tsv", tsv(count))};
    spec.text = {"text"};
    spec.label = "label";
    return Dataset::open(spec, letters());
  }
  std::shared_ptr<const TextDataset> stream(int lines = 4000) {
    for (int i = 0; i < 3; ++i) scratch.write(fmt::format("part{}.txt", i), corpus(lines, i));
    DataSpec spec;
    spec.files = {scratch.path("part*.txt")};
    spec.task = Task::mlm;
    spec.max_length = 32;
    return Dataset::open(spec, letters());
  }
};

LoaderOptions options(std::int64_t batch = 32, bool shuffle = true) {
  LoaderOptions made;
  made.batch = batch;
  made.seed = 11;
  made.shuffle = shuffle;
  return made;
}

void resumes_anywhere(const std::shared_ptr<const TextDataset>& dataset, int steps, std::initializer_list<int> stops) {
  std::vector<std::string> undisturbed;
  std::vector<LoaderState> states;
  const auto loader = Loader::open(dataset, options());
  for (int i = 0; i < steps; ++i) {
    states.push_back(loader->state());
    undisturbed.push_back(next_step(*loader));
  }
  for (int stop : stops) {
    const auto state = LoaderState::from_json(states[static_cast<std::size_t>(stop)].to_json());
    const auto again = Loader::open(dataset, options(), state);
    for (int i = stop; i < std::min(steps, stop + 40); ++i)
      CHECK(next_step(*again) == undisturbed[static_cast<std::size_t>(i)]);
  }
}

}  // namespace

TEST_CASE("loader: an epoch returns every row once and drops nothing") {
  Corpus corpus;
  const auto dataset = corpus.rows(1000);
  const auto loader = Loader::open(dataset, options());
  CHECK(loader->steps_per_epoch() == 32);
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    std::set<std::int64_t> samples;
    std::int64_t rows = 0;
    for (std::int64_t step = 0; step < 32; ++step) {
      CHECK(loader->state().epoch == epoch);
      CHECK(loader->state().step == step);
      Batch batch;
      REQUIRE(loader->next(batch));
      CHECK(loader->epoch_ended() == (step == 31));
      CHECK(batch.sequences == (step < 31 ? 32 : 8));
      CHECK(batch.length % 8 == 0);
      rows += batch.sequences;
      for (std::int64_t sample : batch["samples"].as<std::int64_t>()) samples.insert(sample);
    }
    CHECK(rows == 1000);
    CHECK(samples.size() == 1000);
    CHECK(*samples.begin() == epoch * 1000);
    CHECK(*samples.rbegin() == epoch * 1000 + 999);
  }
}

TEST_CASE("loader: batches are bucketed by length and have the labels of their rows") {
  Corpus corpus;
  const auto dataset = corpus.rows();
  CHECK(dataset->labels() == std::vector<std::string>{"no", "yes"});
  const auto loader = Loader::open(dataset, options());
  double padded = 0, tokens = 0;
  for (int i = 0; i < 90; ++i) {
    Batch batch;
    REQUIRE(loader->next(batch));
    padded += static_cast<double>(batch.sequences * batch.length);
    tokens += static_cast<double>(batch.tokens);
    for (std::int64_t b = 0; b < batch.sequences; ++b) {
      const std::int64_t row = batch["samples"].as<std::int64_t>()[static_cast<std::size_t>(b)] % 3000;
      CHECK(batch["lengths"].as<std::int32_t>()[static_cast<std::size_t>(b)] == 3 + row % 40);
      CHECK(batch["labels"].as<std::int32_t>()[static_cast<std::size_t>(b)] == (row % 3 == 0));
    }
  }
  CHECK(padded < 1.25 * tokens);  // without buckets the ratio is 43 / 22.5 = 1.9
}

TEST_CASE("loader: evaluation returns the rows in order, once") {
  Corpus corpus;
  const auto dataset = corpus.rows(100);
  const auto loader = Loader::open(dataset, options(32, false));
  std::int64_t row = 0;
  for (Batch batch; loader->next(batch);)
    for (std::int64_t sample : batch["samples"].as<std::int64_t>()) CHECK(sample == row++);
  CHECK(row == 100);
  Batch batch;
  CHECK_FALSE(loader->next(batch));
}

TEST_CASE("loader: k micro-batches equal one batch of k times the size") {
  Corpus corpus;
  const auto dataset = corpus.rows(1000);
  LoaderOptions split = options(8);
  split.accumulate = 4;
  const auto whole = Loader::open(dataset, options(32)), parts = Loader::open(dataset, split);
  for (int i = 0; i < 40; ++i) {
    std::vector<Batch> one(1), four(4);
    REQUIRE(whole->next(one));
    REQUIRE(parts->next(four));
    std::vector<std::int64_t> a, b;
    for (std::int64_t sample : one[0]["samples"].as<std::int64_t>()) a.push_back(sample);
    std::int64_t counted = 0;
    for (const Batch& part : four) {
      counted += part.counted;
      if (part.sequences == 0) continue;
      for (std::int64_t sample : part["samples"].as<std::int64_t>()) b.push_back(sample);
    }
    CHECK(a == b);
    CHECK(counted == one[0].counted);
  }
}

TEST_CASE("loader: the result does not depend on the number of threads") {
  Corpus corpus;
  for (const auto& dataset : {corpus.rows(), corpus.stream()}) {
    LoaderOptions many = options();
    many.threads = 5;
    const auto one = Loader::open(dataset, options()), five = Loader::open(dataset, many);
    for (int i = 0; i < 200; ++i) CHECK(next_step(*one) == next_step(*five));
  }
}

TEST_CASE("loader: rows resume within an epoch without a difference") {
  Corpus corpus;
  resumes_anywhere(corpus.rows(), 200, {0, 1, 15, 16, 17, 93, 94, 150});
}

TEST_CASE("loader: a stream resumes within an epoch without a difference") {
  Corpus corpus;
  const auto dataset = corpus.stream();
  std::int64_t per_epoch = 0;
  {
    const auto loader = Loader::open(dataset, options());
    for (Batch batch; !loader->epoch_ended(); ++per_epoch) REQUIRE(loader->next(batch));
  }
  REQUIRE(per_epoch > 200);
  resumes_anywhere(
      dataset, static_cast<int>(per_epoch) + 50,
      {0, 15, 16, 100, static_cast<int>(per_epoch) - 1, static_cast<int>(per_epoch), static_cast<int>(per_epoch) + 20});
}

TEST_CASE("loader: a stream packs every token of every line, in order") {
  Corpus corpus;
  const auto dataset = corpus.stream(500);
  Ids wanted, packed;
  for (const std::string& file : dataset->files()) {
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);)
      if (line != "\f") dataset->tokenizer().encode(line, wanted);
  }
  const auto loader = Loader::open(dataset, options(32, false));
  std::int64_t sample = 0, last_length = 0, short_ones = 0, separators = 0;
  for (Batch batch; loader->next(batch);) {
    Ids ids(batch["input_ids"].as<std::int32_t>().begin(), batch["input_ids"].as<std::int32_t>().end());
    for (std::int64_t i = 0; i < batch.counted; ++i) {
      const auto slot = static_cast<std::size_t>(i);
      ids[static_cast<std::size_t>(batch["masked_index"].as<std::int32_t>()[slot])] =
          batch["masked_targets"].as<std::int32_t>()[slot];
    }
    for (std::int64_t b = 0; b < batch.sequences; ++b) {
      last_length = batch["lengths"].as<std::int32_t>()[static_cast<std::size_t>(b)];
      short_ones += last_length < 31;  // a final [SEP] between documents is omitted
      CHECK(batch["samples"].as<std::int64_t>()[static_cast<std::size_t>(b)] == sample++);
      const auto begin = ids.begin() + b * batch.length;
      CHECK(*begin == 2);
      CHECK(*(begin + last_length - 1) == 3);
      separators += std::count(begin + 1, begin + last_length - 1, 3);
      std::copy_if(begin + 1, begin + last_length - 1, std::back_inserter(packed),
                   [](std::int32_t id) { return id != 3; });
    }
  }
  CHECK(packed == wanted);
  CHECK(short_ones <= 1);
  CHECK(separators > 60);  // 89 documents end; separators appear for those inside a sequence
}

TEST_CASE("loader: epochs of a stream have different orders and the same amount of text") {
  Corpus corpus;
  const auto dataset = corpus.stream(300);
  const auto loader = Loader::open(dataset, options());
  CHECK(loader->steps_per_epoch() == 0);
  std::vector<std::int64_t> tokens;
  std::vector<std::string> first;
  std::int64_t samples = 0;
  for (int epoch = 0; epoch < 3; ++epoch) {
    tokens.push_back(0);
    Batch batch;
    do {
      REQUIRE(loader->next(batch));
      tokens.back() += batch.tokens;
      samples += batch.sequences;
    } while (!loader->epoch_ended());
    first.push_back(print(batch));
    CHECK(loader->state().epoch == epoch + 1);
    CHECK(loader->state().samples == samples);
  }
  CHECK(std::abs(static_cast<double>(tokens[1] - tokens[0])) <
        200);  // another order of files shifts the sequence borders
  CHECK(first[0] != first[1]);
}

TEST_CASE("loader: a pair is [CLS] a [SEP] b [SEP], trimmed, with types 0 and 1") {
  DataSpec spec;
  spec.text = {"a", "b"};
  spec.max_length = 12;
  const auto dataset =
      Dataset::from_rows(spec, letters(), {{"abc", "de"}, {word(20), "de"}, {word(20), word(20)}, {"", ""}}, {}, {});
  const auto loader = Loader::open(dataset, options(4, false));
  Batch batch;
  REQUIRE(loader->next(batch));
  CHECK(batch.length == 16);
  const auto ids = batch["input_ids"].as<std::int32_t>();
  CHECK(Ids(ids.begin(), ids.begin() + 8) == Ids{2, 5, 32, 33, 3, 8, 35, 3});  // b and c are ##b, ##c
  CHECK(Ids(ids.begin() + 16, ids.begin() + 29) == Ids{2, 5, 31, 31, 31, 31, 31, 31, 3, 8, 35, 3, 0});
  CHECK(Ids(ids.begin() + 32, ids.begin() + 45) == Ids{2, 5, 31, 31, 31, 3, 5, 31, 31, 31, 31, 3, 0});
  CHECK(Ids(ids.begin() + 48, ids.begin() + 52) == Ids{2, 3, 3, 0});
  const auto types = batch["token_type_ids"].as<std::int32_t>();
  CHECK(Ids(types.begin(), types.begin() + 9) == Ids{0, 0, 0, 0, 0, 1, 1, 1, 0});
  CHECK(batch.counted == 0);
  CHECK(loader->longest() == 16);
}

TEST_CASE("loader: JSONL records are documents of the mlm task") {
  const Scratch scratch;
  DataSpec spec;
  spec.files = {scratch.write("x.jsonl", "{\"text\": \"a b\\nc\"}\n{\"text\": \"d\"}\n")};
  spec.task = Task::mlm;
  const auto loader = Loader::open(Dataset::open(spec, letters()), options(4, false));
  Batch batch;
  REQUIRE(loader->next(batch));
  CHECK(batch.sequences == 1);
  CHECK(batch["lengths"].as<std::int32_t>()[0] == 7);  // [CLS] a b c [SEP] d [SEP]
  CHECK(batch["input_ids"].as<std::int32_t>()[4] == 3);
}

TEST_CASE("loader: the hash depends on the bytes of the files") {
  const Scratch scratch;
  DataSpec spec;
  spec.files = {scratch.write("a.tsv", "text\nabc\n")};
  spec.text = {"text"};
  const std::string hash = Dataset::open(spec, letters())->hash();
  CHECK(hash.size() == 32);
  CHECK(Dataset::open(spec, letters())->hash() == hash);
  scratch.write("a.tsv", "text\nabd\n");
  CHECK(Dataset::open(spec, letters())->hash() != hash);
}

TEST_CASE("loader: unusable data gives an error message") {
  const Scratch scratch;
  DataSpec spec;
  spec.text = {"text"};
  spec.label = "label";
  const auto refused = [&](const std::vector<std::string>& files, const std::string& message,
                           const std::vector<std::string>& labels = {}) {
    spec.files = files;
    CHECK_THROWS_AS(Dataset::open(spec, letters(), labels), comera::InputError);
    CHECK_THROWS_WITH(Dataset::open(spec, letters(), labels), Catch::Contains(message));
  };
  refused({scratch.path("none.tsv")}, "none.tsv: no such file");
  refused({scratch.path("*.tsv")}, "*.tsv: no file matches");
  refused({}, "no data file is named");
  refused({scratch.path("")}, "is a folder");
  refused({scratch.write("empty.tsv", "")}, "empty.tsv: there are no rows");
  refused({scratch.write("head.tsv", "text\tlabel\n")}, "head.tsv: there are no rows");
  refused({scratch.write("dev.tsv", "text\tlabel\na\tx\n")},
          "dev.tsv: line 2: unknown label 'x'; the labels are 'no', 'yes'", {"no", "yes"});
  refused({scratch.write("a.txt", "a\n")}, "a.txt: labelled rows are read from .csv, .tsv or .jsonl");
  CHECK_THROWS_WITH(Dataset::from_rows(spec, letters(), {}, {}, {"no", "yes"})->label_index("ye"),
                    Catch::Contains("unknown label 'ye'; the labels are no, yes; did you mean yes?"));

  spec.max_length = 4;
  refused({scratch.path("dev.tsv")}, "a length of 4 tokens is too short; use --seq 8 or more");
  spec.max_length = 128;
  spec.task = Task::mlm;
  spec.text = {"body"};
  refused({scratch.path("dev.tsv")}, "has no column 'body'");
  refused({scratch.write("a.txt", "a\n")}, "a.txt: --text names columns, and a text file has none");
  refused({scratch.write("a.dat", "a\n")}, "a.dat: the name does not tell what the file holds");
  refused({scratch.write("a.parquet", "PAR1")}, "a.parquet: parquet is not read");
  refused({scratch.write("b.txt", "PAR1\x15\x04")}, "b.txt: parquet is not read");
  spec.text = {"text", "body"};
  spec.task = Task::clm;
  refused({scratch.path("dev.tsv")}, "the clm task reads one column, but --text names text, body");
}

TEST_CASE("loader: errors in streamed data are rethrown by next(), with file and line") {
  const Scratch scratch;
  DataSpec spec;
  spec.task = Task::mlm;
  const auto refused = [&](const std::string& file, const std::string& message) {
    spec.files = {file};
    const auto loader = Loader::open(Dataset::open(spec, letters()), options(4, false));
    Batch batch;
    CHECK_THROWS_WITH(loader->next(batch), Catch::Contains(message));
  };
  spec.files = {scratch.write("empty.txt", "\n \n")};
  CHECK_THROWS_WITH(Dataset::open(spec, letters()), Catch::Contains("empty.txt: holds no text"));
  refused(scratch.write("bad.txt", "fine\nna\xEFve\n"), "bad.txt: line 2: byte 3 (0xEF) is not UTF-8");
  refused(scratch.write("x.jsonl", "{\"text\": \"a\"}\n{\"txt\": 1}\n"), "x.jsonl: line 2: has no key 'text'");
}

// All tokens of a pass, without special pieces.
std::vector<std::int32_t> pass(const DataSpec& spec, const LoaderState& state = {}) {
  LoaderOptions in_order = options(4, false);
  const auto loader = Loader::open(Dataset::open(spec, letters()), in_order, state);
  std::vector<std::int32_t> ids;
  for (Batch batch; loader->next(batch);)
    for (std::int64_t b = 0; b < batch.sequences; ++b) {
      const auto row = batch["input_ids"].as<std::int32_t>().subspan(static_cast<std::size_t>(b * batch.length));
      const auto length = static_cast<std::size_t>(batch["lengths"].as<std::int32_t>()[static_cast<std::size_t>(b)]);
      for (const std::int32_t id : row.first(length))
        if (id > 4) ids.push_back(id);
    }
  return ids;
}

TEST_CASE("loader: a very long line has the tokens of its words, in bounded memory") {
  const Scratch scratch;
  std::string line, words;
  for (int i = 0; line.size() < (std::size_t{3} << 20); ++i) {
    const std::string word = {static_cast<char>('a' + i % 26), static_cast<char>('a' + i / 26 % 26)};
    line += (i ? " " : "") + word;
    words += word + "\n";
  }
  for (const Task task : {Task::mlm, Task::clm}) {
    DataSpec spec;
    spec.task = task;
    spec.max_length = 512;
    spec.files = {scratch.write("words.txt", words)};
    const std::vector<std::int32_t> wanted = pass(spec);
    spec.files = {scratch.write("line.txt", line)};
    CHECK(pass(spec) == wanted);
    spec.files = {scratch.write("line.csv", "text\n\"" + line + "\"\n")};
    CHECK(pass(spec) == wanted);
  }
}

TEST_CASE("loader: an evaluation tells how far it is in a line that is longer than a window") {
  Scratch scratch;
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += "a ";
  DataSpec spec;
  spec.files = {scratch.write("line.txt", text)};
  spec.task = Task::mlm;
  spec.max_length = 32;
  const auto loader = Loader::open(Dataset::open(spec, letters()), options(4, false));
  std::vector<Batch> parts(1);
  std::int64_t before = 0, steps = 0;
  while (loader->next(parts)) {
    const Reach reach = loader->reach();
    CHECK(reach.done > before);
    CHECK(reach.of == std::ssize(text));
    before = reach.done;
    CHECK(before <= 80 * (steps + 2) * 4);  // two bytes a token
    ++steps;
    if (loader->epoch_ended()) break;
  }
  CHECK(steps > 800);
  CHECK(before == std::ssize(text));
}

TEST_CASE("loader: a corpus in a table is read by column, one document per row, and resumes anywhere") {
  const Scratch scratch;
  std::string csv = "id,body,label\n", jsonl, tsv = "label\tbody\n";
  for (int i = 0; i < 3000; ++i) {
    const std::string first = word(1 + i % 7), second = word(1 + i % 5);
    csv += fmt::format("{},\"{},\n\"\"{}\"\"\",no\n", i, first, second);
    tsv += fmt::format("no\t{},  \"{}\"\n", first, second);
    jsonl += fmt::format("{{\"body\": \"{},\\n\\\"{}\\\"\", \"label\": \"no\"}}\n", first, second);
  }
  DataSpec spec;
  spec.max_length = 32;
  spec.text = {"body"};
  for (const Task task : {Task::mlm, Task::clm}) {
    spec.task = task;
    spec.files = {scratch.write("a.csv", csv)};
    const auto wanted = pass(spec);
    CHECK(wanted.size() > 6000);
    resumes_anywhere(Dataset::open(spec, letters()), 300, {0, 1, 63, 64, 65, 200, 299});
    spec.files = {scratch.write("a.tsv", tsv)};
    CHECK(pass(spec) == wanted);
    spec.files = {scratch.write("a.jsonl", jsonl)};
    CHECK(pass(spec) == wanted);
    spec.files = {scratch.write("a.dat", csv)};
    spec.format = Format::csv;
    CHECK(pass(spec) == wanted);
    spec.format = std::nullopt;
  }
}

TEST_CASE("loader: resuming inside a long line gives the batches of the whole pass") {
  const Scratch scratch;
  std::string line;
  for (int i = 0; line.size() < (std::size_t{2} << 20); ++i)
    line += std::string(i ? " " : "") + static_cast<char>('a' + i * i % 26);
  DataSpec spec;
  spec.task = Task::mlm;
  spec.max_length = 128;
  spec.files = {scratch.write("a.txt", "a b c\n" + line + "\nd e f\n")};
  resumes_anywhere(Dataset::open(spec, letters()), 250, {1, 64, 100, 130, 249});
}

TEST_CASE("loader: positions that do not fit the data are refused") {
  Corpus corpus;
  const auto dataset = corpus.rows(100);
  const auto refused = [&](LoaderState state, const std::string& message) {
    const auto open_and_read = [&] {
      Batch batch;
      Loader::open(dataset, options(), state)->next(batch);
    };
    CHECK_THROWS_WITH(open_and_read(), Catch::Contains(message));
  };
  LoaderState state;
  state.samples = 100;
  refused(state, "outside the 100 rows");
  state.samples = 0;
  state.step = 4;
  refused(state, "behind the end of the data");
  state.window = 1;
  refused(state, "contradicts itself: step 4 in window 1");
  CHECK_THROWS_WITH(LoaderState::from_json("{}"), Catch::Contains("'epoch' must be a whole number"));
  CHECK_THROWS_AS(LoaderState::from_json("["), comera::InputError);
}
