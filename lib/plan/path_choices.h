// Which of two ways a call takes on a device, measured when a recording meets its shape first. The ways round
// differently, so the choices belong to a run: they are kept with it and read again where it goes on or is repeated.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "kernels/backend.h"

namespace comera::plan {

using kernels::Path;

// By the text of a call, such as "tt_linear_forward bf16 4096 x 768 -> 3072/32 gelu" (tokens, in, out and padded rank
// of each output).
using PathTable = std::map<std::string, Path>;

const char* name_of(Path path);
// A table that was written as names: InputError in the name of `where` for what is no call and no path.
PathTable parse_paths(const std::map<std::string, std::string>& texts, const std::string& where);

class PathChoices {
 public:
  // Seconds that `round`, some calls by that path up to their end, takes.
  using Stopwatch = std::function<double(Path path, const std::function<void()>& round)>;

  explicit PathChoices(PathTable table = {}, Stopwatch stopwatch = {});  // by default the clock of the wall

  // As the table says; what it lacks is measured on zeros in memory of its own, logged and added. Sizes alone are read
  // of the call, its pointers say what it has. Path::automatic, not in the table, where the backend has one way.
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
