// Version and build of this program; recorded with every run and every measurement.
#pragma once

namespace comera {

struct Version {
  const char* version;   // "0.1.0"
  const char* commit;    // of the source when the build was configured, "unknown" outside a git checkout
  const char* compiler;  // "GNU 12.2.0"
  const char* build;     // "Release"
};

const Version& version();

}  // namespace comera
