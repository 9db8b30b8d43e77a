// The free space of a disk.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace comera {

// Bytes that this user may still write where `path` is or will be. None: the file system does not tell it.
std::optional<std::uint64_t> free_space(const std::string& path);

}  // namespace comera
