// Reading what must be a regular file (or a link to one): a pipe would wait for its writer, a device may never end.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "lib/core/descriptor.h"

namespace comera {

// A descriptor for reading, without waiting; -1 and errno where the system does not open it. InputError: a pipe, a
// socket or a device.
int open_regular(const std::string& path);

// Calls `take` with one block after the other. InputError: it cannot be read.
void read_blocks(const std::string& path, const std::function<void(std::string_view)>& take);
void read_blocks(const Descriptor& file, const std::string& path,
                 const std::function<void(std::string_view)>& take);  // `path`: for errors

enum class PathKind : std::uint8_t {
  none,
  file,
  linked_file,
  folder,
  linked_folder,
  other
};  // other: pipe, socket, device, link to nothing
PathKind kind_of(const std::string& path);
const char* name_of(PathKind kind);

}  // namespace comera
