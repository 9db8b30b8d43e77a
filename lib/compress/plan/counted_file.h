// The interface of files whose bytes a plan counts. lib/compress implements it for weights files (assemble.h); rooms
// above implement it for the files that they write.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/compress/layer_job.h"

namespace comera::compress {

class CountedFile {
 public:
  virtual ~CountedFile() = default;
  virtual std::uint64_t dense_bytes() const = 0;  // if no weight becomes a chain
  // Bytes of the whole file if every layer has its chain of this size, planned or fitted. An upper bound.
  virtual std::uint64_t bytes(const std::vector<LayerJob>& jobs, std::size_t size) const = 0;
  // Upper bound of the bytes, besides the numbers, that a third core with an order adds to a planned pair.
  virtual std::uint64_t third_core_bytes(const LayerPlan& plan) const = 0;
  virtual std::size_t element_bytes(io::StoredType stored) const { return io::size_of(stored); }  // of one number
};

// Upper bound of bytes() for a plan. Calibration may choose a chain of three cores for an automatic linear layer.
std::uint64_t planned_bytes(const CountedFile& file, const std::vector<LayerJob>& jobs, std::size_t size,
                            bool calibrated);

// The kind of file that a run writes, for reports.
struct OutputFormat {
  std::string name = "weights file";
  std::string weight_ending = ".weight";  // follows a layer's name in the name of its weight
  bool folder = true;                     // a model folder, which holds its reports; otherwise they are beside the file
};

}  // namespace comera::compress
