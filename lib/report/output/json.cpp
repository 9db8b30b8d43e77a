#include "lib/report/output/json.h"

#include <cmath>

#include "lib/core/version.h"

namespace comera::report {

Json document(const std::string& kind) {
  Json json;
  json["schema_version"] = schema_version;
  json["kind"] = kind;
  json["version"] = version().version;
  return json;
}

Json to_json(const Cell& cell) {
  struct {
    Json operator()(std::monostate) const { return nullptr; }
    Json operator()(std::int64_t value) const { return value; }
    Json operator()(double value) const { return std::isfinite(value) ? Json(value) : Json(nullptr); }
    Json operator()(const std::string& text) const { return text; }
    Json operator()(const std::vector<std::int64_t>& list) const { return list; }
  } convert;
  return std::visit(convert, cell);
}

Json to_json(const Table& table) {
  Json rows = Json::array();
  for (const auto& row : table.rows) {
    Json object = Json::object();
    for (std::size_t i = 0; i < row.size(); ++i) object[table.columns[i].key] = to_json(row[i]);
    rows.push_back(std::move(object));
  }
  return rows;
}

std::string dump(const Json& json, int indent) { return json.dump(indent, Json::BadText::replace); }

}  // namespace comera::report
