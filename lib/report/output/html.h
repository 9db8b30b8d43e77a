// An HTML page in one file: style and pictures are inside and nothing is fetched. It is readable on a phone and on
// paper, light and dark.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/report/output/svg.h"

namespace comera::report {

using Facts = std::vector<std::pair<std::string, std::string>>;  // names and values, in display order

class Page {
 public:
  explicit Page(std::string title) : title_(std::move(title)) {}

  Page& heading(std::string_view text);
  Page& paragraph(std::string_view text);
  Page& facts(const Facts& names_and_values);  // a few important numbers, in large type
  Page& table(const Table& table);
  Page& charts(const std::vector<Chart>& charts);  // side by side if there is room; empty ones are left out
  Page& small_charts(const std::vector<Chart>& charts);
  Page& folded(std::string_view summary, const std::string& html);  // closed until the reader opens it
  Page& raw(std::string_view html);                                 // from code of this room, already escaped

  std::string text() const;

 private:
  std::string title_, body_;
};

// Returns a page of one table below a few facts.
std::string table_page(const std::string& title, const Facts& facts, const Table& table);

// Returns a legend with the colours of the first series, for several charts with the same series.
std::string shared_legend(const std::vector<std::string>& names);

}  // namespace comera::report
