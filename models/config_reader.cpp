#include "models/config_reader.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "lib/core/error.h"
#include "lib/core/terminal/log.h"
#include "lib/io/tt_format.h"

namespace comera::models {
namespace {

using io::Json;

// Every JSON reader keeps integers up to this size exact.
constexpr std::int64_t largest_integer = std::int64_t{1} << 53;

// A file's value as text for a message.
std::string shown(const Json& value) {
  const std::string text = value.dump(-1, Json::BadText::replace);
  return printable(text.size() > 64 ? text.substr(0, 64) + "..." : text);
}

io::ChainSpec chain_of(const layers::ChainParameters& weight) {
  io::ChainSpec chain;
  chain.name = weight.name;
  chain.shape = weight.conv1d ? io::FileShape{weight.columns, weight.rows} : io::FileShape{weight.rows, weight.columns};
  chain.conv1d = weight.conv1d;
  chain.layout = weight.layout;
  chain.initial_ranks = weight.initial_ranks;
  chain.folded = weight.folded;
  chain.between = layers::name_of(weight.between);
  return chain;
}

}  // namespace

bool ConfigReader::has(const char* key) const { return find(key, true) != nullptr; }

std::int64_t ConfigReader::integer(const char* key, std::optional<std::int64_t> otherwise) const {
  const Json* value = find(key, otherwise.has_value());
  if (!value) return *otherwise;
  if (!value->is_number_integer()) fail_input("{}: {} is {}; it must be a whole number", name_, key, shown(*value));
  const bool beyond = value->is_number_unsigned()
                          ? value->get<std::uint64_t>() > static_cast<std::uint64_t>(largest_integer)
                          : value->get<std::int64_t>() < -largest_integer;
  if (beyond) fail_input("{}: {} is {}; no size or id is that large", name_, key, shown(*value));
  return value->get<std::int64_t>();
}

double ConfigReader::real(const char* key, std::optional<double> otherwise) const {
  const Json* value = find(key, otherwise.has_value());
  if (!value) return *otherwise;
  if (!value->is_number() || !std::isfinite(value->get<double>()))
    fail_input("{}: {} is {}; it must be a number", name_, key, shown(*value));
  return value->get<double>();
}

std::string ConfigReader::text(const char* key, const std::string& otherwise) const {
  const Json* value = find(key, true);
  if (!value) return otherwise;
  if (!value->is_string()) fail_input("{}: {} is {}; it must be a text", name_, key, shown(*value));
  return value->get<std::string>();
}

void ConfigReader::require(const char* key, const std::string& supported) const {
  const std::string found = text(key, supported);
  if (found != supported) fail_input("{}: {} is '{}'; only '{}' is supported", name_, key, printable(found), supported);
}

void ConfigReader::require_off(const char* key) const {
  const Json* value = find(key, true);
  if (value && value->is_boolean() && value->get<bool>())
    fail_input("{}: {} is true; only false is supported", name_, key);
}

std::string ConfigReader::architecture() const {
  const Json* value = find("architectures", true);
  if (!value || !value->is_array() || value->empty() || !value->front().is_string())
    fail_input(
        "{}: 'architectures' is missing; it must be a list that names one, like [\"BertForSequenceClassification\"]",
        name_);
  return value->front().get<std::string>();
}

std::vector<std::string> ConfigReader::labels() const {
  const Json* names = find("id2label", false);
  if (!names->is_object())
    fail_input("{}: id2label is {}; it must map \"0\", \"1\", ... to labels", name_, shown(*names));
  std::map<std::string, const Json*> by_key;
  for (const auto& [key, value] : names->items()) by_key[key] = &value;
  std::vector<std::string> labels;
  std::set<std::string> known;
  for (std::size_t i = 0; i < names->size(); ++i) {
    const auto found = by_key.find(std::to_string(i));
    if (found == by_key.end() || !found->second->is_string())
      fail_input("{}: id2label has no text for \"{}\"; its keys must be \"0\" to \"{}\"", name_, i, names->size() - 1);
    labels.push_back(found->second->get<std::string>());
    if (!known.insert(labels.back()).second)
      fail_input("{}: id2label has '{}' twice; labels must differ", name_, printable(labels.back()));
  }
  const auto count = static_cast<std::int64_t>(labels.size());
  if (integer("num_labels", count) != count)
    fail_input("{}: num_labels is {}, but id2label has {} entries; correct one of them", name_,
               integer("num_labels", count), count);
  return labels;
}

const Json* ConfigReader::find(const char* key, bool optional) const {
  const auto found = config_.find(key);
  if (found != config_.end() && !found->is_null()) return &*found;
  if (!optional) fail_input("{}: '{}' is missing; is this the config.json of a model?", name_, key);
  return nullptr;
}

bool ConfigReader::flag(const char* key, bool otherwise) const {
  const Json* value = find(key, true);
  if (!value) return otherwise;
  if (!value->is_boolean()) fail_input("{}: {} is {}; it must be true or false", name_, key, shown(*value));
  return value->get<bool>();
}

void ConfigReader::require_null(const char* key) const {
  if (has(key)) fail_input("{}: {} is {}; it is not supported", name_, key, shown(*find(key, false)));
}

io::Json config_start(const Spec& spec) {
  if (spec.source.empty()) return io::Json::object();
  io::Json config = io::parse_json(spec.source, "config.json");
  for (const char* key : {"comera", "id2label", "label2id", "num_labels", "problem_type", "dtype"}) config.erase(key);
  return config;
}

void read_forms(Spec& spec, const std::vector<WeightSite>& sites, const ConfigReader& reader) {
  const std::string& name = reader.name();
  const std::optional<io::ComeraBlock> block = io::parse_comera_block(reader.config(), name);
  if (!block) return;
  spec.threshold = block->threshold.value_or(-std::numeric_limits<double>::infinity());
  std::map<std::string, const WeightSite*> by_name;
  for (const WeightSite& site : sites) by_name[site.name] = &site;
  for (const io::ChainSpec& chain : block->chains) {
    const auto found = by_name.find(chain.name);
    if (found == by_name.end())
      fail_input("{}: comera block: the model has no weight {} that can be a tensor train", name,
                 printable(chain.name));
    const WeightSite* site = found->second;
    if (!chain.table() && chain.conv1d != site->conv1d)
      fail_input("{}: comera block: {} is stored {}; this architecture's weights are {}", reader.name(), chain.name,
                 chain.conv1d ? "[in, out]" : "[out, in]", site->conv1d ? "[in, out]" : "[out, in]");
    const io::FileShape wanted =
        site->conv1d ? io::FileShape{site->columns, site->rows} : io::FileShape{site->rows, site->columns};
    if (chain.shape != wanted || chain.table() != site->table)
      fail_input("{}: comera block: {} is a {} of shape {}; the model's sizes make it a {} of {}", name, chain.name,
                 chain.table() ? "table" : "linear weight", io::to_string(chain.shape),
                 site->table ? "table" : "linear weight", io::to_string(wanted));
    if (chain.base) {
      spec.on_grids[chain.name] = layers::grid_form(*chain.base, chain.layout);
      continue;
    }
    spec.forms[chain.name] = {layers::Storage::chain, chain.layout, chain.initial_ranks, chain.folded,
                              layers::activation_named(chain.between)};
  }
}

const char* torch_dtype(const layers::Model& model) {
  switch (model.parameters().stored_type()) {
    case DType::f16: return "float16";
    case DType::bf16: return "bfloat16";
    default: return "float32";
  }
}

void write_labels(Json& config, const std::vector<std::string>& labels) {
  Json names = Json::object(), numbers = Json::object();
  for (std::size_t i = 0; i < labels.size(); ++i) {
    names[std::to_string(i)] = labels[i];
    numbers[labels[i]] = i;
  }
  config["id2label"] = std::move(names);
  config["label2id"] = std::move(numbers);
}

void write_forms(Json& config, const layers::Model& model) {
  io::ComeraBlock block;
  for (const layers::ChainParameters& chain : model.chains()) block.chains.push_back(chain_of(chain));
  if (block.chains.empty()) return;
  if (std::isfinite(model.threshold())) block.threshold = model.threshold();
  config["comera"] = io::to_json(block);
}

}  // namespace comera::models
