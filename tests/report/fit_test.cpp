#include "lib/report/fit.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <sstream>

using namespace comera::report;
using Catch::Matchers::Contains;

namespace {

Table weights() {
  Table table;
  table.columns = {{"name", "weight"}, {"kind", "kind"}, {"bytes", "bytes", Unit::bytes}, {"ms", "ms", Unit::ms}};
  for (int block = 0; block < 4; ++block)
    for (const char* matrix : {"key", "value"})
      table.rows.push_back({"bert.encoder.layer." + std::to_string(block) + ".attention.self." + matrix + ".weight", std::string("linear"),
                            std::int64_t{block == 2 ? 10 : 20}, 1.5 * block});
  table.rows.push_back({std::string("bert.embeddings.word_embeddings.weight"), std::string("embedding"), std::int64_t{70}, 9.0});
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

TEST_CASE("A table fits the columns of a terminal, and a line names what it leaves out") {
  const std::string whole = render(weights(), Format::table);
  CHECK(render_fitted(weights(), 200) == whole);
  const std::string without_names = render_fitted(weights(), 70);
  CHECK(widest_line(without_names) <= 70);
  CHECK_THAT(without_names, Contains("layer.0.attention.self.key ") && Contains("linear") && !Contains("encoder.") && !Contains("not shown"));
  const std::string narrow = render_fitted(weights(), 50);
  CHECK(widest_line(narrow) <= 50);
  CHECK_THAT(narrow, Contains("not shown in 50 columns: kind") && !Contains("linear") && Contains("210 B"));
  const std::string narrowest = render_fitted(weights(), 30);
  CHECK(widest_line(narrowest.substr(0, narrowest.find("not shown"))) <= 30);
  CHECK_THAT(narrowest, Contains("..") && Contains("self.key") && Contains("kind, ms"));
}
