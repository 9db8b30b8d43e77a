// Version and build of this program. Every run and every measurement records them.
#pragma once

namespace comera {

struct Version {
  const char* version;   // "0.1.0"
  const char* commit;    // of the source at the time of configuration, "unknown" outside a git checkout
  const char* compiler;  // "GNU 12.2.0"
  const char* build;     // "Release"
};

const Version& version();

}  // namespace comera
