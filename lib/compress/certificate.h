// What a compressed file says about itself: per layer the errors that it was written with, and hashes of the dense
// weights, the stored cores and the calibration text, so that anyone who has them can check (`comera inspect
// --verify`).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/compress/layer.h"
#include "lib/compress/moments.h"

namespace comera::compress {

inline constexpr const char* certificate_key = "comera_certificate";  // in the metadata of every weights file

struct Certificate {
  struct Layer {
    std::string name, weight_hash, chain_hash;
    double rel_error = 0;
    std::optional<double> output_error;
  };
  std::vector<Layer> layers;  // those that are chains
  std::optional<MomentsInfo> calibration;
};

Certificate certificate_of(const std::vector<LayerOutcome>& layers, const std::optional<MomentsInfo>& calibration);
// Numbers keep six digits.
std::string to_text(const Certificate& certificate);
// Text as long as that of any certificate of these layers can be: sizes are planned before errors are known.
std::string widest_certificate(const std::vector<std::string>& names, const std::optional<MomentsInfo>& calibration);
// InputError that names `file`.
Certificate parse_certificate(const std::string& text, const std::string& file);

}  // namespace comera::compress
