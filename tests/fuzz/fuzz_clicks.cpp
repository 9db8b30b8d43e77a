// Reads any bytes as a schema, and as rows of CSV, TSV and libFM under fixed schemas. Either an error with a message,
// or rows with a label and the keys of every column.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "lib/core/error.h"
#include "lib/data/clicks/click_reader.h"

using namespace comera;

namespace {

void read_rows(std::string_view text, const data::Schema& schema) {
  try {
    data::ClickReader reader(data::ByteStream::of(text), "input", schema, data::ClickReader::Labels::required);
    for (data::ClickRow row; reader.next(row);) {
      if (row.label != 0 && row.label != 1) std::abort();
      if (row.dense.size() != schema.dense.size() || row.ends.size() != schema.categories.size()) std::abort();
      if (row.keys.size() > text.size() || row.ends.back() != row.keys.size()) std::abort();
    }
  } catch (const InputError&) {
  }
}

const data::Schema& fixed(const char* text) {
  static const data::Schema csv = data::parse_schema(
      R"({"label": "y", "dense": ["x"], "categories": ["c", {"column": "t", "separator": "|"},
          {"column": "i", "encoding": "id", "rows": 9}]})",
      "csv");
  static const data::Schema bag =
      data::parse_schema(R"({"format": "libfm", "categories": [{"column": "all", "most": 0}]})", "bag");
  return std::string_view(text) == "csv" ? csv : bag;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const data::Schema schema = data::parse_schema(text, "schema");
    if (data::schema_json(data::parse_schema(data::schema_json(schema), "again")) != data::schema_json(schema))
      std::abort();
  } catch (const InputError&) {
  }
  read_rows(text, fixed("csv"));
  read_rows(text, data::criteo_schema());
  read_rows(text, fixed("bag"));
  read_rows(text, data::libfm_schema(3));
  return 0;
}
