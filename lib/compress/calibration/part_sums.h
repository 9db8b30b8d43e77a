// Sums over calibration text for some groups of layers, one part of the text after the other, so that memory holds the
// sums of one part alone.
#pragma once

#include <optional>
#include <vector>

#include "lib/compress/calibration/moments.h"
#include "lib/core/files/scratch_file.h"

namespace comera::compress {

class PartSums {
 public:
  struct Sums {
    tt::Matrix moment, products;  // of the upper triangle, [in x in], and [in x out]; empty: nothing was added
  };

  // Finished sums go to `groups`: in memory, or with a file there. Both outlive the object.
  PartSums(std::vector<MomentGroup>& groups, ScratchFile* file) : groups_(groups), file_(file), sums_(groups.size()) {}

  // The sums of each group over this part. The parts come one after the other.
  std::vector<Sums>& of(TextPart part);
  // Finishes the last part. Removes groups without inputs other than zero in fitted text.
  void close();

 private:
  void finish();
  tt::KeptMatrix keep(tt::Matrix matrix) const;

  std::vector<MomentGroup>& groups_;
  ScratchFile* file_;
  std::optional<TextPart> part_;
  std::vector<Sums> sums_;
};

}  // namespace comera::compress
