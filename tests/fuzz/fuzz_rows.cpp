// Reads any bytes as TSV, CSV and JSONL. Either an error with a message, or rows whose texts lie within the bytes read.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "lib/core/error.h"
#include "lib/data/files/table.h"

using namespace comera;

namespace {

void read(std::string_view text, data::Format format) {
  data::Table table;
  try {
    data::TextReader reader(text, "input", format, {std::nullopt, {"premise", "hypothesis"}, false, "label"});
    table.read(reader, "label");
  } catch (const InputError&) {
    return;
  }
  table.sort_labels();
  for (std::int64_t row = 0; row < table.size(); ++row) {
    if (table.label(row) < 0 || static_cast<std::size_t>(table.label(row)) >= table.labels().size()) std::abort();
    if (table.text(row, 0).size() + table.text(row, 1).size() > text.size()) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  read(text, data::Format::tsv);
  read(text, data::Format::csv);
  read(text, data::Format::jsonl);
  return 0;
}
