#include "lib/compress/check/output_errors.h"

#include "lib/compress/fit/decoder_fit.h"

namespace comera::compress {

std::map<std::string, tt::OutputErrors> output_errors(InputMoments& moments, bool sequential,
                                                      const CompressedLayers& layers) {
  std::map<std::string, tt::OutputErrors> errors;
  const auto wanted = [&](const std::string& layer, std::size_t) { return layers.has(layer); };
  moments.visit({sequential, Part::all, wanted}, [&](const MomentGroup& group) {
    for (const std::string& name : group.layers) {
      if (!layers.has(name)) continue;
      const tt::Matrix fitted = layers.fitted(name);
      errors[name] =
          errors_of_outputs(layers.candidate(name), target_of(layers.dense(name), group), fitted, group.judged.moment);
      if (sequential) layers.follow(name, fitted);
    }
  });
  return errors;
}

}  // namespace comera::compress
