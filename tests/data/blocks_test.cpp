// Blocks of a corpus, and epochs that read them in random order.
#include "lib/data/blocks.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "lib/core/error.h"
#include "lib/data/loader.h"
#include "tests/data/scratch.h"

using namespace comera::data;

namespace {

constexpr std::int64_t least = 32 << 10;

// Line i has the digits of i in base 25 as four words of one letter, a to y, and then a z.
std::string numbered(int lines, const std::string& between, int every) {
  std::string text;
  for (int i = 0; i < lines; ++i) {
    for (int digit = 0, left = i; digit < 4; ++digit, left /= 25) text += {static_cast<char>('a' + left % 25), ' '};
    text += "z\n";
    if (i % every == every - 1) text += between;
  }
  return text;
}

DataSpec spec_of(const std::vector<std::string>& files, Task task) {
  DataSpec spec;
  spec.files = files;
  spec.task = task;
  spec.max_length = 32;
  return spec;
}

std::shared_ptr<const FileDataset> open(const DataSpec& spec) {
  return std::dynamic_pointer_cast<const FileDataset>(Dataset::open(spec, letters()));
}

LoaderOptions options(bool shuffle = true) {
  LoaderOptions made;
  made.batch = 8;
  made.seed = 5;
  made.shuffle = shuffle;
  return made;
}

std::string text_of(const Batch& batch, std::int64_t sequence) {
  std::string text;
  std::vector<std::int32_t> ids;
  for (const std::int32_t id : batch["input_ids"].as<const std::int32_t>()) ids.push_back(id);
  if (batch.has("masked_index"))
    for (std::int64_t i = 0; i < batch.counted; ++i)
      ids[static_cast<std::size_t>(batch["masked_index"].as<const std::int32_t>()[static_cast<std::size_t>(i)])] =
          batch["masked_targets"].as<const std::int32_t>()[static_cast<std::size_t>(i)];
  const std::int32_t length = batch["lengths"].as<const std::int32_t>()[static_cast<std::size_t>(sequence)];
  for (std::int64_t t = 0; t < length; ++t) {
    const std::int32_t id = ids[static_cast<std::size_t>(sequence * batch.length + t)];
    text += id >= 5 ? static_cast<char>('a' + id - 5) : id == 2 ? '[' : ']';
  }
  return text;
}

// Sequences of an epoch as text, one character per token: [ and ] are the begin and end of documents.
std::vector<std::string> epoch(const std::shared_ptr<const Dataset>& dataset, const LoaderOptions& options,
                               const LoaderState& state = {}) {
  const auto loader = Loader::open(dataset, options, state);
  std::vector<std::string> sequences;
  for (Batch batch; !loader->epoch_ended() && loader->next(batch);)
    for (std::int64_t b = 0; b < batch.sequences; ++b) sequences.push_back(text_of(batch, b));
  return sequences;
}

std::string sorted_letters(const std::vector<std::string>& sequences) {
  std::string all;
  for (const std::string& text : sequences)
    std::copy_if(text.begin(), text.end(), std::back_inserter(all), [](char c) { return c >= 'a'; });
  std::sort(all.begin(), all.end());
  return all;
}

// The number of the first line that the sequence has whole; -1 if there is none.
int line_of(const std::string& text) {
  for (std::size_t at = text.find('z'); at != std::string::npos; at = text.find('z', at + 1)) {
    if (at + 5 >= text.size() || text[at + 5] != 'z') continue;
    int number = 0;
    for (std::size_t digit = 4; digit > 0; --digit) number = 25 * number + text[at + digit] - 'a';
    return number;
  }
  return -1;
}

}  // namespace

TEST_CASE("blocks: they cover every file once, in its order, and end with a line") {
  const Scratch scratch;
  const std::string text = numbered(40000, "", 1);
  const auto dataset = open(spec_of({scratch.write("a.txt", text), scratch.write("b.txt", "a b c\n")}, Task::mlm));
  const std::vector<Block> blocks = cut_into_blocks(*dataset);
  REQUIRE(blocks.size() == 1 + text.size() / least);
  std::int64_t offset = 0;
  for (std::size_t i = 0; i + 1 < blocks.size(); ++i) {
    const Block& block = blocks[i];
    CHECK(block.file == 0);
    CHECK(block.offset == offset);
    CHECK(block.line == offset / 10);
    CHECK_FALSE(block.inside);
    const bool last = i + 2 == blocks.size();
    CHECK((block.end == Block::end_of_file) == last);
    if (last) break;
    CHECK(block.end % 10 == 0);
    CHECK(block.end - offset >= least);
    CHECK(block.end - offset < least + 10);
    offset = block.end;
  }
  CHECK(blocks.back().file == 1);
  CHECK(blocks.back().end == Block::end_of_file);
}

TEST_CASE("blocks: longer sequences have longer blocks") {
  const Scratch scratch;
  DataSpec spec = spec_of({scratch.write("a.txt", numbered(40000, "", 1))}, Task::mlm);
  spec.max_length = 512;  // 64 sequences of 4 bytes per token
  const std::vector<Block> blocks = cut_into_blocks(*open(spec));
  REQUIRE(blocks.size() == 3);
  CHECK(blocks[0].end == 131080);
}

TEST_CASE("blocks: a document is cut only if it ends too late") {
  const Scratch scratch;
  const auto cut = [&](int every) {
    return cut_into_blocks(*open(spec_of({scratch.write("a.txt", numbered(40000, "\f\n", every))}, Task::clm)));
  };
  for (const Block& block : cut(1000)) CHECK_FALSE(block.inside);
  const std::vector<Block> long_documents = cut(10000);  // of 100,000 bytes: three blocks and a half
  CHECK(std::count_if(long_documents.begin(), long_documents.end(), [](const Block& block) { return block.inside; }) >
        3);
  CHECK_FALSE(long_documents[0].inside);
  for (std::size_t i = 1; i < long_documents.size(); ++i)
    if (long_documents[i].inside) CHECK(long_documents[i - 1].end - long_documents[i - 1].offset >= 2 * least);
}

TEST_CASE("blocks: a line without an end, a packed file and rows with line ends inside") {
  const Scratch scratch;
  std::string line;
  for (int i = 0; i < 100000; ++i) line += "a ";
  CHECK(cut_into_blocks(*open(spec_of({scratch.write("a.txt", line)}, Task::clm))).size() == 1);
  scratch.write("packed.txt", numbered(40000, "", 1));
  REQUIRE(std::system(("gzip " + scratch.path("packed.txt")).c_str()) == 0);
  CHECK(cut_into_blocks(*open(spec_of({scratch.path("packed.txt.gz")}, Task::mlm))).size() == 1);
  std::filesystem::rename(scratch.path("packed.txt.gz"), scratch.path("named.txt"));
  CHECK(cut_into_blocks(*open(spec_of({scratch.path("named.txt")}, Task::mlm))).size() == 1);

  std::string csv = "text\n";
  for (int i = 0; i < 20000; ++i) csv += "\"a b\nc\n\"\n";
  const auto dataset = open(spec_of({scratch.write("a.csv", csv)}, Task::clm));
  const std::vector<Block> blocks = cut_into_blocks(*dataset);
  REQUIRE(blocks.size() == 5);
  for (const Block& block : blocks) CHECK((block.offset == 0 || (block.offset - 5) % 9 == 0));
  CHECK(sorted_letters(epoch(dataset, options())) == sorted_letters(epoch(dataset, options(false))));
}

TEST_CASE("blocks: an epoch has every token once, and its beginning is of all parts of the text") {
  const Scratch scratch;
  const int lines = 100000;            // a megabyte
  const std::size_t beginning = 4096;  // sequences: a quarter of it
  for (const Task task : {Task::mlm, Task::clm}) {
    const auto dataset = open(spec_of({scratch.write("a.txt", numbered(lines, "\f\n", 100))}, task));
    const auto tenths = [&](const std::vector<std::string>& sequences) {
      std::set<int> found;
      for (std::size_t i = 0; i < beginning; ++i)
        if (const int line = line_of(sequences[i]); line >= 0) found.insert(line * 10 / lines);
      return found;
    };
    const std::vector<std::string> in_order = epoch(dataset, options(false)), shuffled = epoch(dataset, options());
    CHECK((sorted_letters(shuffled) == sorted_letters(in_order)));
    CHECK(tenths(shuffled).size() >= 6);
    LoaderState whole;
    whole.parts = 0;
    const std::vector<std::string> windows = epoch(dataset, options(), whole);
    CHECK((sorted_letters(windows) == sorted_letters(in_order)));
    // The beginning ends in the fourth window, with sequence 7,680 of 15,000.
    CHECK(tenths(windows) == std::set<int>{0, 1, 2, 3, 4});
  }
}

TEST_CASE("blocks: a token is predicted from text that stands before it in the file") {
  const Scratch scratch;
  const std::string text = numbered(30000, "\f\n", 29000);  // one long document, cut often
  std::string flat;
  for (const char c : text)
    if (c >= 'a') flat += c;
  const auto dataset = open(spec_of({scratch.write("a.txt", text)}, Task::clm));
  const auto loader = Loader::open(dataset, options());
  std::int64_t predicted = 0, begins = 0, ends = 0;
  for (Batch batch; !loader->epoch_ended();) {
    REQUIRE(loader->next(batch));
    for (std::int64_t b = 0; b < batch.sequences; ++b) {
      const std::string ids = text_of(batch, b);
      begins += std::count(ids.begin(), ids.end(), '[');
      ends += std::count(ids.begin(), ids.end(), ']');
      const auto at = [&](const char* name, std::size_t t) {
        return batch[name].as<const std::int32_t>()[static_cast<std::size_t>(b * batch.length) + t];
      };
      for (std::size_t t = 0; t < ids.size(); ++t) {
        if (at("targets", t) < 5) continue;
        ++predicted;
        std::string seen = ids.substr(static_cast<std::size_t>(at("key_begin", t)));
        seen.resize(t + 1 - static_cast<std::size_t>(at("key_begin", t)));
        seen += static_cast<char>('a' + at("targets", t) - 5);
        if (seen[0] == '[') seen.erase(0, 1);
        if (flat.find(seen) == std::string::npos) FAIL("'" << seen << "' is not in the file");
      }
    }
  }
  const std::vector<Block> blocks = cut_into_blocks(*dataset);
  const auto cuts = std::count_if(blocks.begin(), blocks.end(), [](const Block& block) { return block.inside; });
  CHECK(cuts >= 3);
  CHECK(predicted == 5 * 30000 - cuts);  // the first token of a block inside a document has nothing before it
  CHECK(begins == 2);
  CHECK(ends == 2);
}

TEST_CASE("blocks: an epoch resumes anywhere, and a state without parts goes on with whole files") {
  const Scratch scratch;
  const auto dataset = open(spec_of({scratch.write("a.txt", numbered(40000, "\f\n", 15000))}, Task::clm));
  for (const std::int64_t parts : {1, 0}) {
    LoaderState begin;
    begin.parts = parts;
    const auto loader = Loader::open(dataset, options(), begin);
    std::vector<LoaderState> states;
    std::vector<std::string> steps;
    for (Batch batch; steps.size() < 1000;) {
      states.push_back(loader->state());
      REQUIRE(loader->next(batch));
      steps.push_back(text_of(batch, 0));
    }
    REQUIRE(states.back().epoch > 0);
    for (const std::size_t stop : {0, 1, 63, 64, 200, 500, 790, 999}) {
      std::string json = states[stop].to_json();
      if (parts == 0) {
        const std::size_t at = json.find(",\"parts\":0");
        REQUIRE(at != std::string::npos);
        json.erase(at, 10);
      }
      const auto again = Loader::open(dataset, options(), LoaderState::from_json(json));
      for (std::size_t i = stop; i < std::min<std::size_t>(stop + 80, 1000); ++i) {
        Batch batch;
        REQUIRE(again->next(batch));
        CHECK(text_of(batch, 0) == steps[i]);
      }
    }
  }
}

TEST_CASE("blocks: text that is not UTF-8 is refused before the first step") {
  const Scratch scratch;
  const auto dataset = open(spec_of({scratch.write("a.txt", numbered(10000, "", 1) + "\xff\n")}, Task::clm));
  CHECK_THROWS_WITH(Loader::open(dataset, options()), Catch::Contains("a.txt") && Catch::Contains("10001"));
}
