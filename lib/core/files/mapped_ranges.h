// Registers mapped memory with its file. If a mapped file is cut while it is read, an access to its missing pages ends
// the process with SIGBUS. For a registered range the process prints an error message and ends with exit code 1
// instead.
#pragma once

#include <cstddef>
#include <string>

namespace comera {

void add_mapped_range(const void* begin, std::size_t bytes, const std::string& path);
void remove_mapped_range(const void* begin);  // must be called before munmap

// InputError if the file of the range that begins at `begin` has become shorter. Its last page then shows zeros beyond
// the end of the file.
void require_whole_range(const void* begin);

}  // namespace comera
