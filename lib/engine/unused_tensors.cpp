#include "lib/engine/unused_tensors.h"

#include <algorithm>

#include "lib/core/terminal/log.h"
#include "lib/engine/file_source.h"

namespace comera::engine {

std::vector<std::string> unused_tensors(const std::string& path, const Model& model, const std::string& adapter) {
  const LoadOptions options{.fresh = {}, .may_miss = {}, .adapter = adapter};
  const FileSource source(path, options);
  for (const Parameter& parameter : model.parameters().all()) source.replace(parameter);
  for (const layers::ChainParameters& chain : model.chains())
    for (const char* part : {".order", ".gauge", ".exact.ids"}) source.pass(chain.name + part);
  return source.unused();
}

void warn_of_unused(const std::string& path, const std::vector<std::string>& names) {
  constexpr std::size_t most = 8;
  if (names.empty()) return;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), most); ++i) text += (i > 0 ? ", " : "") + printable(names[i]);
  if (names.size() > most) text += ", ...";
  log_warning("{}: {} of its tensors are not used, because this model has no such weights: {}", printable(path),
              names.size(), text);
}

}  // namespace comera::engine
