#include "lib/tt/kept_matrix.h"

#include <utility>

namespace comera::tt {

struct KeptMatrix::Place {
  ScratchFile& file;
  std::uint64_t at, bytes;

  Place(ScratchFile& file, std::uint64_t bytes) : file(file), at(file.reserve(bytes)), bytes(bytes) {}
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  ~Place() { file.release(at, bytes); }
};

KeptMatrix::KeptMatrix(Matrix matrix) : KeptMatrix(std::make_shared<const Matrix>(std::move(matrix))) {}

KeptMatrix::KeptMatrix(std::shared_ptr<const Matrix> matrix)
    : rows(matrix->rows), columns(matrix->columns), matrix_(std::move(matrix)) {}

KeptMatrix::KeptMatrix(Matrix matrix, ScratchFile& file) : rows(matrix.rows), columns(matrix.columns) {
  const auto numbers = std::as_bytes(std::span(matrix.values));
  const auto place = std::make_shared<const Place>(file, numbers.size());
  file.write(place->at, numbers);
  place_ = place;
}

std::shared_ptr<const Matrix> KeptMatrix::get() const {
  if (place_) return std::make_shared<const Matrix>(copy());
  return matrix_ ? matrix_ : std::make_shared<const Matrix>();
}

Matrix KeptMatrix::copy() const {
  if (!place_) return matrix_ ? *matrix_ : Matrix();
  Matrix matrix(rows, columns);
  place_->file.read(place_->at, std::as_writable_bytes(std::span(matrix.values)));
  return matrix;
}

KeptMatrix KeptMatrix::alike(Matrix other) const {
  return place_ ? KeptMatrix(std::move(other), place_->file) : KeptMatrix(std::move(other));
}

}  // namespace comera::tt
