// Reads and writes config.json: typed keys with errors that name file and key, and the `comera` block with the form of
// every weight.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/core/error.h"
#include "lib/io/json.h"
#include "lib/layers/training/model.h"
#include "models/spec.h"

namespace comera::models {

class ConfigReader {
 public:
  // Both arguments must outlive the reader.
  ConfigReader(const io::Json& config, const std::string& name) : config_(config), name_(name) {}

  const io::Json& config() const { return config_; }
  const std::string& name() const { return name_; }

  bool has(const char* key) const;  // exists and is not null
  std::int64_t integer(const char* key, std::optional<std::int64_t> otherwise = {}) const;
  double real(const char* key, std::optional<double> otherwise = {}) const;
  bool flag(const char* key, bool otherwise) const;
  std::string text(const char* key, const std::string& otherwise) const;
  std::string architecture() const;  // first entry of `architectures`
  std::vector<std::string> labels() const;

  // Fail for a value that would change the arithmetic in an unsupported way.
  void require(const char* key, const std::string& supported) const;
  void require_off(const char* key) const;
  void require_null(const char* key) const;

 private:
  const io::Json* find(const char* key, bool optional) const;

  const io::Json& config_;
  const std::string& name_;
};

// Fills spec.forms from the `comera` block, which must match the model's sites.
void read_forms(Spec& spec, const std::vector<WeightSite>& sites, const ConfigReader& reader);
// The last step of reading any architecture: reports inconsistent values with the file's name, then reads the forms.
template <class AnySpec>
void check_and_read_forms(AnySpec& spec, const ConfigReader& reader) {
  try {
    check(spec);
  } catch (const InputError& error) {
    fail_input("{}: {}", reader.name(), error.what());
  }
  read_forms(spec, weight_sites(spec), reader);
}
// The initial config.json to write: the keys of the file that `spec` came from, without the `comera` block and the
// labels.
io::Json config_start(const Spec& spec);
// id2label and label2id.
void write_labels(io::Json& config, const std::vector<std::string>& labels);
// Adds the block with the current ranks if the model has tensor trains.
void write_forms(io::Json& config, const layers::Model& model);
const char* torch_dtype(const layers::Model& model);  // type of the weights in the exported file

}  // namespace comera::models
