// Hint with the download command for a missing path that looks like a repository of the Hugging Face hub.
#pragma once

#include <string>

namespace comera {

enum class HubRepository { model, dataset };

// Returns "; to fetch it from the Hugging Face hub: hf download ORG/NAME --local-dir NAME" if the path is missing and
// looks like a hub name: two names, the first is no folder, the second has no usual file ending. Otherwise returns "".
std::string hub_hint(const std::string& path, HubRepository repository = HubRepository::model);

}  // namespace comera
