// The matrices of a model that runs though it is larger than memory: each is read where it is used. What is held never
// takes more than the largest of them, or a little that one may set aside for models as small as that; and one that is
// tried out.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "lib/core/scratch_file.h"
#include "lib/layers/model.h"
#include "lib/train/weights_file.h"

namespace comera::compress {

// The parameter that holds the weight of this layer; the file may name a weight with or without what stands before the
// blocks ("bert."). Null where the model reads no such weight.
layers::Parameter* find_parameter(layers::Model& model, const std::string& layer);

class StreamedWeights final : public layers::ParameterSource {
 public:
  enum class Version : std::uint8_t { original, replaced };

  // `path`: as train::load_weights(). Replaced weights are kept in `scratch`. `set_aside`: bytes that may be held
  // however small the matrices are.
  StreamedWeights(const std::string& path, ScratchFile& scratch, std::size_t set_aside = 0)
      : stored_(path), scratch_(scratch), set_aside_(set_aside) {}

  // Models of the factory whose dense matrices come from here; one at a time.
  layers::ModelFactory streaming(layers::ModelFactory base);
  static bool streams(const layers::Parameter& parameter) { return parameter.source != nullptr; }

  // Selects the numbers that layers read from now on.
  void show(Version version) { shown_ = version; }
  void bring(layers::Parameter& parameter) override;
  // Valid until the next call.
  std::span<const float> original(layers::Parameter& parameter) { return numbers(parameter, false); }

  void replace(const layers::Parameter& parameter, std::span<const double> numbers);
  // The same with numbers that need no place in the scratch file, because `read` gives them again and again.
  using Read = std::function<void(const layers::Parameter& parameter, std::span<float> numbers)>;
  void replace(const layers::Parameter& parameter, Read read);
  bool any_replaced() const { return !replaced_.empty(); }
  void restore();  // all of them

  // Until end_trial() layers read these numbers, whatever is shown.
  void try_out(const layers::Parameter& parameter, std::span<const double> numbers);
  void end_trial() { trial_.reset(); }

  std::size_t most_bytes() const { return most_; }
  std::size_t held_bytes() const { return held_; }

 private:
  struct Held {
    int index = -1;  // of the parameter
    bool replaced = false;
    std::vector<float> numbers;
  };
  std::span<float> numbers(const layers::Parameter& parameter, bool replaced);
  void read_replaced(const layers::Parameter& parameter, std::span<float> numbers) const;
  void forget_replaced(const layers::Parameter& parameter);
  void make_room(std::size_t bytes);
  void drop(std::list<Held>::iterator held);

  train::StoredWeights stored_;
  ScratchFile& scratch_;
  Version shown_ = Version::original;
  std::size_t set_aside_, most_ = 0, held_ = 0;  // bytes
  std::list<Held> recent_;                       // the last one used first
  std::map<int, std::uint64_t> places_;          // in the scratch file, of parameters that are or were replaced
  std::map<int, Read> readers_;                  // of parameters whose replaced numbers are elsewhere
  std::set<int> replaced_;                       // those that are
  std::optional<Held> trial_;
};

}  // namespace comera::compress
