#include "lib/data/table.h"

#include <catch2/catch.hpp>

#include "lib/core/error.h"
#include "tests/data/scratch.h"

using namespace comera::data;

namespace {

const Columns pair{{"premise", "hypothesis"}, "label"};

Table parse(const std::string& text, const Columns& columns, Format format = Format::tsv, std::vector<std::string> labels = {}) {
  Table table(std::move(labels));
  parse_rows(text, "x.tsv", format, columns, table);
  return table;
}

void refused(const std::string& text, const Columns& columns, const std::string& message, Format format = Format::tsv,
             const std::vector<std::string>& labels = {}) {
  CHECK_THROWS_AS(parse(text, columns, format, labels), comera::InputError);
  CHECK_THROWS_WITH(parse(text, columns, format, labels), Catch::Contains(message));
}

}  // namespace

TEST_CASE("the format follows the name without its packing") {
  CHECK(format_of("a.tsv") == Format::tsv);
  CHECK(format_of("a.tsv.zst") == Format::tsv);
  CHECK(format_of("a.jsonl.gz") == Format::jsonl);
  CHECK(format_of("a.json") == Format::jsonl);
  CHECK(format_of("wiki.train.tokens.zst") == Format::text);
}

TEST_CASE("columns of a TSV are chosen by name, whatever their order") {
  const Table table = parse("label\tid\thypothesis\tpremise\ne\t1\th \"1\"\tp1\r\nn\t2\t\tp2\n\n", pair);
  REQUIRE(table.size() == 2);
  CHECK(table.text(0, 0) == "p1");
  CHECK(table.text(0, 1) == "h \"1\"");
  CHECK(table.text(1, 0) == "p2");
  CHECK(table.text(1, 1) == "");
  CHECK(table.labels() == std::vector<std::string>{"e", "n"});
  CHECK(table.label(1) == 1);
}

TEST_CASE("labels are sorted as numbers where all are integers, else by their bytes") {
  Table numbers = parse("text\tlabel\na\t10\nb\t9\nc\t-1\n", {{"text"}, "label"});
  numbers.sort_labels();
  CHECK(numbers.labels() == std::vector<std::string>{"-1", "9", "10"});
  CHECK(numbers.label(0) == 2);
  CHECK(numbers.label(1) == 1);
  CHECK(numbers.label(2) == 0);
  Table words = parse("text\tlabel\na\t10\nb\t9\nc\tx\n", {{"text"}, "label"});
  words.sort_labels();
  CHECK(words.labels() == std::vector<std::string>{"10", "9", "x"});
}

TEST_CASE("JSONL takes strings, numbers and booleans") {
  const Table table = parse("{\"text\": \"a\\tb\\n\\u00e9\", \"label\": true}\n{\"label\": 3, \"text\": \"\"}\n", {{"text"}, "label"}, Format::jsonl);
  REQUIRE(table.size() == 2);
  CHECK(table.text(0, 0) == "a\tb\n\xC3\xA9");
  CHECK(table.labels() == std::vector<std::string>{"true", "3"});
}

TEST_CASE("rows that cannot be used are refused by file and line") {
  const std::string head = "premise\thypothesis\tlabel\n";
  refused(head + "p\th\te\np\th\n", pair, "x.tsv: line 3: has 2 columns, the header names 3");
  refused(head + "p\th\te\tz\n", pair, "line 2: has 4 columns");
  refused(head + "p\th\t\n", pair, "line 2: the label (column 'label') is empty");
  refused(head + "p\th\te\n\np\th\te\n", pair, "line 3: is empty");
  refused(head, {{"premis"}, "label"}, "x.tsv: has no column 'premis'; the columns are 'premise', 'hypothesis', 'label'; did you mean premise?");
  refused(head + "p\th\tf\n", pair, "line 2: unknown label 'f'; the labels are 'entailment', 'neutral'", Format::tsv, {"entailment", "neutral"});
  refused(head + "p\th\xFF\te\n", pair, "line 2: byte 4 (0xFF) is not UTF-8");
  refused("{\"text\": 1}\nnope\n", {{"text"}, ""}, "line 2: is not a JSON object", Format::jsonl);
  refused("[1]\n", {{"text"}, ""}, "line 1: is not a JSON object", Format::jsonl);
  refused("{\"txt\": \"a\"}\n", {{"text"}, ""}, "line 1: has no key 'text'; the keys are 'txt'; did you mean txt?", Format::jsonl);
  refused("{\"text\": null}\n", {{"text"}, ""}, "line 1: 'text' is null, a string is wanted", Format::jsonl);
  refused("a\n", {{"text"}, ""}, "labelled rows are read from .tsv or .jsonl", Format::text);
  refused(head, {{}, "label"}, "0 text columns are named; name one or two with --text");
}
