// Chooses one of two kernel paths for a call on a device, by a measurement when a recording first meets its shape. The
// two paths round differently, so a run stores its choices and reads them again when it is resumed or repeated.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <string>

#include "lib/plan/path_chooser.h"

namespace comera::tuning {

using plan::Path;
using plan::PathTable;

const char* name_of(Path path);
// Parses a table written as names. Throws InputError in the name of `where` for an unknown call or path.
PathTable parse_paths(const std::map<std::string, std::string>& texts, const std::string& where);

class PathChoices final : public plan::PathChooser {
 public:
  // Returns the seconds of `round`, which runs some calls by that path to their end.
  using Stopwatch = std::function<double(Path path, const std::function<void()>& round)>;

  explicit PathChoices(PathTable table = {}, Stopwatch stopwatch = {});  // default: wall clock

  // Returns the path of the table. A missing one is measured on random numbers in separate memory, logged and added: a
  // warm device, graphs of twenty calls. A path that does not support the call loses. The table has no entry for a call
  // for which the backend has only one path.
  Path choose(const kernels::Backend& backend, const kernels::Context& context,
              const kernels::TtLinearForward& call) override;
  Path choose(const kernels::Backend& backend, const kernels::Context& context,
              const kernels::TtLinearBackward& call) override;

  const PathTable& table() const override { return table_; }

 private:
  template <class Args>
  Path find(const kernels::Backend& backend, const kernels::Context& context, const kernels::Op<Args>& op,
            const Args& call);
  template <class Args>
  Path measure(const std::string& key, const kernels::Backend& backend, const kernels::Context& context,
               const kernels::Op<Args>& op, Args call) const;
  // The faster of the graphs that `record` returns; null: the path does not support the call.
  Path faster(const std::string& key, const kernels::Backend& backend, const kernels::Context& context,
              const std::function<void*(Path path)>& record) const;
  std::array<double, 2> medians(const std::array<std::function<void()>, 2>& runs) const;  // seconds of a round

  PathTable table_;
  Stopwatch stopwatch_;
};

}  // namespace comera::tuning
