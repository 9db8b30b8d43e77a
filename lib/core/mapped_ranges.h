// Which memory shows which file. A mapped file that is cut while it is read has pages that cannot be read: touching one
// ends the process with SIGBUS. With a range registered here it ends with a sentence and exit code 1 instead.
#pragma once

#include <cstddef>
#include <string>

namespace comera {

void add_mapped_range(const void* begin, std::size_t bytes, const std::string& path);
void remove_mapped_range(const void* begin);  // before it is unmapped

// InputError where the file of the range that begins at `begin` is shorter by now: what its last page shows behind the
// end are zeros.
void require_whole_range(const void* begin);

}  // namespace comera
