// Targets of layers: their outputs in the dense model, and the residual stream that it adds them to.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "lib/compress/calibration/collector.h"
#include "lib/core/files/scratch_file.h"

namespace comera::compress {

// Holds the targets of one block's layers, batch by batch, in a scratch file. All compressed models read them, so the
// dense model runs once.
class Targets {
 public:
  explicit Targets(ScratchFile& scratch) : scratch_(scratch) {}

  // Forgets all outputs and keeps their places in the file.
  void clear();
  // `layer`: the last of a group; `seen`: its output and the residual stream before it, [tokens x out] each.
  void keep(const std::string& layer, std::size_t batch, const Collector::Seen& seen);
  // Reads them back into `seen`. False if nothing was kept.
  bool give(const std::string& layer, std::size_t batch, Collector::Seen& seen) const;

 private:
  struct Kept {
    std::uint64_t offset = 0;
    std::int64_t rows = 0, columns = 0;
  };
  std::uint64_t place_for(std::uint64_t bytes);

  ScratchFile& scratch_;
  std::map<std::pair<std::string, std::size_t>, Kept> kept_;
  std::multimap<std::uint64_t, std::uint64_t> free_;  // bytes and offset of places without outputs
};

}  // namespace comera::compress
