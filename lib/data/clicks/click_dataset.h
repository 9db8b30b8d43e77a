// Click data as a data set: files with a schema, streamed in blocks.
#pragma once

#include <memory>

#include "lib/data/clicks/feature_map.h"
#include "lib/data/loader.h"

namespace comera::data {

class ClickDataset final : public Dataset {
 public:
  // Without `map` it is learned from the files. Reads all rows once, so that an error is one before the run begins.
  static std::shared_ptr<const ClickDataset> open(const DataSpec& spec, std::shared_ptr<const FeatureMap> map = {});

  const DataSpec& spec() const override { return spec_; }
  const std::vector<std::string>& labels() const override { return labels_; }
  std::int64_t size() const override { return size_; }
  const std::vector<std::string>& files() const override { return files_; }
  const std::string& hash() const override { return hash_; }
  void save(const Folder& folder) const override { map_->save(folder); }

  const std::shared_ptr<const FeatureMap>& map() const { return map_; }
  const Schema& schema() const { return map_->schema(); }

 private:
  explicit ClickDataset(const DataSpec& spec) : spec_(spec) {}

  DataSpec spec_;
  std::vector<std::string> labels_, files_;
  std::string hash_;
  std::shared_ptr<const FeatureMap> map_;
  std::int64_t size_ = 0;
};

// The schema that a data set names: a file, "criteo", or none for libFM files.
Schema schema_of(const DataSpec& spec, const std::string& first_file);

std::unique_ptr<Loader> open_click_loader(std::shared_ptr<const ClickDataset> dataset, const LoaderOptions& options,
                                          const LoaderState& state);

}  // namespace comera::data
