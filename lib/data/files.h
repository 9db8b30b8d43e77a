// Content hashes (XXH3, 128 bits) and the files that paths and globs name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace comera::data {

class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  Hasher& add(std::string_view bytes);  // its length counts too, so that ("ab", "c") and ("a", "bc") differ
  std::string hex() const;              // 32 digits

 private:
  struct State;
  State* state_;
};

// The paths that a list of paths and globs names, each glob's in byte order. An input error names what matches nothing; a folder or an
// unreadable file is one too.
std::vector<std::string> resolve_files(const std::vector<std::string>& patterns);

// Of the stored bytes (not unpacked): all of them up to 64 MiB a file, size and first and last 4 MiB of larger ones.
std::string hash_files(const std::vector<std::string>& files);

}  // namespace comera::data
