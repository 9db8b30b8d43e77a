#include "lib/io/gguf/gguf_rope.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>
#include <optional>

#include "lib/core/error.h"
#include "lib/core/terminal/log.h"
#include "lib/io/gguf/gguf_tokenizer.h"

namespace comera::io {
namespace {

// As llama.cpp: without a type the kind is linear, without a factor its older name counts, and 0 is none.
Json scaling_of_keys(const GgufFile& file) {
  const std::string type_key = gguf_key(file, "rope.scaling.type");
  const std::string type = file.has(type_key) ? file.text(type_key) : "linear";
  if (type == "none") return Json::object();
  if (type != "linear" && type != "yarn")
    fail_input("{}: the positions are scaled ({}); linear and yarn are read", file.path(), printable(type));
  double factor = 1;
  for (const char* name : {"rope.scale_linear", "rope.scaling.factor"})
    if (const std::string key = gguf_key(file, name); file.has(key)) factor = shortest(file.real(key));
  if (factor == 0) factor = 1;
  if (factor == 1 && !file.has(type_key)) return Json::object();
  Json scaling{{"rope_type", type}, {"factor", factor}};
  if (const std::string key = gguf_key(file, "rope.scaling.original_context_length"); type == "yarn" && file.has(key))
    scaling["original_max_position_embeddings"] = file.integer(key);
  return scaling;
}

// Frequencies that turn less than `low` times in `context` positions are divided by the factor, those that turn more
// than `high` times are not, with a ramp between (Llama 3.1). Only context / low and context / high count.
struct Ramp {
  double low, high, context;
};
constexpr Ramp standard{1, 4, 8192};
constexpr double edge = 1e-6;  // of a ramp from 0 to 1

class Divisors {
 public:
  Divisors(const GgufFile& file, const GgufTensor& tensor, std::int64_t head_size)
      : file_(file), theta_(gguf_theta(file)) {
    const std::int64_t pairs = head_size / 2;
    if (tensor.shape != FileShape{pairs})
      fail_input("{}: tensor {} has {} numbers in {} dimensions, and heads of {} need {} in 1; the file is damaged",
                 file.path(), rope_divisors_name, tensor.elements(), tensor.shape.size(), head_size, pairs);
    std::vector<float> row(static_cast<std::size_t>(pairs));
    file.read_row(tensor, 0, row);
    constexpr double most = 1e6;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const auto divisor = static_cast<double>(row[i]);
      if (!(divisor >= 1 && divisor <= most))
        fail_input("{}: tensor {}: number {} is {}; divisors of frequencies from 1 to {} are read", file.path(),
                   rope_divisors_name, i, row[i], most);
      divisors_.push_back(divisor);
      turns_.push_back(std::pow(theta_, -2 * static_cast<double>(i) / static_cast<double>(head_size)) /
                       (2 * std::numbers::pi));
    }
    factor_ = shortest(*std::max_element(divisors_.begin(), divisors_.end()));
  }

  Json scaling() const {
    if (factor_ == 1) return Json::object();
    Ramp last = standard;
    for (const Ramp& ramp : candidates()) {
      if (!(ramp.low >= 1e-3 && ramp.high <= 1e6 && ramp.context >= 1 && ramp.context <= 1e12)) continue;  // models/
      last = ramp;
      if (!misfit(ramp))
        return {{"rope_type", "llama3"},
                {"factor", factor_},
                {"low_freq_factor", ramp.low},
                {"high_freq_factor", ramp.high},
                {"original_max_position_embeddings", static_cast<std::int64_t>(ramp.context)}};
    }
    const std::size_t at = *misfit(last);
    fail_input(
        "{}: tensor {}: its divisors of frequencies, up to {}, are no positions of kind llama3, which alone are read: "
        "number {} is {}, and the others ask for {}; fetch the file again, or the model in another format",
        file_.path(), rope_divisors_name, factor_, at, shortest(divisors_[at]), shortest(wanted(last, at)));
  }

 private:
  // The part of a frequency that is not divided, 0 to 1.
  double kept(std::size_t i) const { return (1 / divisors_[i] - 1 / factor_) / (1 - 1 / factor_); }

  double wanted(const Ramp& ramp, std::size_t i) const {
    const double kept = std::clamp((ramp.context * turns_[i] - ramp.low) / (ramp.high - ramp.low), 0.0, 1.0);
    return 1 / (kept + (1 - kept) / factor_);
  }

  // A pair whose divisor is another one. Programs compute frequencies in float32, with a relative error of
  // (2 + ln theta) 2^-24; a ramp that is solved from two pairs can have four times the error.
  std::optional<std::size_t> misfit(const Ramp& ramp) const {
    const double frequency_error = 4 * (2 + std::log(std::max(theta_, 1.0))) * 0x1p-24;
    for (std::size_t i = 0; i < divisors_.size(); ++i) {
      const double on_ramp = std::min(ramp.context * turns_[i], ramp.high) / (ramp.high - ramp.low);
      const double kept_error = frequency_error * on_ramp * (1 - 1 / factor_);
      const double allowed = divisors_[i] * (0x1p-22 + divisors_[i] * kept_error);
      if (!(std::abs(wanted(ramp, i) - divisors_[i]) <= allowed)) return i;
    }
    return std::nullopt;
  }

  std::vector<Ramp> candidates() const {
    std::vector<Ramp> all{standard};
    // With the usual `low` and `high` one pair on the ramp tells the context.
    for (std::size_t i = 0; i < divisors_.size() && all.size() == 1; ++i)
      if (kept(i) > edge && kept(i) < 1 - edge)
        all.push_back({standard.low, standard.high,
                       std::round((standard.low + kept(i) * (standard.high - standard.low)) / turns_[i])});
    const std::optional<Ramp> found = solved();
    if (!found) return all;
    const auto rounded = [](double value) { return std::round(value * 1e4) / 1e4; };
    all.push_back({1, rounded(found->high / found->low), std::round(found->context / found->low)});
    all.push_back({rounded(found->low), rounded(found->high), found->context});
    all.push_back(*found);
    return all;
  }

  // The ramp through the first and the last pair on it, with the context of `standard`. Where it has fewer than two,
  // through the pairs beside it.
  std::optional<Ramp> solved() const {
    const std::size_t pairs = divisors_.size();
    std::size_t begin = 0;
    while (begin < pairs && kept(begin) >= 1 - edge) ++begin;
    std::size_t end = begin;
    while (end < pairs && kept(end) > edge) ++end;
    if (end == pairs) return std::nullopt;  // a factor that float32 hardly tells from 1
    double slope = 0;
    const std::size_t inside = end - begin;
    if (inside > 1) {
      slope = (kept(begin) - kept(end - 1)) / (turns_[begin] - turns_[end - 1]);
    } else {
      if (inside > 0) slope = kept(begin) / (turns_[begin] - turns_[end]);
      if (begin > 0) slope = std::max(slope, (1 - kept(begin)) / (turns_[begin - 1] - turns_[begin]));
    }
    const double none = turns_[begin] - kept(begin) / slope, all = none + 1 / slope;  // turns per position
    if (!(slope > 0 && none > 0 && std::isfinite(all))) return std::nullopt;
    return Ramp{standard.context * none, standard.context * all, standard.context};
  }

  const GgufFile& file_;
  double theta_, factor_ = 1;
  std::vector<double> divisors_, turns_;  // of each pair; turns per position
};

}  // namespace

double gguf_theta(const GgufFile& file) {
  const std::string key = gguf_key(file, "rope.freq_base");
  return file.has(key) ? shortest(file.real(key)) : 10000.0;
}

double shortest(double stored) {
  char text[32];
  const auto end = std::to_chars(std::begin(text), std::end(text), static_cast<float>(stored)).ptr;
  double value = stored;
  std::from_chars(std::begin(text), end, value);
  return value;
}

Json gguf_rope_scaling(const GgufFile& file, std::int64_t head_size) {
  Json by_keys = scaling_of_keys(file);
  const GgufTensor* tensor = file.find(rope_divisors_name);
  if (!tensor) return by_keys;
  Json by_tensor = Divisors(file, *tensor, head_size).scaling();
  if (by_tensor.empty()) return by_keys;
  if (!by_keys.empty() && by_keys["factor"] != 1.0)
    fail_input("{}: the positions are scaled by keys ({}, factor {}) and by tensor {}; one of both is read",
               file.path(), by_keys["rope_type"].get<std::string>(), by_keys["factor"].get<double>(),
               rope_divisors_name);
  return by_tensor;
}

}  // namespace comera::io
