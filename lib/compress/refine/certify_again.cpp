#include "lib/compress/refine/certify_again.h"

#include <map>

#include "lib/compress/check/output_errors.h"
#include "lib/compress/fit/fit_layer.h"

namespace comera::compress {

void certify_again(std::vector<LayerJob>& jobs, std::size_t size, const io::ModelFolder& folder, InputMoments& moments,
                   const std::vector<std::string>& vectors) {
  moments.restore();
  for (const std::string& path : vectors) {
    const io::SafetensorsFile file(path);
    for (const io::StoredTensor& tensor : file.tensors())
      moments.replace_vector(tensor.name, file.read_floats(tensor.name));
  }
  std::map<std::string, LayerJob*> by_name;
  for (LayerJob& job : jobs) {
    if (!job.sizes[size].outcome->chain) continue;
    if (!job.reads_inputs())
      follow(moments, job, size, 0);
    else
      by_name[job.candidate.name] = &job;
  }
  const CompressedLayers layers{
      .has = [&](const std::string& name) { return by_name.contains(name); },
      .candidate = [&](const std::string& name) { return by_name.at(name)->candidate; },
      .dense = [&](const std::string& name) { return read_weight(folder, by_name.at(name)->candidate); },
      .fitted = [&](const std::string& name) { return fitted_matrix(*by_name.at(name), size); },
      .follow = [&](const std::string& name, const tt::Matrix&) { follow(moments, *by_name.at(name), size, 0); }};
  for (const auto& [name, errors] : output_errors(moments, true, layers)) {
    LayerJob& job = *by_name.at(name);
    set_output_errors(*job.sizes[size].outcome, errors);
    job.sizes[size].outcome->rel_error = tt::relative_error(layers.dense(name), layers.fitted(name));
  }
  moments.restore();
}

}  // namespace comera::compress
