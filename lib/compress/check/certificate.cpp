#include "lib/compress/check/certificate.h"

#include <cmath>
#include <cstdlib>

#include "lib/core/error.h"
#include "lib/core/hash.h"
#include "lib/core/terminal/log.h"

namespace comera::compress {
namespace {

using io::Json;

double six_digits(double value) { return std::strtod(fmt::format("{:.5e}", value).c_str(), nullptr); }

Json calibration_json(const MomentsInfo& info) {
  return {{"files", info.files},
          {"hash", info.hash},
          {"tokens", info.tokens},
          {"held_tokens", info.held_tokens},
          {"sequential", info.sequential},
          {"judged_tokens", info.judged_tokens},
          {"clips_tokens", info.clips_tokens}};
}

const Json& member(const Json& json, const char* key, const std::string& file) {
  const auto found = json.find(key);
  if (!json.is_object() || found == json.end())
    fail_input("{}: the certificate lacks \"{}\"; the file is damaged", file, key);
  return *found;
}

template <class T>
T value_of(const Json& json, const char* key, const std::string& file) {
  const Json& value = member(json, key, file);
  try {
    return value.get<T>();
  } catch (const io::JsonError&) {
    fail_input("{}: the certificate's \"{}\" is {}; the file is damaged", file, key,
               printable(value.dump().substr(0, 64)));
  }
}

// The limit is far above the size of any text, and the sum of two counts cannot overflow.
std::int64_t count_of(const Json& json, const char* key, const std::string& file) {
  const auto count = value_of<std::int64_t>(json, key, file);
  if (count < 0 || count > std::int64_t{1} << 53)
    fail_input("{}: the certificate's \"{}\" is {}; the file is damaged", file, key, count);
  return count;
}

}  // namespace

Certificate certificate_of(const std::vector<LayerOutcome>& layers, const std::optional<MomentsInfo>& calibration) {
  Certificate certificate;
  certificate.calibration = calibration;
  for (const LayerOutcome& layer : layers)
    if (layer.chain)
      certificate.layers.push_back({layer.name, layer.weight_hash, layer.chain_hash, layer.rel_error,
                                    layer.output_error, layer.direction_error});
  return certificate;
}

std::string hash_vectors(const std::map<std::string, std::span<const std::byte>>& vectors) {
  if (vectors.empty()) return "";
  Hasher hasher;
  for (const auto& [name, bytes] : vectors) {
    hasher.update(name);
    hasher.update(bytes.data(), bytes.size());
  }
  return hasher.hex();
}

std::string to_text(const Certificate& certificate) {
  Json json{{"version", 1}};
  if (certificate.calibration) json["calibration"] = calibration_json(*certificate.calibration);
  if (!certificate.refined.empty()) json["refined"] = certificate.refined;
  json["layers"] = Json::array();
  for (const Certificate::Layer& layer : certificate.layers) {
    Json entry{{"name", layer.name},
               {"weight", layer.weight_hash},
               {"cores", layer.chain_hash},
               {"rel_error", six_digits(layer.rel_error)}};
    if (layer.output_error) entry["output_error"] = six_digits(*layer.output_error);
    if (layer.direction_error) entry["direction_error"] = six_digits(*layer.direction_error);
    if (layer.earlier) entry["earlier"] = true;
    json["layers"].push_back(std::move(entry));
  }
  return json.dump();
}

std::string widest_certificate(const std::vector<std::string>& names, const std::optional<MomentsInfo>& calibration,
                               bool refined) {
  Certificate certificate;
  certificate.calibration = calibration;
  constexpr double longest = 1.23456e-123;
  const std::string hash(32, '0');
  if (refined) certificate.refined = hash;
  for (const std::string& name : names) certificate.layers.push_back({name, hash, hash, longest, longest, longest});
  return to_text(certificate);
}

Certificate parse_certificate(const std::string& text, const std::string& file) {
  const Json json = io::parse_json(text, file, 8);
  if (member(json, "version", file) != 1)
    fail_input("{}: the certificate is of a version that this program does not know; use a newer comera", file);
  Certificate certificate;
  if (const auto found = json.find("calibration"); found != json.end())
    certificate.calibration =
        MomentsInfo{value_of<std::vector<std::string>>(*found, "files", file),
                    value_of<std::string>(*found, "hash", file),
                    count_of(*found, "tokens", file),
                    count_of(*found, "held_tokens", file),
                    value_of<bool>(*found, "sequential", file),
                    found->contains("judged_tokens") ? count_of(*found, "judged_tokens", file) : 0,
                    !found->contains("clips_tokens") || value_of<bool>(*found, "clips_tokens", file)};
  if (json.contains("refined")) certificate.refined = value_of<std::string>(json, "refined", file);
  const Json& layers = member(json, "layers", file);
  if (!layers.is_array()) fail_input("{}: the certificate's layers are no list; the file is damaged", file);
  for (const Json& entry : layers) {
    Certificate::Layer layer{value_of<std::string>(entry, "name", file),
                             value_of<std::string>(entry, "weight", file),
                             value_of<std::string>(entry, "cores", file),
                             value_of<double>(entry, "rel_error", file),
                             std::nullopt,
                             std::nullopt};
    if (entry.contains("output_error")) layer.output_error = value_of<double>(entry, "output_error", file);
    if (entry.contains("direction_error")) layer.direction_error = value_of<double>(entry, "direction_error", file);
    layer.earlier = entry.contains("earlier") && value_of<bool>(entry, "earlier", file);
    certificate.layers.push_back(std::move(layer));
  }
  return certificate;
}

}  // namespace comera::compress
