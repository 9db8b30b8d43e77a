#include "lib/data/clicks/click_dataset.h"

#include "lib/core/error.h"
#include "lib/data/files/files.h"

namespace comera::data {
namespace {

bool is_libfm(const std::string& path) {
  std::string_view name = path;
  for (const std::string_view packed : {".gz", ".zst"})
    if (name.ends_with(packed)) {
      name.remove_suffix(packed.size());
      break;
    }
  return name.ends_with(".libfm") || name.ends_with(".libsvm") || name.ends_with(".svm");
}

// The number of entries in the first line, behind the label.
std::size_t entries_of_first_line(const std::string& path) {
  LineReader lines(path);
  std::string_view line;
  if (!lines.next(line)) fail_input("[data] {}: is empty", path);
  std::size_t words = 0;
  for (std::size_t at = line.find_first_not_of(" \t"); at != std::string_view::npos; ++words) {
    at = line.find_first_of(" \t", at);
    if (at != std::string_view::npos) at = line.find_first_not_of(" \t", at);
  }
  if (words < 2 || words > most_categories + 1)
    fail_input("[data] {}: line 1: has {} words; a label and 1 to {} entries are wanted, or a --schema with a bag",
               path, words, most_categories);
  return words - 1;
}

std::int64_t count_rows(const std::vector<std::string>& files, const Schema& schema) {
  std::int64_t rows = 0;
  for (const std::string& file : files) {
    ClickReader reader(file, schema, ClickReader::Labels::required);
    Reading progress(file);
    for (ClickRow row; reader.next(row); progress.at(reader.lines())) ++rows;
  }
  return rows;
}

}  // namespace

Schema schema_of(const DataSpec& spec, const std::string& first_file) {
  if (spec.schema == "criteo") return criteo_schema();
  if (!spec.schema.empty()) return read_schema(spec.schema);
  if (is_libfm(first_file)) return libfm_schema(entries_of_first_line(first_file));
  fail_input(
      "[data] {}: the columns are not known; use --schema FILE, --schema criteo for Criteo's TSV, or name a libFM file "
      "FILE.libfm",
      first_file);
}

std::shared_ptr<const ClickDataset> ClickDataset::open(const DataSpec& spec, std::shared_ptr<const FeatureMap> map) {
  auto dataset = std::shared_ptr<ClickDataset>(new ClickDataset(spec));
  dataset->labels_ = {"0", "1"};
  dataset->files_ = resolve_files(spec.files);
  dataset->hash_ = hash_files(dataset->files_);
  const bool learns = map == nullptr;
  if (learns) {
    const Schema schema = schema_of(spec, dataset->files_.front());
    map = FeatureMap::learn(schema, dataset->files_, {spec.min_count, spec.hash_rows});
  }
  dataset->map_ = std::move(map);
  dataset->size_ = learns ? dataset->map_->training_rows() : count_rows(dataset->files_, dataset->schema());
  if (dataset->size_ == 0) fail_input("[data] {}: holds no rows", dataset->files_.front());
  return dataset;
}

}  // namespace comera::data
