// How the text of a model was read in its training. Verbs that read text for the model follow it by default, and
// folders made of the model keep it.
#pragma once

#include <string>

#include "lib/io/tt_format.h"

namespace comera::tools {

// From the run's recipe.toml, else from the `comera` block of config.json. Empty if the folder has neither, or if
// `model` is no folder. InputError for an option that does not exist, or has no such value.
io::Reading reading_of(const std::string& model);

}  // namespace comera::tools
