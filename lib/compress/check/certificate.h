// The certificate inside a compressed file: the errors of each layer at the time of writing, and hashes of the dense
// weights, the stored cores and the calibration text. `comera inspect --verify` recomputes and compares them.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/compress/calibration/moments.h"
#include "lib/compress/fit/layer.h"

namespace comera::compress {

inline constexpr const char* certificate_key = "comera_certificate";  // in the metadata of every weights file

struct Certificate {
  struct Layer {
    std::string name, weight_hash, chain_hash;
    double rel_error = 0;
    std::optional<double> output_error;
    // tt::OutputErrors::direction: no unit vector of outputs has a larger error, relative to the norm of all outputs.
    // Empty for tables of look-ups, and in certificates of earlier versions.
    std::optional<double> direction_error;
    bool earlier = false;  // of an earlier run of a model that --again compressed further
  };
  std::vector<Layer> layers;  // layers that are chains
  std::optional<MomentsInfo> calibration;
  std::string refined;  // hash_vectors() of the biases and norms that refinement changed; empty: none
};

Certificate certificate_of(const std::vector<LayerOutcome>& layers, const std::optional<MomentsInfo>& calibration);
// One hash of all tensors, in the order of their names. Empty if there are none.
std::string hash_vectors(const std::map<std::string, std::span<const std::byte>>& vectors);
// Writes numbers with six digits.
std::string to_text(const Certificate& certificate);
// A text as long as the longest certificate of these layers. Sizes are planned before the errors are known.
std::string widest_certificate(const std::vector<std::string>& names, const std::optional<MomentsInfo>& calibration,
                               bool refined = false);
// InputError with the name `file`.
Certificate parse_certificate(const std::string& text, const std::string& file);

}  // namespace comera::compress
