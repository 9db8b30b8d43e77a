// The implementation of Dataset that the loaders use.
#pragma once

#include "lib/data/files/table.h"
#include "lib/data/files/text_reader.h"
#include "lib/data/loader.h"

namespace comera::data {

// Mlm of pairs: the most tokens of a first text.
constexpr std::int64_t first_tokens(const DataSpec& spec) {
  return spec.first_length > 0 ? spec.first_length : spec.max_length / 4;
}

class FileDataset final : public TextDataset {
 public:
  FileDataset(DataSpec given, std::shared_ptr<const Tokenizer> tokenizer, std::vector<std::string> labels);

  const DataSpec& spec() const override { return spec_; }
  const Tokenizer& tokenizer() const override { return *tokenizer_; }
  const std::vector<std::string>& labels() const override { return table.labels(); }
  std::int64_t size() const override { return table.size(); }
  const std::vector<std::string>& files() const override { return files_; }
  const std::string& hash() const override { return hash_; }
  std::string_view text(std::int64_t row, int which) const override { return table.text(row, which); }
  std::int32_t label(std::int64_t row) const override { return table.label(row); }
  float score(std::int64_t row) const override { return table.score(row); }
  std::int32_t label_index(std::string_view label) const override;

  // The request for opening a file of this data set. `longest`: see TextRequest.
  TextRequest request(std::size_t longest) const;
  void read_files();
  void read_rows(TextReader& reader);
  void take_rows(const std::vector<std::vector<std::string>>& texts, const std::vector<std::int32_t>& labels);

  Table table;  // empty for mlm and clm

 private:
  void check_columns() const;
  void tell_empty_texts() const;

  DataSpec spec_;
  bool asked_ = false;  // the user named columns
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<std::string> files_;
  std::string hash_;
};

}  // namespace comera::data
