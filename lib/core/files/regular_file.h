// Reads files that must be regular (or a link to a regular file). A pipe would block until a writer comes, and a
// device may never end.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "lib/core/files/descriptor.h"

namespace comera {

// Returns a descriptor for reading and does not block. Returns -1 and sets errno if the system cannot open it.
// InputError for a pipe, a socket or a device.
int open_regular(const std::string& path);

// Calls `take` for each block in turn. InputError if the file cannot be read.
void read_blocks(const std::string& path, const std::function<void(std::string_view)>& take);
void read_blocks(const Descriptor& file, const std::string& path,
                 const std::function<void(std::string_view)>& take);  // `path` is for error messages

enum class PathKind : std::uint8_t {
  none,
  file,
  linked_file,
  folder,
  linked_folder,
  other
};  // other: pipe, socket, device, broken link
PathKind kind_of(const std::string& path);
const char* name_of(PathKind kind);

}  // namespace comera
