#include "lib/core/hash.h"

#include <fmt/core.h>

#include "lib/core/files/folder.h"
#include "lib/core/files/regular_file.h"
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace comera {

struct Hasher::State {
  XXH3_state_t xxh;
};

Hasher::Hasher() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->xxh); }
Hasher::~Hasher() = default;

void Hasher::update(const void* data, std::size_t bytes) { XXH3_128bits_update(&state_->xxh, data, bytes); }

std::string Hasher::hex() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(&state_->xxh);
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::string hash_bytes(std::span<const std::byte> bytes) {
  Hasher hasher;
  hasher.update(bytes.data(), bytes.size());
  return hasher.hex();
}

std::string hash_text(std::string_view text) { return hash_bytes(std::as_bytes(std::span(text))); }

std::string hash_file(const std::string& path) {
  Hasher hasher;
  read_blocks(path, [&](std::string_view block) { hasher.update(block); });
  return hasher.hex();
}

std::string hash_file(const Folder& folder, const std::string& name) {
  Hasher hasher;
  read_blocks(folder.open_file(name), folder.path_of(name), [&](std::string_view block) { hasher.update(block); });
  return hasher.hex();
}

}  // namespace comera
