// The description of a model of any architecture, as tools, files and options use it.
#pragma once

#include <string>
#include <variant>

#include "lib/io/model_folder.h"
#include "models/decoder/decoder_spec.h"
#include "models/dlrm/dlrm_spec.h"
#include "models/encoder/encoder_spec.h"
#include "models/vit/vit_spec.h"

namespace comera::models {

using ModelSpec = std::variant<EncoderSpec, DecoderSpec, DlrmSpec, VitSpec>;

// The part that all architectures share. The reference is valid as long as `spec`.
const Spec& common(const ModelSpec& spec);
Spec& common(ModelSpec& spec);
// For messages: "an encoder", "a decoder", "a model of clicks" or "a model of images".
const char* kind_of(const ModelSpec& spec);

// Every weight that --form applies to.
std::vector<WeightSite> weight_sites(const ModelSpec& spec);
// InputError if sizes are inconsistent, or if the architecture does not support the task.
void check(const ModelSpec& spec);
// The same model for another task or with other labels. InputError if the architecture does not support the task.
ModelSpec with_head(const ModelSpec& spec, Task task, const std::vector<std::string>& labels);
// Sets every dropout of the model: of embeddings, branches, attention and head.
void set_dropout(ModelSpec& spec, double probability);
// Gives every chain rank diagonals that can lose ranks: folded chains get diagonals, and the gauge is removed.
void unfold(Spec& spec);
// The name prefix of the body's weights; true for parameters of the head of the spec's task.
std::string name_prefix(const ModelSpec& spec);
bool is_in_head(const ModelSpec& spec, const std::string& parameter);
// Weights are unbound. `dtype` is the activation dtype of the backend that will compute.
std::unique_ptr<layers::Model> make_model(const ModelSpec& spec, DType dtype);
// For evaluation: weights that the file stores on grids stay on them. Else they are dense.
void run_on_grids(ModelSpec& spec);
// A factory that rebuilds the model of `spec` with smaller ranks.
layers::ModelFactory factory_of(ModelSpec spec, DType dtype);

// True if config.json's model_type names an architecture of this program.
bool is_known_type(const std::string& model_type);
bool has_known_type(const io::ModelFolder& folder);
// Parses config.json; `name` is for messages. Unknown keys are ignored. A value that changes the arithmetic and is not
// supported is an InputError.
ModelSpec parse_config_json(const std::string& text, const std::string& name, const StoredNames& names = {});
// Reads config.json of a folder. Adds facts from the names of its weights and from the files of sentence-transformers.
// InputError that names the file.
ModelSpec spec_from_folder(const std::string& folder);

}  // namespace comera::models
