// A page that is one file: style and pictures inside, nothing fetched, readable on a phone and on paper, light and
// dark.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/report/svg.h"

namespace comera::report {

using Facts = std::vector<std::pair<std::string, std::string>>;  // names and values, in the order to be shown

class Page {
 public:
  explicit Page(std::string title) : title_(std::move(title)) {}

  Page& heading(std::string_view text);
  Page& paragraph(std::string_view text);
  Page& facts(const Facts& names_and_values);  // the few numbers that matter, large
  Page& table(const Table& table);
  Page& charts(const std::vector<Chart>& charts);  // side by side where there is room; empty ones are left out
  Page& small_charts(const std::vector<Chart>& charts);
  Page& folded(std::string_view summary, const std::string& html);  // closed until it is asked for
  Page& raw(std::string_view html);                                 // made by this room, already escaped

  std::string text() const;

 private:
  std::string title_, body_;
};

// A page of one table below a few facts.
std::string table_page(const std::string& title, const Facts& facts, const Table& table);

// The colours of the first series with their names, for many charts that share them.
std::string shared_legend(const std::vector<std::string>& names);

}  // namespace comera::report
