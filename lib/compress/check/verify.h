// Checks a compressed folder against its certificate. Recomputes the errors from the dense weights and, if given, the
// calibration text, and compares all other tensors with the dense model.
#pragma once

#include <string>
#include <vector>

#include "kernels/host/thread_pool.h"
#include "lib/compress/check/certificate.h"

namespace comera::compress {

struct LayerCheck {
  std::string name;  // name of the dense tensor
  double rel_error = 0, stored_rel_error = 0;
  std::optional<double> output_error, stored_output_error;  // of a table: of its rows, by their look-ups
  // Certificate::Layer::direction_error; a certificate without it leaves it alone.
  std::optional<double> direction_error, stored_direction_error;
  std::string fault;  // "": as certified
};

// A tensor that belongs to no certified chain and differs from the dense model.
struct OtherFault {
  std::string name, fault;
};

struct Verification {
  std::vector<LayerCheck> layers;
  // Tensors that belong to no certified chain; they are compared with the dense model byte by byte.
  std::int64_t others = 0;
  std::vector<OtherFault> other_faults;
  bool holds() const;
};

// The calibration that the certificate records: what verify() must measure again. Empty if it names no text.
// InputError: no certificate.
std::optional<MomentsInfo> certified_calibration(const std::string& compressed);

// `moments`: of the dense model and the text that the certificate names. If the certificate names no text, any text is
// accepted; then output errors are measured but not compared. Null: output errors are not recomputed. InputError:
// folders that do not belong together, no certificate, a different text or clipping of tokens. `adapter`: a PEFT LoRA
// folder that was merged into the dense model; "": none.
Verification verify(const std::string& compressed, const std::string& dense, InputMoments* moments,
                    kernels::ThreadPool& pool, const std::string& adapter = "");

}  // namespace comera::compress
