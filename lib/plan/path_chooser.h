// The choice between two paths of a call, made by a recording (Walk::run_chosen).
#pragma once

#include <map>
#include <string>

#include "kernels/backend.h"

namespace comera::plan {

using kernels::Path;

// Path by the text of a call, such as "tt_linear_forward bf16 4096 x 768 -> 3072/32 gelu" (tokens, in, out and padded
// rank of each output).
using PathTable = std::map<std::string, Path>;

class PathChooser {
 public:
  virtual ~PathChooser() = default;
  // Only sizes are read from the call; its pointers show which tensors it has. Returns Path::automatic if the backend
  // has only one path for the call.
  virtual Path choose(const kernels::Backend& backend, const kernels::Context& context,
                      const kernels::TtLinearForward& call) = 0;
  virtual Path choose(const kernels::Backend& backend, const kernels::Context& context,
                      const kernels::TtLinearBackward& call) = 0;
  virtual const PathTable& table() const = 0;  // all choices so far
};

}  // namespace comera::plan
