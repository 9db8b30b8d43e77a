#include "lib/io/json_file.h"

#include "lib/core/files/file.h"

namespace comera::io {

Json read_json(const std::string& path, std::uint64_t largest) { return parse_json(read_file(path, largest), path); }

}  // namespace comera::io
