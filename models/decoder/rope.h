// Scaled rotary positions, as transformers describes them in `rope_scaling` or `rope_parameters`.
#pragma once

#include "kernels/rotary.h"
#include "models/config_reader.h"

namespace comera::models {

// linear: all frequencies are divided by `factor` (Chen et al. 2023). llama3: those that turn less than `low` times in
// the first context are, those that turn more than `high` times are not, with a ramp between (Llama 3.1). yarn: the
// same with a ramp over features, and larger cosines and sines (Peng et al. 2023).
enum class RopeKind : std::uint8_t { none, linear, llama3, yarn };

struct RopeScaling {
  RopeKind kind = RopeKind::none;
  double factor = 1;
  double low = 1, high = 4;  // turns within the first context
  double context = 0;        // positions of the first training
  double amplitude = 1;      // yarn: of cosines and sines
  bool whole = true;         // yarn: the ramp begins and ends at whole features
};

struct Rope {
  double theta = 10000;
  RopeScaling scaling = {};
};

// InputError that names the key: another kind, a missing or senseless number. `positions`: of the model.
Rope read_rope(const ConfigReader& reader, std::int64_t positions);

kernels::RotaryAngles rotary_angles(double theta, std::int64_t head_size, const RopeScaling& scaling);
// Of feature i, as the kernel computes it.
double frequency_of(const kernels::RotaryAngles& angles, std::int64_t i, std::int64_t head_size);
// The amplitude that YaRN gives by default.
double yarn_amplitude(double factor);

}  // namespace comera::models
