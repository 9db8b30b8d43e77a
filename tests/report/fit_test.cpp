#include "lib/report/output/fit.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <sstream>

using namespace comera::report;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;

namespace {

Table weights() {
  Table table;
  table.columns = {{"name", "weight"}, {"kind", "kind"}, {"bytes", "bytes", Unit::bytes}, {"ms", "ms", Unit::ms}};
  for (int block = 0; block < 4; ++block)
    for (const char* matrix : {"key", "value"})
      table.rows.push_back({"bert.encoder.layer." + std::to_string(block) + ".attention.self." + matrix + ".weight",
                            std::string("linear"), std::int64_t{block == 2 ? 10 : 20}, 1.5 * block});
  table.rows.push_back(
      {std::string("bert.embeddings.word_embeddings.weight"), std::string("embedding"), std::int64_t{70}, 9.0});
  table.totals = {{std::string("model"), Cell(), std::int64_t{210}, Cell()}};
  table.dispensable = {"kind", "ms"};
  return table;
}

std::size_t widest_line(const std::string& text) {
  std::istringstream lines(text);
  std::size_t widest = 0;
  for (std::string line; std::getline(lines, line);) widest = std::max(widest, line.size());
  return widest;
}

}  // namespace

TEST_CASE("A table fits the width of a terminal, and a line names the removed columns") {
  const std::string whole = render(weights(), Format::table);
  CHECK(render_fitted(weights(), 200) == whole);
  const std::string without_names = render_fitted(weights(), 70);
  CHECK(widest_line(without_names) <= 70);
  CHECK_THAT(without_names, Contains("layer.0.attention.self.key ") && Contains("linear") && !Contains("encoder.") &&
                                !Contains("not shown"));
  const std::string narrow = render_fitted(weights(), 50);
  CHECK(widest_line(narrow) <= 50);
  CHECK_THAT(narrow, Contains("not shown in 50 columns: kind;") && !Contains("linear") && Contains("210 B"));
  const std::string narrowest = render_fitted(weights(), 30);
  CHECK(widest_line(narrowest) <= 30);
  CHECK_THAT(narrowest, Contains("..") && Contains("self.key") && Contains("kind,\n  ms"));
}

TEST_CASE("Notes of columns stand below the table, without those of columns that are left out") {
  Table table = weights();
  table.columns[1].note = "kind: linear layers, and tables of words";
  table.columns[2].note = "bytes: in the file";
  CHECK_THAT(render_fitted(table, 200), EndsWith("\nkind: linear layers, and tables of words\nbytes: in the file\n"));
  CHECK_THAT(render_fitted(table, 50),
             Contains("not shown in 50 columns: kind; `| less -S` shows\n  all\nbytes: in the file\n"));
  table.columns[2].note = "bytes: in the file that is written to the folder, without its header";
  CHECK(widest_line(render_fitted(table, 50)) <= 50);
}

TEST_CASE("Titles take several lines before a column is left out") {
  Table table;
  table.columns = {{"work", "work"}, {"median_ms", "median ms", Unit::ms}, {"share", "share of the step", Unit::share}};
  table.rows = {{std::string("step"), 1.5, 1.0}, {std::string("other"), 0.5, 0.3}};
  const std::string text = render_fitted(table, 24);
  CHECK(widest_line(text) <= 24);
  CHECK_THAT(text, Contains("median") && Contains("100.0 %") && Contains("step") && !Contains("not shown") &&
                       !Contains("median ms"));
}

TEST_CASE("A single row that does not fit becomes a line per column, with all columns") {
  Table table;
  table.columns = {{"texts", "texts", Unit::count},
                   {"cosine", "least cosine of embeddings"},
                   {"hidden", "cosine of hidden states"},
                   {"order", "rank correlation of similarities"},
                   {"kl", "KL (nats)"}};
  table.rows = {{std::int64_t{48}, 0.91, 0.93, 0.95, 0.25}};
  const std::string text = render_fitted(table, 40);
  CHECK(widest_line(text) <= 40);
  CHECK_THAT(text, Contains("\nleast cosine of embeddings        0.91\n") && Contains("\nKL (nats)") &&
                       Contains("texts") && !Contains("not shown"));
}

TEST_CASE("A table of any number of columns and any titles fits, and a line names the removed columns") {
  Table table;
  table.columns = {{"label", "label \\ predicted"}};
  for (int i = 0; i < 12; ++i)
    table.columns.push_back({"label-" + std::to_string(i), "an_unusually_long_label_" + std::to_string(i)});
  for (int row = 0; row < 12; ++row) {
    auto& cells = table.rows.emplace_back();
    cells.emplace_back("an_unusually_long_label_" + std::to_string(row));
    for (int i = 0; i < 12; ++i) cells.emplace_back(std::int64_t{row == i ? 100 : 3});
  }
  for (const int columns : {40, 60, 80, 120}) {
    CAPTURE(columns);
    const std::string text = render_fitted(table, columns);
    CHECK(widest_line(text) <= static_cast<std::size_t>(columns));
    CHECK_THAT(text, Contains("100"));
  }
  CHECK_THAT(render_fitted(table, 40), Contains("not shown in 40 columns:\n  an_unusually_long_label_11,\n"));
}

TEST_CASE("Columns without values are removed, also from the rows of totals") {
  Table table = weights();
  for (auto& row : table.rows) row[3] = Cell();
  const Table kept = without_empty_columns(table);
  CHECK(kept.column("ms") == -1);
  CHECK(kept.column("bytes") == 2);
  CHECK((kept.rows[0].size() == 3 && kept.totals[0].size() == 3));
}
