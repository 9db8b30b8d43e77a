#include "lib/report/output/html.h"

#include <fmt/core.h>

#include <algorithm>

#include "lib/core/terminal/log.h"
#include "lib/report/output/origin.h"

namespace comera::report {
namespace {

// Colours that are distinct for colour-blind readers, one set per background.
constexpr const char* style = R"(
:root{color-scheme:light dark;--bg:#fcfcfb;--fg:#1c1d20;--dim:#62666d;--rule:#dcdddf;--card:#f2f2f0;
--c0:#2563b0;--c1:#c2561b;--c2:#1a8a6b;--c3:#9a4fa0;--c4:#8a6d0b;--c5:#b8335f;--c6:#3d8fb5;--c7:#5b6470}
@media(prefers-color-scheme:dark){:root{--bg:#17181a;--fg:#e8e8e6;--dim:#a0a4ab;--rule:#37393d;--card:#222427;
--c0:#6ea8f0;--c1:#f0935a;--c2:#4fc4a2;--c3:#cf8fd6;--c4:#d1b14a;--c5:#f07f9f;--c6:#7cc6e8;--c7:#a9b2be}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1rem;max-width:68rem;background:var(--bg);color:var(--fg);font:16px/1.5 system-ui,sans-serif}
h1{font-size:1.4rem;margin:.2rem 0 .6rem;overflow-wrap:anywhere}h2{font-size:1.1rem;margin:1.8rem 0 .6rem}
p{color:var(--dim);margin:.4rem 0;overflow-wrap:anywhere}
.facts{display:grid;grid-template-columns:repeat(var(--columns,5),minmax(0,1fr));gap:.6rem;margin:.8rem 0}
@media(max-width:48rem){.facts{grid-template-columns:1fr 1fr}.facts div:last-child:nth-child(odd){grid-column:1/-1}}
.facts div{background:var(--card);border-radius:.5rem;padding:.5rem .7rem}
.facts b{display:block;font-size:1.25rem;overflow-wrap:anywhere;font-variant-numeric:tabular-nums}
.facts span{display:block;color:var(--dim);font-size:.85rem;line-height:1.3}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,20rem),1fr));gap:1rem}
.small{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,11.5rem),1fr));gap:.6rem}
@media(max-width:30rem){.small{grid-template-columns:1fr 1fr}}
figure{margin:0}.charts figure{max-width:30rem}figcaption{font-size:.9rem;margin-bottom:.2rem;overflow-wrap:anywhere}
.small figcaption{font-size:.75rem}
svg{width:100%;height:auto;display:block}svg text{font-size:12px;fill:var(--dim);font-variant-numeric:tabular-nums}
.small svg text{font-size:14px}
.grid{stroke:var(--rule);stroke-width:1}.axis{stroke:var(--dim);stroke-width:1}
.line{fill:none;stroke:var(--c);stroke-width:1.8;stroke-linejoin:round}.dot{fill:var(--c)}
.c0{--c:var(--c0)}.c1{--c:var(--c1)}.c2{--c:var(--c2)}.c3{--c:var(--c3)}.c4{--c:var(--c4)}.c5{--c:var(--c5)}
.c6{--c:var(--c6)}.c7{--c:var(--c7)}
.legend{display:flex;flex-wrap:wrap;gap:.2rem .9rem;font-size:.85rem}
.legend i{display:inline-block;width:1.1em;height:.28em;margin-right:.35em;
vertical-align:middle;background:var(--c)}
.bars{max-width:none;display:inline-block}.was{fill:var(--rule)}.now{fill:var(--c0)}
.map{max-width:none}.map text{fill:var(--fg)}.small .bars text{font-size:11px}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:.8rem;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .4rem;text-align:left;border-bottom:1px solid var(--rule);white-space:nowrap}
th{color:var(--dim);font-weight:600;white-space:normal;vertical-align:bottom}
th:first-child,td:first-child{position:sticky;left:0;background:var(--bg)}.n{text-align:right}
tfoot td{font-weight:600;border-top:2px solid var(--dim)}
@media(max-width:70rem){table{font-size:.75rem}th,td{padding:.25rem .28rem}}
summary{cursor:pointer;padding:.3rem 0}
.origin{font-size:.8rem}.origin code{display:block;background:var(--card);border-radius:.5rem;padding:.5rem .7rem;
font-size:.78rem;line-height:1.5}
.origin code span{display:inline-block}
.mark{font-size:13px;fill:var(--fg);font-weight:600}
.name{paint-order:stroke;stroke:var(--bg);stroke-width:3px}
.weights{display:grid;grid-template-columns:minmax(0,2fr) minmax(4rem,2fr) auto minmax(3rem,1fr) auto;gap:.15rem .6rem;
align-items:center;font-size:.8rem;
font-variant-numeric:tabular-nums}
.weights b{font-weight:400;overflow-wrap:anywhere}.weights em{font-style:normal;color:var(--dim);font-weight:600}
.track{position:relative;height:.8rem}.track i{position:absolute;left:0;top:0;height:100%;min-width:1px}
.track.was{background:var(--rule)}.track .now{background:var(--c0)}.track .err{background:var(--c1)}
.kinds{display:grid;grid-template-columns:auto minmax(4rem,24rem) auto 1fr;gap:.25rem .8rem;align-items:center;
font-size:.85rem;font-variant-numeric:tabular-nums}
.kinds b{font-weight:400}.kinds span:nth-child(3n){text-align:right}
.kinds .total{font-weight:600;border-top:2px solid var(--dim);padding-top:.2rem}
@media(max-width:40rem){.weights{grid-template-columns:minmax(3rem,3fr) auto minmax(3rem,2fr) auto;font-size:.75rem;
gap:.1rem .5rem}
.weights b,.weights em:first-child{grid-column:1/-1;margin-top:.3rem}}
)";

// Allows a line break before each option of a command, but not inside of an option.
std::string breakable(std::string command) {
  constexpr std::string_view between = "</span> <span>";
  for (std::size_t at = 0; (at = command.find(" -", at)) != std::string::npos; at += between.size())
    command.replace(at, 1, between);
  return command;
}

}  // namespace

Page& Page::heading(std::string_view text) { return raw("<h2>" + escape_html(printable(text)) + "</h2>\n"); }

Page& Page::paragraph(std::string_view text) { return raw("<p>" + escape_html(printable(text)) + "</p>\n"); }

Page& Page::facts(const Facts& names_and_values) {
  constexpr std::size_t most = 5;  // per row; rows have nearly equal length
  const std::size_t count = std::max<std::size_t>(1, names_and_values.size()), rows = (count + most - 1) / most;
  body_ += fmt::format("<div class=\"facts\" style=\"--columns:{}\">\n", (count + rows - 1) / rows);
  for (const auto& [name, value] : names_and_values)
    body_ += fmt::format("<div><b>{}</b><span>{}</span></div>\n", escape_html(printable(value)),
                         escape_html(printable(name)));
  return raw("</div>\n");
}

Page& Page::table(const Table& table) { return raw(render(table, Format::html)); }

Page& Page::charts(const std::vector<Chart>& charts) {
  std::string all;
  for (const Chart& chart : charts) all += line_chart(chart);
  return all.empty() ? *this : raw("<div class=\"charts\">\n" + all + "</div>\n");
}

Page& Page::small_charts(const std::vector<Chart>& charts) {
  body_ += "<div class=\"small\">\n";
  for (const Chart& chart : charts) body_ += line_chart(chart);
  return raw("</div>\n");
}

Page& Page::folded(std::string_view summary, const std::string& html) {
  return raw("<details><summary>" + escape_html(printable(summary)) + "</summary>\n" + html + "</details>\n");
}

Page& Page::raw(std::string_view html) {
  body_ += html;
  return *this;
}

std::string table_page(const std::string& title, const Facts& facts, const Table& table) {
  Page page(title);
  if (!facts.empty()) page.facts(facts);
  return page.table(without_empty_columns(table)).text();
}

std::string shared_legend(const std::vector<std::string>& names) {
  std::string out = "<div class=\"legend\">";
  for (std::size_t i = 0; i < names.size(); ++i)
    out += fmt::format("<span><i class=\"c{}\"></i>{}</span>", i, escape_html(names[i]));
  return out + "</div>\n";
}

std::string Page::text() const {
  const std::string title = escape_html(printable(title_));
  const Origin from = origin();
  const std::string head = fmt::format(
      "<p class=\"origin\">{}, {}, {}</p>\n<p class=\"origin\"><code><span>{}</span></code></p>\n", from.time,
      from.program, escape_html(printable(from.machine)), breakable(escape_html(printable(from.command))));
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
      "content=\"width=device-width,initial-scale=1\">\n"
      "<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n<h1>{}</h1>\n{}{}</body>\n</html>\n",
      title, style, title, head, body_);
}

}  // namespace comera::report
