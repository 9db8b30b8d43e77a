#include "lib/compress/calibration/targets.h"

#include <span>

namespace comera::compress {
namespace {

std::uint64_t bytes_of(const tt::FloatMatrix& a) { return a.values.size() * sizeof(float); }

}  // namespace

void Targets::clear() {
  for (const auto& [key, kept] : kept_)
    free_.emplace(2 * sizeof(float) * static_cast<std::uint64_t>(kept.rows * kept.columns), kept.offset);
  kept_.clear();
}

std::uint64_t Targets::place_for(std::uint64_t bytes) {
  const auto found = free_.find(bytes);
  if (found == free_.end()) return scratch_.reserve(bytes);
  const std::uint64_t offset = found->second;
  free_.erase(found);
  return offset;
}

void Targets::keep(const std::string& layer, std::size_t batch, const Collector::Seen& seen) {
  const std::uint64_t half = bytes_of(seen.given), offset = place_for(2 * half);
  scratch_.write(offset, std::as_bytes(std::span(seen.given.values)));
  scratch_.write(offset + half, std::as_bytes(std::span(seen.residual.values)));
  kept_[{layer, batch}] = {offset, seen.given.rows, seen.given.columns};
}

bool Targets::give(const std::string& layer, std::size_t batch, Collector::Seen& seen) const {
  const auto found = kept_.find({layer, batch});
  if (found == kept_.end()) return false;
  const Kept& kept = found->second;
  std::uint64_t offset = kept.offset;
  for (tt::FloatMatrix* part : {&seen.given, &seen.residual}) {
    part->rows = kept.rows, part->columns = kept.columns;
    part->values.resize(static_cast<std::size_t>(kept.rows * kept.columns));
    scratch_.read(offset, std::as_writable_bytes(std::span(part->values)));
    offset += bytes_of(*part);
  }
  return true;
}

}  // namespace comera::compress
