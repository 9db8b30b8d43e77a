// JSON for scripts: keys in the order of writing, numbers as numbers, NaN and infinity as null.
#pragma once

#include <string>

#include "lib/io/json.h"
#include "lib/report/output/table.h"

namespace comera::report {

using io::Json;

constexpr int schema_version = 1;

// {"schema_version": 1, "kind": "inspect"}: the first keys of every object on stdout and of every report.json.
Json document(const std::string& kind);

Json to_json(const Cell& cell);
Json to_json(const Table& table);  // a list of objects, one per row, keyed by column

// Replaces invalid UTF-8 instead of refusing it, because names come from files of any origin.
std::string dump(const Json& json, int indent = 2);

}  // namespace comera::report
