// Tables of models from others: many rows, and names with any characters.
#include <catch2/catch.hpp>
#include <cmath>

#include "lib/core/error.h"
#include "lib/core/process.h"
#include "lib/report/output/fold.h"
#include "lib/report/output/table.h"
#include "lib/report/weights/model_report.h"

using namespace comera;

TEST_CASE("tables: 100,000 rows are folded and rendered in linear time") {
  constexpr int many = 100'000;
  report::Table table{{{"name", "name"}, {"kind", "kind"}, {"bytes", "bytes", report::Unit::bytes}}};
  for (int i = 0; i < many; ++i)
    table.rows.push_back({fmt::format("layers.{}.weight", i), std::string("norm"), std::int64_t{i}});
  for (const report::Format format : {report::Format::table, report::Format::md, report::Format::html}) {
    const double start = wall_seconds();
    CHECK(report::render(report::fold_equal_rows(table), format).size() > many * 20);
    CHECK(wall_seconds() - start < 10);  // two minutes if each cell scanned its whole column
  }
}

TEST_CASE("tables: two models of 100,000 weights are compared in linear time") {
  report::ModelReport a, b;
  for (int i = 0; i < 100'000; ++i) {
    io::TensorForm layer;
    layer.name = fmt::format("layers.{}.weight", i);
    layer.shape = {4, 4};
    if (i % 3 > 0) a.layers.push_back(layer);
    if (i % 3 < 2) b.layers.push_back(layer);
  }
  const double start = wall_seconds();
  CHECK(report::compare_table(a, b).rows.size() == 100'000);
  CHECK(wall_seconds() - start < 10);  // minutes if each name is searched
}

TEST_CASE("tables: rows with NaN fold only with each other") {
  const double none = std::nan("");
  report::Table table{{{"name", "name"}, {"kind", "kind"}, {"error", "error"}}};
  for (const double error : {none, 1.0, none, 1.0, 2.0})
    table.rows.push_back({fmt::format("layers.{}.weight", table.rows.size()), std::string("tt"), error});
  const report::Table folded = report::fold_equal_rows(table);
  REQUIRE(folded.rows.size() == 3);
  for (const std::size_t row : {0U, 1U}) CHECK(std::get<std::int64_t>(folded.rows[row][1]) == 2);
}

TEST_CASE("tables: control characters of names are shown in pages") {
  CHECK(report::escape_html("a\x1b[31m<b>\x07\n") == "a\\x1b[31m&lt;b&gt;\\x07\n");
}
