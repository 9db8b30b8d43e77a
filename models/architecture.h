// The description of a model of any architecture: the one type of tools, files and options.
#pragma once

#include <string>
#include <variant>

#include "models/decoder_spec.h"
#include "models/encoder_spec.h"

namespace comera::models {

using ModelSpec = std::variant<EncoderSpec, DecoderSpec>;

// The part that all architectures have; valid as long as `spec`.
const Spec& common(const ModelSpec& spec);
Spec& common(ModelSpec& spec);

// Every weight that --form applies to.
std::vector<WeightSite> weight_sites(const ModelSpec& spec);
// InputError where sizes contradict each other, or the architecture has no such task.
void check(const ModelSpec& spec);
// The same model for another task or with other labels. InputError where the architecture cannot.
ModelSpec with_head(const ModelSpec& spec, Task task, const std::vector<std::string>& labels);
// Chains with rank diagonals, all of them able to fall: folded ones get diagonals, and a gauge is given up.
void unfold(Spec& spec);
// The prefix of the names of the body's weights, and the test for parameters of the head of that task.
std::string name_prefix(const ModelSpec& spec);
bool is_in_head(const ModelSpec& spec, const std::string& parameter);
// Weights are unbound; dtype is that of the backend that will compute.
std::unique_ptr<layers::Model> make_model(const ModelSpec& spec, DType dtype);
// Builds spec's model again and again, with the ranks of smaller ones.
layers::ModelFactory factory_of(ModelSpec spec, DType dtype);

// True if config.json's model_type names an architecture of this program.
bool is_known_type(const std::string& model_type);
// config.json as a spec; `name` stands in messages. Keys that we do not know are ignored; a value that changes the
// arithmetic and is not supported is an InputError.
ModelSpec parse_config_json(const std::string& text, const std::string& name, const StoredNames& names = {});
// config.json of a folder, with what the names of its weights and the files of sentence-transformers tell; InputError
// that names the file.
ModelSpec spec_from_folder(const std::string& folder);

}  // namespace comera::models
