// The command that fetches what a path that is not there may name on the Hugging Face hub.
#pragma once

#include <string>

namespace comera {

enum class HubRepository { model, dataset };

// "; to fetch it from the Hugging Face hub: hf download ORG/NAME --local-dir NAME" where the path is not there and
// looks like a name of the hub: of two names, no folder of the first and no usual ending of a file. Else "".
std::string hub_hint(const std::string& path, HubRepository repository = HubRepository::model);

}  // namespace comera
