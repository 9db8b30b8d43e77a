#include "lib/data/files/table.h"

#include <catch2/catch.hpp>

#include "lib/core/error.h"
#include "lib/data/files/text_reader.h"
#include "tests/data/scratch.h"

using namespace comera::data;

namespace {

const Columns pair{{"premise", "hypothesis"}, "label"};

Table parse(const std::string& text, const Columns& columns, Format format = Format::tsv,
            std::vector<std::string> labels = {}) {
  Table table(std::move(labels));
  TextReader reader(text, "x.tsv", format, {std::nullopt, columns.text, false, columns.label});
  table.read(reader, columns.label);
  return table;
}

void refused(const std::string& text, const Columns& columns, const std::string& message, Format format = Format::tsv,
             const std::vector<std::string>& labels = {}) {
  CHECK_THROWS_AS(parse(text, columns, format, labels), comera::InputError);
  CHECK_THROWS_WITH(parse(text, columns, format, labels), Catch::Contains(message));
}

}  // namespace

TEST_CASE("table: the name without .gz or .zst determines the format") {
  CHECK(format_of("a.tsv") == Format::tsv);
  CHECK(format_of("a.tsv.zst") == Format::tsv);
  CHECK(format_of("a.jsonl.gz") == Format::jsonl);
  CHECK(format_of("a.json") == Format::jsonl);
  CHECK(format_of("a.csv") == Format::csv);
  CHECK(format_of("A.CSV.GZ") == Format::csv);
  CHECK(format_of("a.txt.zst") == Format::text);
  CHECK(format_of("wiki.train.tokens.zst") == Format::text);
  for (const char* unknown : {"a", "a.dat", "a.csv.bak", "a.xlsx.gz", "csv", "a.gz", "text8"})
    CHECK_THROWS_WITH(format_of(unknown), Catch::Contains("the name does not tell what the file holds") &&
                                              Catch::Contains("--data-format text"));
  CHECK_THROWS_WITH(format_of("a.parquet"),
                    Catch::Contains("parquet is not read") && Catch::Contains("read_parquet('a.parquet')"));
}

TEST_CASE("table: columns of a TSV are chosen by name in any order") {
  const Table table = parse("label\tid\thypothesis\tpremise\ne\t1\th \"1\"\tp1\r\nn\t2\t\tp2\n\n", pair);
  REQUIRE(table.size() == 2);
  CHECK(table.text(0, 0) == "p1");
  CHECK(table.text(0, 1) == "h \"1\"");
  CHECK(table.text(1, 0) == "p2");
  CHECK(table.text(1, 1) == "");
  CHECK(table.labels() == std::vector<std::string>{"e", "n"});
  CHECK(table.label(1) == 1);
}

TEST_CASE("table: CSV is read by RFC 4180") {
  const Table table = parse(
      "label,text,id\r\n"
      "a,\"one, two\",1\r\n"
      "b,\"says \"\"no\"\"\",2\r\n"
      "a,\"first\r\n\r\nsecond\nthird\",3\r\n"
      "b,,4\r\n"
      "\"c\",\"\",\"\"\r\n"
      "a, plain text ,6",
      {{"text"}, "label"}, Format::csv);
  REQUIRE(table.size() == 6);
  const std::vector<std::string> texts{"one, two", "says \"no\"", "first\r\n\r\nsecond\nthird", "", "", " plain text "};
  for (std::size_t i = 0; i < texts.size(); ++i) CHECK(table.text(static_cast<std::int64_t>(i), 0) == texts[i]);
  CHECK(table.labels() == std::vector<std::string>{"a", "b", "c"});
  const Table one = parse("text\n\"\"\n\nx\n", {{"text"}, ""}, Format::csv);  // with one column, an empty line is a row
  REQUIRE(one.size() == 3);
  CHECK(one.text(2, 0) == "x");
  CHECK(parse("\xEF\xBB\xBFtext,label\nx,a\n", {{"text"}, "label"}, Format::csv).text(0, 0) == "x");
  CHECK(parse("\"the\ntext\",label\nx,a\n", {{"the\ntext"}, "label"}, Format::csv).text(0, 0) == "x");
}

TEST_CASE("table: errors for CSV that violates RFC 4180 name the line") {
  const Columns columns{{"text"}, "label"};
  const auto csv = [&](const std::string& text, const std::string& message) {
    refused("text,label\n" + text, columns, message, Format::csv);
  };
  csv("x,a\ny,b,c\n", "line 3: has 3 columns, the header names 2; put a field that holds a comma in quotes");
  csv("\"one\ntwo\",a\n5\" disk,b\n", "line 4: byte 2 is a quote inside a field");
  csv("\"one\" two,a\n", "line 2: byte 6 stands behind the quote that ends a field");
  csv("x,a\n\"never closed,b\ny,c\n", "line 3: a row begins here whose last quote is not closed");
  csv("x,a\n\"b\n\xFF\",c\n", "line 4: byte 1 (0xFF) is not UTF-8");
  csv("x,a\n\ny,b\n", "line 3: is empty; only the end of a file may be");
  csv("x,\n", "line 2: the label (column 'label') is empty");
  csv("x," + std::string(1 << 17, ',') + "\n", "line 2: has more than 65536 columns");
}

TEST_CASE("table: a row takes bounded memory for any input") {
  constexpr std::size_t bound = LineReader::longest;
  CHECK_THROWS_WITH(
      parse("text,label\n\"" + std::string(bound / 2, 'x') + "\n" + std::string(bound / 2 + 2, 'y') + "\n",
            {{"text"}, "label"}, Format::csv),
      Catch::Contains("line 2: a row begins here that is longer than 64 MiB; is a quote not closed?"));
  CHECK_THROWS_WITH(parse("text\n" + std::string(bound + 1, 'x') + "\n", {{"text"}, ""}),
                    Catch::Contains("line 2: is longer than 64 MiB"));
  for (const std::string open : {"[", "{\"a\":"}) {  // nested values are refused before they take memory
    std::string deep = "{\"text\": \"x\", \"other\": ";
    while (deep.size() < (std::size_t{50} << 20)) deep += open;
    CHECK_THROWS_WITH(parse(deep, {{"text"}, ""}, Format::jsonl),
                      Catch::Contains("line 1: the JSON nests deeper than 64 levels"));
  }
}

TEST_CASE("table: column names are refused for a text file") {
  const Scratch scratch;
  CHECK_THROWS_WITH(TextReader(scratch.write("a.txt", "x\n"), {std::nullopt, {"body"}, true, ""}),
                    Catch::Contains("a.txt: --text names columns, and a text file has none"));
}

TEST_CASE("table: labels are sorted as numbers if all are integers, else by their bytes") {
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

TEST_CASE("table: JSONL values may be strings, numbers and booleans") {
  const Table table = parse("{\"text\": \"a\\tb\\n\\u00e9\", \"label\": true}\n{\"label\": 3, \"text\": \"\"}\n",
                            {{"text"}, "label"}, Format::jsonl);
  REQUIRE(table.size() == 2);
  CHECK(table.text(0, 0) == "a\tb\n\xC3\xA9");
  CHECK(table.labels() == std::vector<std::string>{"true", "3"});
}

TEST_CASE("table: errors for unusable rows name file and line") {
  const std::string head = "premise\thypothesis\tlabel\n";
  refused(head + "p\th\te\np\th\n", pair, "x.tsv: line 3: has 2 columns, the header names 3");
  refused(head + "p\th\te\tz\n", pair, "line 2: has 4 columns");
  refused(head + "p\th\t\n", pair, "line 2: the label (column 'label') is empty");
  refused(head + "p\th\te\n\np\th\te\n", pair, "line 3: is empty");
  refused(head, {{"premis"}, "label"},
          "x.tsv: has no column 'premis'; the columns are 'premise', 'hypothesis', 'label'; did you mean premise?");
  refused(head, {{"body"}, "label"}, "'label'; name another with --text");
  refused(head, {{"premise"}, "score"}, "'label'; name another with --label");
  refused("{\"body\": 1}\n", {{"text"}, ""}, "the keys are 'body'; name another with --text", Format::jsonl);
  refused(head + "p\th\tf\n", pair, "line 2: unknown label 'f'; the labels are 'entailment', 'neutral'", Format::tsv,
          {"entailment", "neutral"});
  refused(head + "p\th\xFF\te\n", pair, "line 2: byte 4 (0xFF) is not UTF-8");
  refused("{\"text\": 1}\nnope\n", {{"text"}, ""}, "line 2: is not a JSON object", Format::jsonl);
  refused("[1]\n", {{"text"}, ""}, "line 1: is not a JSON object", Format::jsonl);
  const auto no_json = [](const std::string& line, const std::string& message) {
    refused(line + "\n", {{"text"}, ""}, "line 1: " + message, Format::jsonl);
  };
  no_json(R"({"text": "a", "label": NaN})", "is not valid JSON: byte 24: NaN is no value of JSON; write null, true");
  no_json(R"({"text": "a", "label": -Infinity})", "is not valid JSON: byte 24: -Infinity is no value of JSON");
  no_json(R"({"text": "a", "label": nan})", "is not valid JSON: byte 24: nan is no value of JSON");
  no_json(R"({"text": "a",})", "is not valid JSON: byte 13: a comma stands before the closing }; leave it out");
  no_json(R"({"text": "\ud83d"})", "is not valid JSON: byte 11: \\ud83d is half of a character; write both halves");
  no_json(R"({"text": "\udc00 x"})", "is not valid JSON: byte 11: \\udc00 is half of a character");
  no_json(R"({"text": "a\x"})", "is not valid JSON: byte 12: \\x is no escape of JSON");
  no_json("{\"text\": \"a\tb\"}", "is not valid JSON: byte 12: a control character stands in a text; write \\u0009");
  no_json("{'text': 1}", "is not valid JSON: byte 2: a text is in single quotes; write double quotes");
  no_json(R"({"text": 1e999})", "is not valid JSON: byte 10: a number is too large");
  no_json(R"({"text": "a")", "is not valid JSON: byte 13: the line ends inside the object; write one object");
  no_json(R"({"text": "a" "b": 1})", "is not valid JSON: byte");
  no_json(R"({"text": "a"} {"text": "b"})", "byte 15 stands behind the object; write one object");
  refused("{\"txt\": \"a\"}\n", {{"text"}, ""}, "line 1: has no key 'text'; the keys are 'txt'; did you mean txt?",
          Format::jsonl);
  refused("{\"text\": null}\n", {{"text"}, ""}, "line 1: 'text' is null, a string is wanted", Format::jsonl);
  refused("{\"text\": 1, \"text\": 2}\n", {{"text"}, ""}, "line 1: has the key 'text' twice", Format::jsonl);
  refused("text;label\na;b\n", {{"text"}, "label"},
          "x.tsv: has no column 'text': its 2 columns seem to be separated by "
          "';'; write it with commas",
          Format::csv);
  refused("\"text\";\"label\"\n", {{"text"}, ""},
          "line 1: byte 7 stands behind the quote that ends a field, where a "
          "comma must be; separate the fields by commas",
          Format::csv);
  refused("text\tlabel\na\tb\n", {{"text"}, ""}, "separated by tabs; name it .tsv, or read it with --data-format tsv",
          Format::csv);
  refused("label,text\na,b\n", {{"text"}, ""}, "separated by ','; name it .csv, or read it with --data-format csv",
          Format::tsv);
  refused("a\n", {{"text"}, "label"}, "labelled rows are read from .csv, .tsv or .jsonl", Format::text);
  refused("text\tlabel\ttext\n", {{"text"}, "label"}, "x.tsv: has two columns 'text'");
  refused(head, {{"premise", "hypothesis", "label"}, ""}, "3 text columns are named; name one or two with --text");
  refused(head, {{"premise", "premise"}, ""}, "column 'premise' is named twice");
}
