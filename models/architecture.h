// What a model is, whatever its architecture: the one type that tools, files and options speak of.
#pragma once

#include <string>
#include <variant>

#include "models/decoder_spec.h"
#include "models/encoder_spec.h"

namespace comera::models {

using ModelSpec = std::variant<EncoderSpec, DecoderSpec>;

// What all architectures have; valid as long as `spec`.
const Spec& common(const ModelSpec& spec);
Spec& common(ModelSpec& spec);

// Every weight that --form applies to.
std::vector<WeightSite> weight_sites(const ModelSpec& spec);
// InputError where sizes contradict each other, or the architecture has no such task.
void check(const ModelSpec& spec);
// Weights are unbound; dtype is that of the backend that will compute.
std::unique_ptr<layers::Model> make_model(const ModelSpec& spec, DType dtype);
// Builds spec's model again and again, with the ranks of smaller ones.
layers::ModelFactory factory_of(ModelSpec spec, DType dtype);

// config.json as a spec; `name` stands in messages. Keys that we do not know are ignored; a value that changes the arithmetic and is not
// supported is an InputError.
ModelSpec parse_config_json(const std::string& text, const std::string& name);
// config.json of a folder; InputError that names the file.
ModelSpec spec_from_folder(const std::string& folder);

}  // namespace comera::models
