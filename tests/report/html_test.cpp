#include "lib/report/output/html.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <regex>

#include "lib/report/output/fold.h"
#include "lib/report/output/scale.h"

using namespace comera::report;
using Catch::Matchers::Contains;

namespace {

Chart loss_chart(std::size_t points) {
  Chart chart{.title = "loss <of> training"};
  Series train{.name = "train & dev", .x = {}, .y = {}};
  for (std::size_t i = 0; i < points; ++i) {
    train.x.push_back(static_cast<double>(i));
    train.y.push_back(1 + 10 / (1.0 + static_cast<double>(i)));
  }
  chart.series = {train, {.name = "dev", .x = {0, 5}, .y = {3, 2}, .points = true}};
  return chart;
}

// True if every opened element is closed in order.
bool well_formed(const std::string& html) {
  static const std::regex tag(R"(<(/?)([a-zA-Z0-9]+)[^>]*?(/?)>)");
  std::vector<std::string> open;
  for (std::sregex_iterator it(html.begin(), html.end(), tag), end; it != end; ++it) {
    const std::string name = (*it)[2];
    if ((*it)[3] == "/" || name == "meta") continue;
    if ((*it)[1] != "/") {
      open.push_back(name);
    } else {
      if (open.empty() || open.back() != name) return false;
      open.pop_back();
    }
  }
  return open.empty();
}

}  // namespace

TEST_CASE("A page has no external references and closes all its elements") {
  Page page("run \x1b <x>");
  page.heading("Curves")
      .paragraph("text")
      .facts({{"ratio", "43.1x"}})
      .charts({loss_chart(1000)})
      .small_charts({loss_chart(3)})
      .folded("more", "<p>x</p>");
  const std::string html = page.text();
  CHECK_FALSE(std::regex_search(html, std::regex(R"(https?:|//[a-z]|src=|href=|@import|url\(|<script)")));
  CHECK(well_formed(html));
  CHECK_THAT(html, Contains("name=\"viewport\"") && Contains("prefers-color-scheme:dark"));
  CHECK_THAT(html,
             Contains("run \\x1b &lt;x&gt;") && Contains("loss &lt;of&gt; training") && Contains("train &amp; dev"));
}

TEST_CASE("A chart without a finite point is left out") {
  CHECK(line_chart({.title = "empty"}).empty());
  CHECK(line_chart({.title = "gaps", .series = {{.name = "a", .x = {1, 2}, .y = {std::nan(""), INFINITY}}}}).empty());
}

TEST_CASE("All coordinates of a chart lie inside its box") {
  Chart chart = loss_chart(500);
  chart.series[0].y[7] = std::nan("");
  for (const bool log_scale : {false, true}) {
    chart.log_scale = log_scale;
    const std::string svg = line_chart(chart);
    static const std::regex pair(R"([ML]([-0-9.]+) ([-0-9.]+))");
    int pairs = 0;
    for (std::sregex_iterator it(svg.begin(), svg.end(), pair), end; it != end; ++it, ++pairs) {
      const double x = std::stod((*it)[1]), y = std::stod((*it)[2]);
      CHECK((x >= 0 && x <= chart.width && y >= 0 && y <= chart.height));
    }
    CHECK(pairs > 100);
    CHECK_THAT(svg, !Contains("nan") && !Contains("inf"));
  }
}

TEST_CASE("One point, a flat line and a single step are drawn") {
  for (const auto& [x, y] :
       std::vector<std::pair<std::vector<double>, std::vector<double>>>{{{0}, {0}}, {{3}, {2}}, {{1, 2}, {5, 5}}})
    CHECK_THAT(line_chart({.title = "t", .series = {{.name = "a", .x = x, .y = y, .points = true}}}),
               Contains("<circle") && !Contains("nan"));
}

TEST_CASE("Ticks are round numbers inside the range") {
  CHECK(ticks({0, 1000}, 4) == std::vector<double>{0, 500, 1000});
  CHECK(ticks({0, 8}, 4) == std::vector<double>{0, 2, 4, 6, 8});
  CHECK(log_ticks({0.001, 10}, 4) == std::vector<double>{0.001, 0.01, 0.1, 1, 10});
}

TEST_CASE("An axis has a label at both ends, at least two, and shares stay between 0 and 100 %") {
  const auto labels = [](const std::string& svg) {
    static const std::regex label(R"re(text-anchor="end">([0-9.]+) %<)re");
    std::vector<double> values;
    for (std::sregex_iterator it(svg.begin(), svg.end(), label), end; it != end; ++it)
      values.push_back(std::stod((*it)[1]));
    return values;
  };
  for (const auto& [low, high] :
       std::vector<std::pair<double, double>>{{0.231, 0.272}, {0.97, 0.998}, {0, 0.01}, {0.5, 0.5}, {0.1, 0.9}}) {
    CAPTURE(low, high);
    const auto values =
        labels(line_chart({.title = "accuracy",
                           .unit = Unit::share,
                           .series = {{.name = "dev", .x = {10, 20, 30}, .y = {low, high, low}, .points = true}}}));
    REQUIRE(values.size() >= 2);
    CHECK((values.front() <= 100 * low + 1e-6 && values.back() >= 100 * high - 1e-6));
    CHECK((values.front() >= 0 && values.back() <= 100));
    CHECK(values.back() - values.front() >= 10 - 1e-6);
  }
  CHECK(on_ticks({1.29, 1.55}, 4).low == Approx(1.2));
  CHECK(on_ticks({1.29, 1.55}, 4).high == Approx(1.6));
}

TEST_CASE("A single point is a mark with its number, also at 100 %") {
  const std::string svg =
      line_chart({.title = "accuracy", .unit = Unit::share, .series = {{.name = "dev", .x = {6}, .y = {1}}}});
  CHECK_THAT(svg, Contains("<circle") && Contains(">100.0 %<") && !Contains("<path"));
}

TEST_CASE("Steps on an axis are whole numbers") {
  const std::string svg = line_chart({.title = "loss", .series = {{.name = "dev", .x = {2, 3, 4}, .y = {10, 20, 30}}}});
  CHECK_THAT(svg, Contains(">2</text>") && Contains(">4</text>") && !Contains("2.5</text>"));
}

TEST_CASE("Empty charts make no box, and a command breaks only before its options") {
  CHECK_THAT(Page("p").charts({{.title = "empty"}}).text(), !Contains("class=\"charts\""));
  const std::string text =
      Page("p").facts({{"a", "1"}, {"b", "2"}, {"c", "3"}, {"d", "4"}, {"e", "5"}, {"f", "6"}}).text();
  CHECK_THAT(text, Contains("--columns:3") && Contains("<code><span>"));
}

TEST_CASE("Thinning keeps means, and the corners of steps") {
  Series series{.name = "a", .x = {}, .y = {}};
  for (int i = 0; i < 1000; ++i) series.x.push_back(i), series.y.push_back(i % 2);
  const Series thin = thinned(series, 100);
  REQUIRE(thin.x.size() == 100);
  for (const double y : thin.y) CHECK(y == Approx(0.5));
  const Series corners = thinned({.name = "r", .x = {0, 1, 2, 3, 4}, .y = {30, 30, 28, 28, 28}, .steps = true}, 2);
  CHECK(corners.x == std::vector<double>{0, 2, 4});
  CHECK(corners.y == std::vector<double>{30, 28, 28});
}

TEST_CASE("Labels of bytes are round in the displayed unit, and none is cut off at the left") {
  const std::string svg = line_chart(
      {.title = "memory", .unit = Unit::bytes, .series = {{.name = "peak", .x = {0, 10}, .y = {0, 90.0 * (1 << 20)}}}});
  CHECK_THAT(svg, Contains(">50.0 MiB<"));
  static const std::regex label(R"re(<text x="([0-9.]+)" y="[0-9.]+" text-anchor="end">([^<]+)<)re");
  for (std::sregex_iterator it(svg.begin(), svg.end(), label), end; it != end; ++it)
    CHECK(std::stod((*it)[1]) >= 6.5 * static_cast<double>((*it)[2].length()));
}

TEST_CASE("Short names of weights") {
  CHECK(short_name("bert.encoder.layer.0.attention.self.query.weight") == "layer.0.attention.self.query");
  CHECK(short_name("bert.encoder.layer.1.output.dense.weight") == "layer.1.output");
  CHECK(short_name("bert.embeddings.word_embeddings.weight") == "embeddings.word_embeddings");
  CHECK(short_name("plain") == "plain");
}
