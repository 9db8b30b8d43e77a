// A folder for one test case, removed at its end.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

namespace comera {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    path_ = (std::filesystem::temp_directory_path() / "comera_test_XXXXXX").string();
    if (!::mkdtemp(path_.data())) throw std::runtime_error("mkdtemp failed");
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace comera
