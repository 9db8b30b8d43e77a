// Reads the matrices of a model when they are used, so that a model larger than memory can run. The matrices in memory
// never exceed the size of the largest one, or `set_aside` bytes if that is more, plus one trial matrix.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "lib/core/files/scratch_file.h"
#include "lib/engine/weights_file.h"
#include "lib/layers/training/model.h"

namespace comera::compress {

// The parameter that holds the weight of this layer. The layer's name may have or lack the prefix before the blocks
// ("bert."). Null if the model has no such parameter.
layers::Parameter* find_parameter(layers::Model& model, const std::string& layer);

class StreamedWeights final : public layers::ParameterSource {
 public:
  enum class Version : std::uint8_t { original, replaced };

  // `path`: as in engine::load_weights(). Replaced weights are stored in `scratch`. `set_aside`: bytes that may stay in
  // memory even if all matrices are smaller.
  StreamedWeights(const std::string& path, ScratchFile& scratch, std::size_t set_aside = 0)
      : stored_(path), scratch_(scratch), set_aside_(set_aside) {}

  // Returns a factory of models whose dense matrices come from this object. It serves one model at a time.
  layers::ModelFactory streaming(layers::ModelFactory base);
  static bool streams(const layers::Parameter& parameter) { return parameter.source != nullptr; }

  // Selects the version that layers read from now on.
  void show(Version version) { shown_ = version; }
  void bring(layers::Parameter& parameter) override;
  // Valid until the next call.
  std::span<const float> original(layers::Parameter& parameter) { return numbers(parameter, false); }

  void replace(const layers::Parameter& parameter, std::span<const double> numbers);
  // The same, but `read` supplies the numbers each time, so the scratch file does not store them.
  using Read = std::function<void(const layers::Parameter& parameter, std::span<float> numbers)>;
  void replace(const layers::Parameter& parameter, Read read);
  bool any_replaced() const { return !replaced_.empty(); }
  void restore();  // restores all weights

  // Layers read these numbers until end_trial(), whichever version is selected.
  void try_out(const layers::Parameter& parameter, std::span<const double> numbers);
  void end_trial() { trial_.reset(); }

  std::size_t most_bytes() const { return most_; }
  std::size_t held_bytes() const { return held_; }

 private:
  struct Held {
    int index = -1;  // index of the parameter
    bool replaced = false;
    std::vector<float> numbers;
  };
  std::span<float> numbers(const layers::Parameter& parameter, bool replaced);
  void read_replaced(const layers::Parameter& parameter, std::span<float> numbers) const;
  void forget_replaced(const layers::Parameter& parameter);
  void make_room(std::size_t bytes);
  void drop(std::list<Held>::iterator held);

  engine::StoredWeights stored_;
  ScratchFile& scratch_;
  Version shown_ = Version::original;
  std::size_t set_aside_, most_ = 0, held_ = 0;  // bytes
  std::list<Held> recent_;                       // most recently used first
  std::map<int, std::uint64_t> places_;          // places in the scratch file, of parameters that are or were replaced
  std::map<int, Read> readers_;                  // of parameters whose replaced numbers are not in the scratch file
  std::set<int> replaced_;                       // indices of the replaced parameters
  std::optional<Held> trial_;
};

}  // namespace comera::compress
