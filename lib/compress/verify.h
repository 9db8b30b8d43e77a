// Whether a compressed folder still is what its certificate says, recomputed from the dense weights and, where given,
// the calibration text; and whether everything else in it is the dense model's.
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

// A tensor that belongs to no certified chain and is not the dense model's.
struct OtherFault {
  std::string name, fault;
};

struct Verification {
  std::vector<LayerCheck> layers;
  std::int64_t others =
      0;  // tensors that belong to no certified chain; they were compared with the dense model's byte for byte
  std::vector<OtherFault> other_faults;
  bool holds() const;
};

// Tokens of calibration text, fitted and held out; 0 if the certificate names no text. InputError: no certificate.
std::int64_t certified_tokens(const std::string& compressed);

// `moments`: of the dense model and the text that the certificate names (any text where it names none: then output
// errors are measured and compared with nothing); null: output errors are not recomputed. InputError: folders that do
// not belong together, no certificate, another text.
Verification verify(const std::string& compressed, const std::string& dense, InputMoments* moments,
                    kernels::ThreadPool& pool);

}  // namespace comera::compress
