#include "lib/compress/calibration/part_sums.h"

#include <utility>

namespace comera::compress {

std::vector<PartSums::Sums>& PartSums::of(TextPart part) {
  if (part != part_) finish();
  part_ = part;
  return sums_;
}

void PartSums::close() {
  finish();
  std::erase_if(groups_, [](const MomentGroup& group) { return group.fit.moment.empty(); });
}

void PartSums::finish() {
  for (std::size_t g = 0; part_ && g < sums_.size(); ++g) {
    Sums sums = std::exchange(sums_[g], {});
    if (sums.moment.values.empty() || (part_ == TextPart::fitted && tt::trace(sums.moment) <= 0)) continue;
    MomentGroup::Sums& kept = groups_[g].part(*part_);
    tt::mirror_upper(sums.moment);
    kept.moment = keep(std::move(sums.moment));
    if (!sums.products.values.empty()) kept.products = keep(std::move(sums.products));
  }
}

tt::KeptMatrix PartSums::keep(tt::Matrix matrix) const {
  return file_ ? tt::KeptMatrix(std::move(matrix), *file_) : tt::KeptMatrix(std::move(matrix));
}

}  // namespace comera::compress
