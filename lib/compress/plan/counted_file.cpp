#include "lib/compress/plan/counted_file.h"

namespace comera::compress {

std::uint64_t planned_bytes(const CountedFile& file, const std::vector<LayerJob>& jobs, std::size_t size,
                            bool calibrated) {
  std::uint64_t bytes = file.bytes(jobs, size);
  for (const LayerJob& job : jobs)
    if (calibrated && !job.candidate.table && job.sizes[size].plan.form == PlannedForm::automatic)
      bytes += file.third_core_bytes(job.sizes[size].plan);
  return bytes;
}

}  // namespace comera::compress
