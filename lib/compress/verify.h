// Whether a compressed folder still is what its certificate says, recomputed from the dense weights and, where given, the calibration text.
#pragma once

#include <string>
#include <vector>

#include "kernels/thread_pool.h"
#include "lib/compress/certificate.h"

namespace comera::compress {

struct LayerCheck {
  std::string name;  // of the dense tensor
  double rel_error = 0, stored_rel_error = 0;
  std::optional<double> output_error, stored_output_error;
  std::string fault;  // "": as certified
};

struct Verification {
  std::vector<LayerCheck> layers;
  bool holds() const;
};

// Of calibration text, fitted and held out; 0 where the certificate names no text. InputError: no certificate.
std::int64_t certified_tokens(const std::string& compressed);

// `moments`: of the dense model and the text that the certificate names (any text where it names none: then output errors are measured and compared
// with nothing); null: output errors are not recomputed. InputError: folders that do not belong together, no certificate, another text.
Verification verify(const std::string& compressed, const std::string& dense, InputMoments* moments, kernels::ThreadPool& pool);

}  // namespace comera::compress
