#include "lib/train/click_state.h"

#include <cmath>

#include "lib/core/error.h"
#include "lib/train/whole_number.h"

namespace comera::train {
namespace {

using engine::CalibrationBin;
using engine::ClickMetrics;

// A sum of shares that are rounded may be a little above 1.
constexpr double most_share = 1 + 1e-9;

// Null is NaN: a measure that the examples do not define, or that of a model whose answers are not finite.
double measure(const io::Json& json, const char* name, double most) {
  const io::Json& value = json.at(name);
  if (value.is_null()) return NAN;
  const auto number = value.get<double>();
  if (!(number >= 0 && number <= most))
    fail_input("{} is {:g}; a number from 0 to {:g} was wanted", name, number, most);
  return number;
}

std::int64_t count_up_to(const io::Json& json, const char* name, std::int64_t least, std::int64_t most) {
  const std::int64_t count = whole_number(json.at(name));
  if (count < least || count > most)
    fail_input("{} is {}; a number from {} to {} was wanted", name, count, least, most);
  return count;
}

std::vector<CalibrationBin> bins_from(const io::Json& json, std::int64_t examples) {
  if (!json.is_array()) fail_input("bins are {}; an array was wanted", json.type_name());
  if (json.size() > engine::calibration_bins)
    fail_input("there are {} bins; at most {} were wanted", json.size(), engine::calibration_bins);
  std::vector<CalibrationBin> bins;
  std::int64_t rest = examples;  // not their sum, which a file could make too large
  for (const io::Json& bin : json) {
    bins.push_back({count_up_to(bin, "count", 1, rest), measure(bin, "predicted", most_share),
                    measure(bin, "observed", most_share)});
    rest -= bins.back().count;
  }
  if (rest != 0) fail_input("{} of {} examples are in no bin", rest, examples);
  return bins;
}

}  // namespace

io::Json clicks_json(const ClickMetrics& clicks) {
  if (clicks.count == 0) return io::Json::object();
  io::Json bins = io::Json::array();
  for (const CalibrationBin& bin : clicks.bins)
    bins.push_back({{"count", bin.count}, {"predicted", bin.predicted}, {"observed", bin.observed}});
  return {{"count", clicks.count}, {"clicks", clicks.clicks},           {"auc", clicks.auc},
          {"nce", clicks.nce},     {"calibration", clicks.calibration}, {"bins", bins}};
}

ClickMetrics clicks_from(const io::Json& json) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  ClickMetrics clicks;
  if (json.is_object() && json.empty()) return clicks;
  clicks.count = count_up_to(json, "count", 1, most);
  clicks.clicks = count_up_to(json, "clicks", 0, clicks.count);
  clicks.auc = measure(json, "auc", most_share);
  clicks.nce = measure(json, "nce", std::numeric_limits<double>::max());
  clicks.calibration = measure(json, "calibration", std::numeric_limits<double>::max());
  clicks.bins = bins_from(json.at("bins"), clicks.count);
  return clicks;
}

}  // namespace comera::train
