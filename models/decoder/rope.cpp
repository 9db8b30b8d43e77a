#include "models/decoder/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "lib/core/error.h"
#include "lib/core/terminal/log.h"

namespace comera::models {
namespace {

using io::Json;

std::string text_of(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

class Reader {
 public:
  Reader(const ConfigReader& whole, const char* key)
      : whole_(whole), reader_(whole.config()[key], whole.name()), key_(key) {}

  RopeScaling scaling(const std::string& type, std::int64_t positions) const {
    RopeScaling scaling;
    scaling.factor = number("factor", {}, 1, 1e6);
    if (type == "linear") {
      scaling.kind = RopeKind::linear;
    } else if (type == "llama3") {
      scaling.kind = RopeKind::llama3;
      scaling.low = number("low_freq_factor", {}, 1e-3, 1e6);
      scaling.high = number("high_freq_factor", {}, 1e-3, 1e6);
      scaling.context = context({});
    } else if (type == "yarn") {
      scaling.kind = RopeKind::yarn;
      for (const char* unknown : {"mscale", "mscale_all_dim"})
        if (reader_.has(unknown)) fail_input("{}: {}.{} is not supported", reader_.name(), key_, unknown);
      scaling.low = number("beta_slow", 1, 1e-3, 1e6);
      scaling.high = number("beta_fast", 32, 1e-3, 1e6);
      scaling.context = context(static_cast<double>(positions));
      scaling.amplitude = number("attention_factor", yarn_amplitude(scaling.factor), 1e-3, 1e3);
      scaling.whole = reader_.flag("truncate", true);
    } else {
      fail_input("{}: {} asks for positions of type '{}'; default, linear, llama3 and yarn are supported",
                 reader_.name(), key_, printable(type));
    }
    if (scaling.kind != RopeKind::linear && scaling.low >= scaling.high)
      fail_input("{}: {} has a ramp from {} to {} turns; the first must be less than the second", reader_.name(), key_,
                 scaling.low, scaling.high);
    return scaling;
  }

 private:
  double number(const char* key, std::optional<double> otherwise, double least, double most) const {
    const double value = reader_.real(key, otherwise);
    if (!(value >= least && value <= most))
      fail_input("{}: {}.{} is {}; it must lie between {} and {}", reader_.name(), key_, key, value, least, most);
    return value;
  }
  // As in transformers, the key beside the object counts before the one in it.
  double context(std::optional<double> otherwise) const {
    constexpr const char* key = "original_max_position_embeddings";
    constexpr double least = 1, most = 1e12;
    if (!whole_.has(key)) return number(key, otherwise, least, most);
    const double value = whole_.real(key);
    if (!(value >= least && value <= most))
      fail_input("{}: {} is {}; it must lie between {} and {}", whole_.name(), key, value, least, most);
    return value;
  }

  const ConfigReader& whole_;
  ConfigReader reader_;  // of the object
  const char* key_;
};

}  // namespace

double yarn_amplitude(double factor) { return factor <= 1 ? 1 : 0.1 * std::log(factor) + 1; }

Rope read_rope(const ConfigReader& reader, std::int64_t positions) {
  Rope rope;
  rope.theta = reader.real("rope_theta", 10000.0);
  // Older files use `rope_scaling`; newer ones use `rope_parameters`, which also contains theta.
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!reader.has(key)) continue;
    const Json& json = reader.config()[key];
    if (!json.is_object())
      fail_input("{}: {} is {}; it must be an object or null", reader.name(), key,
                 printable(json.dump().substr(0, 64)));
    const std::string type = text_of(json, "rope_type").empty() ? text_of(json, "type") : text_of(json, "rope_type");
    if (json.contains("rope_theta")) rope.theta = ConfigReader(json, reader.name()).real("rope_theta");
    if (type == "default" || (type.empty() && json.contains("rope_theta"))) continue;
    rope.scaling = Reader(reader, key).scaling(type, positions);
  }
  return rope;
}

kernels::RotaryAngles rotary_angles(double theta, std::int64_t head_size, const RopeScaling& scaling) {
  kernels::RotaryAngles angles{.theta = theta, .factor = scaling.factor, .amplitude = scaling.amplitude};
  const double turn = 2 * std::numbers::pi;
  switch (scaling.kind) {
    case RopeKind::none: break;
    case RopeKind::linear: angles.kept = 0; break;
    case RopeKind::llama3: {
      // A frequency turns context * base / (2 pi) times in the first context.
      const double ramp = scaling.high - scaling.low;
      angles.kept = -scaling.low / ramp;
      angles.kept_by_base = scaling.context / (turn * ramp);
      break;
    }
    case RopeKind::yarn: {
      const auto size = static_cast<double>(head_size);
      // The feature that turns so many times in the first context.
      const auto feature = [&](double turns) {
        return size * std::log(scaling.context / (turns * turn)) / (2 * std::log(theta));
      };
      double first = feature(scaling.high), last = feature(scaling.low);
      if (scaling.whole) first = std::floor(first), last = std::ceil(last);
      first = std::max(first, 0.0);
      last = std::min(last, size - 1);
      if (first == last) last += 0.001;
      angles.kept = 1 + first / (last - first);
      angles.kept_by_feature = -1 / (last - first);
      break;
    }
  }
  return angles;
}

double frequency_of(const kernels::RotaryAngles& angles, std::int64_t i, std::int64_t head_size) {
  const auto feature = static_cast<double>(i);
  const double base = std::pow(angles.theta, -2.0 * feature / static_cast<double>(head_size));
  const double kept = std::clamp(angles.kept + angles.kept_by_feature * feature + angles.kept_by_base * base, 0.0, 1.0);
  return base * (kept + (1 - kept) / angles.factor);
}

}  // namespace comera::models
