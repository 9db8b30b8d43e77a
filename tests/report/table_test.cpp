#include "lib/report/output/table.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "lib/core/error.h"
#include "lib/io/json.h"

using namespace comera::report;
using Catch::Matchers::Contains;
using comera::io::Json;

namespace {

Table layers() {
  Table table;
  table.columns = {{"name", "layer"},
                   {"ranks", "ranks"},
                   {"parameters", "parameters", Unit::count},
                   {"bytes", "bytes", Unit::bytes},
                   {"ratio", "ratio", Unit::ratio}};
  table.rows = {
      {std::string("a|b,\"c\""), std::vector<std::int64_t>{1, 12, 1}, std::int64_t{20448}, std::int64_t{81792}, 28.84},
      {std::string("<plain>"), std::monostate{}, std::int64_t{1234567}, std::int64_t{4096}, std::nan("")}};
  table.totals = {{std::string("total"), std::monostate{}, std::int64_t{1255015}, std::int64_t{85888}, 2.0}};
  return table;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t start = 0, end; (end = text.find('\n', start)) != std::string::npos; start = end + 1)
    lines.push_back(text.substr(start, end - start));
  return lines;
}

}  // namespace

TEST_CASE("A plain table is aligned and ends with its total below a rule") {
  const auto lines = lines_of(render(layers(), Format::table));
  REQUIRE(lines.size() == 6);
  CHECK(lines[0] == "layer    ranks   parameters     bytes  ratio");
  CHECK(lines[1] == std::string(lines[2].size(), '-'));
  CHECK(lines[2] == "a|b,\"c\"  1 12 1      20,448  79.9 KiB  28.8x");
  CHECK(lines[3] == "<plain>  -        1,234,567  4.00 KiB      -");
  CHECK(lines[5] == "total    -        1,255,015  83.9 KiB  2.00x");
}

TEST_CASE("Markdown keeps its columns for any names") {
  const auto lines = lines_of(render(layers(), Format::md));
  REQUIRE(lines.size() == 5);
  CHECK(lines[1] == "| --- | --- | ---: | ---: | ---: |");
  CHECK_THAT(lines[2], Contains("a\\|b"));
}

TEST_CASE("CSV quotes fields that need quotes and contains plain numbers") {
  const auto lines = lines_of(render(layers(), Format::csv));
  REQUIRE(lines.size() == 3);
  CHECK(lines[0] == "name,ranks,parameters,bytes,ratio");
  CHECK(lines[1] == "\"a|b,\"\"c\"\"\",1 12 1,20448,81792,28.84");
  CHECK(lines[2] == "<plain>,,1234567,4096,");
}

TEST_CASE("Every line of JSONL reads back as one object") {
  const auto lines = lines_of(render(layers(), Format::jsonl));
  REQUIRE(lines.size() == 2);
  const auto first = Json::parse(lines[0]), second = Json::parse(lines[1]);
  CHECK(first["name"] == "a|b,\"c\"");
  CHECK(first["ranks"] == std::vector<int>{1, 12, 1});
  CHECK(first["parameters"] == 20448);
  CHECK(second["ratio"].is_null());
}

TEST_CASE("JSONL survives names that are not UTF-8") {
  Table table;
  table.columns = {{"name", "name"}};
  table.rows = {{std::string("bad \xff name")}};
  CHECK(Json::parse(render(table, Format::jsonl))["name"].get<std::string>().starts_with("bad "));
}

TEST_CASE("HTML escapes names") {
  const std::string html = render(layers(), Format::html);
  CHECK_THAT(html, Contains("&lt;plain&gt;") && !Contains("<plain>"));
  CHECK_THAT(html, Contains("<tfoot>"));
}

TEST_CASE("Control characters of untrusted names never reach the terminal") {
  Table table;
  table.columns = {{"name", "name"}};
  table.rows = {{std::string("x\x1b[2Jy\nz")}};
  const std::string text = render(table, Format::table);
  CHECK_THAT(text, Contains("x\\x1b[2Jy\\x0az") && !Contains("\x1b"));
}

TEST_CASE("Numbers sort largest first, texts from a to z, and a dash reverses the order") {
  Table table = layers();
  sort_rows(table, "parameters");
  CHECK(std::get<std::int64_t>(table.rows[0][2]) == 1234567);
  sort_rows(table, "-parameters");
  CHECK(std::get<std::int64_t>(table.rows[0][2]) == 20448);
  sort_rows(table, "name");
  CHECK(std::get<std::string>(table.rows[0][0]) == "<plain>");
  CHECK_THROWS_WITH(sort_rows(table, "byte"), Contains("no such column; did you mean bytes?"));
}

TEST_CASE("Numbers in their display format") {
  CHECK(show(66957315, Unit::count) == "66,957,315");
  CHECK(show(-1234, Unit::count) == "-1,234");
  CHECK(show(123, Unit::count) == "123");
  CHECK(show(43.123, Unit::ratio) == "43.1x");
  CHECK(show(0.25, Unit::share) == "25.0 %");
  CHECK(show(42.34, Unit::ms) == "42.34");
  CHECK(show(2.9e-4, Unit::plain) == "2.9e-4");
  CHECK(show(12345.678, Unit::plain) == "12350");
}
