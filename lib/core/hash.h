// XXH3 with 128 bits. It is fast and detects changed data. It does not protect against deliberate collisions.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace comera {

class Folder;

class Hasher {
 public:
  Hasher();
  ~Hasher();
  void update(const void* data, std::size_t bytes);
  void update(std::string_view text) { update(text.data(), text.size()); }
  std::string hex() const;  // 32 hex digits

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string hash_bytes(std::span<const std::byte> bytes);
std::string hash_text(std::string_view text);
std::string hash_file(const std::string& path);  // of the contents; streamed
std::string hash_file(const Folder& folder, const std::string& name);

}  // namespace comera
