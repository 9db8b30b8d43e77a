// Converts LayerOutcome to JSON and back. A finished layer stores it, so that an interrupted run can continue.

#include "lib/compress/fit/layer.h"
#include "lib/core/error.h"

namespace comera::compress {
namespace {

io::Json number(const std::optional<double>& value) { return value ? io::Json(*value) : io::Json(nullptr); }

std::optional<double> optional_number(const io::Json& json, const char* key) {
  return json.at(key).is_null() ? std::nullopt : std::optional<double>(json.at(key).get<double>());
}

}  // namespace

io::Json to_json(const LayerOutcome& outcome) {
  io::Json json{{"name", outcome.name},
                {"table", outcome.table},
                {"bare", outcome.bare},
                {"form", outcome.form},
                {"shape", outcome.shape},
                {"parameters", outcome.parameters},
                {"parameters_dense", outcome.parameters_dense},
                {"bytes", outcome.bytes},
                {"bytes_dense", outcome.bytes_dense},
                {"rel_error", outcome.rel_error},
                {"output_error", number(outcome.output_error)},
                {"direction_error", number(outcome.direction_error)},
                {"optimum", number(outcome.optimum)},
                {"error_of_optimum", number(outcome.error_of_optimum)},
                {"ms", outcome.ms},
                {"reason", outcome.reason},
                {"weight_hash", outcome.weight_hash},
                {"chain_hash", outcome.chain_hash}};
  if (outcome.chain) json["comera"] = io::to_json(io::ComeraBlock{{*outcome.chain}, {}, {}});
  return json;
}

LayerOutcome outcome_from(const io::Json& json, const std::string& file) {
  try {
    LayerOutcome outcome;
    outcome.name = json.at("name").get<std::string>();
    outcome.table = json.at("table").get<bool>();
    outcome.bare = json.at("bare").get<bool>();
    outcome.form = json.at("form").get<std::string>();
    outcome.shape = json.at("shape").get<io::FileShape>();
    outcome.parameters = json.at("parameters").get<std::int64_t>();
    outcome.parameters_dense = json.at("parameters_dense").get<std::int64_t>();
    outcome.bytes = json.at("bytes").get<std::uint64_t>();
    outcome.bytes_dense = json.at("bytes_dense").get<std::uint64_t>();
    outcome.rel_error = json.at("rel_error").get<double>();
    outcome.output_error = optional_number(json, "output_error");
    if (json.contains("direction_error")) outcome.direction_error = optional_number(json, "direction_error");
    outcome.optimum = optional_number(json, "optimum");
    outcome.error_of_optimum = optional_number(json, "error_of_optimum");
    outcome.ms = json.at("ms").get<double>();
    outcome.reason = json.at("reason").get<std::string>();
    outcome.weight_hash = json.at("weight_hash").get<std::string>();
    outcome.chain_hash = json.at("chain_hash").get<std::string>();
    const auto block = io::parse_comera_block(json, file);
    if (block && block->chains.size() == 1) outcome.chain = block->chains[0];
    return outcome;
  } catch (const io::JsonError& error) {
    fail_input("{}: is no finished layer of this program: {}; remove the folder and start again", file, error.what());
  }
}

}  // namespace comera::compress
