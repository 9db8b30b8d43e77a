// Chooses one of two kernel paths for a call on a device, by a measurement when a recording first meets its shape. The
// two paths round differently, so a run stores its choices and reads them again when it is resumed or repeated.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "kernels/backend.h"

namespace comera::plan {

using kernels::Path;

// Path by the text of a call, such as "tt_linear_forward bf16 4096 x 768 -> 3072/32 gelu" (tokens, in, out and padded
// rank of each output).
using PathTable = std::map<std::string, Path>;

const char* name_of(Path path);
// Parses a table written as names. Throws InputError in the name of `where` for an unknown call or path.
PathTable parse_paths(const std::map<std::string, std::string>& texts, const std::string& where);

class PathChoices {
 public:
  // Returns the seconds of `round`, which runs some calls by that path to their end.
  using Stopwatch = std::function<double(Path path, const std::function<void()>& round)>;

  explicit PathChoices(PathTable table = {}, Stopwatch stopwatch = {});  // default: wall clock

  // Returns the path of the table. A missing one is measured on zeros in separate memory, logged and added. Only sizes
  // are read from the call; its pointers show which tensors it has. Returns Path::automatic, without an entry in the
  // table, if the backend has only one path.
  Path choose(const kernels::Backend& backend, const kernels::Context& context, const kernels::TtLinearForward& call);
  Path choose(const kernels::Backend& backend, const kernels::Context& context, const kernels::TtLinearBackward& call);

  const PathTable& table() const { return table_; }

 private:
  template <class Args>
  Path find(const kernels::Backend& backend, const kernels::Context& context, const kernels::Op<Args>& op,
            const Args& call);
  template <class Args>
  Path measure(const std::string& key, const kernels::Backend& backend, const kernels::Context& context,
               const kernels::Op<Args>& op, Args call) const;

  PathTable table_;
  Stopwatch stopwatch_;
};

}  // namespace comera::plan
