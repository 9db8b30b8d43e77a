// A matrix that is kept in memory or in a scratch file. Sums over calibration text for wide layers are larger than what
// else a fit needs, and a fit uses one of them at a time.
#pragma once

#include <cstdint>
#include <memory>

#include "lib/core/files/scratch_file.h"
#include "lib/tt/matrix.h"

namespace comera::tt {

// Copies share the numbers.
class KeptMatrix {
 public:
  KeptMatrix() = default;
  KeptMatrix(Matrix matrix);                         // NOLINT(google-explicit-constructor): in memory
  KeptMatrix(std::shared_ptr<const Matrix> matrix);  // NOLINT(google-explicit-constructor)
  // In this file, which must outlive all copies. The last copy gives the place in the file back.
  KeptMatrix(Matrix matrix, ScratchFile& file);

  std::int64_t rows = 0, columns = 0;
  bool empty() const { return rows * columns == 0; }

  // The numbers. From a file they are read by each call, and are in memory as long as the pointer is.
  std::shared_ptr<const Matrix> get() const;
  Matrix copy() const;
  // Another matrix, kept where this one is: in memory or in the same file.
  KeptMatrix alike(Matrix other) const;

 private:
  struct Place;
  std::shared_ptr<const Matrix> matrix_;
  std::shared_ptr<const Place> place_;  // null: in memory
};

}  // namespace comera::tt
