// Reads the matrices of a model when they are used, so that a model larger than memory can run. The matrices in memory
// never exceed the size of the largest one, or `set_aside` bytes if that is more, plus one trial matrix. Besides the
// model itself, several compressed models can run, each with its own replaced weights; they are counted by size.
#pragma once

#include <compare>
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
#include "lib/tt/chain.h"

namespace comera::compress {

// The parameter that holds the weight of this layer. The layer's name may have or lack the prefix before the blocks
// ("bert."). Null if the model has no such parameter.
layers::Parameter* find_parameter(layers::Model& model, const std::string& layer);

// The vector of this tensor: a bias, or the gain or shift of a norm. Null if the model has no such parameter.
layers::Parameter* find_vector(layers::Model& model, const std::string& tensor);

class StreamedWeights final : public layers::ParameterSource {
 public:
  enum class Version : std::uint8_t { original, replaced };

  // `path`: as in engine::load_weights(). Replaced weights are stored in `scratch`. `set_aside`: bytes that may stay in
  // memory even if all matrices are smaller.
  // `adapter`: as in engine::LoadOptions.
  StreamedWeights(const std::string& path, ScratchFile& scratch, std::size_t set_aside = 0,
                  const std::string& adapter = "")
      : stored_(path, adapter), scratch_(scratch), set_aside_(set_aside) {}

  // Returns a factory of models whose dense matrices come from this object. It serves one model at a time.
  layers::ModelFactory streaming(layers::ModelFactory base);
  static bool streams(const layers::Parameter& parameter) { return parameter.source != nullptr; }

  // Selects the version that layers read from now on. `size`: number of the compressed model.
  void show(Version version, std::size_t size = 0);
  void bring(layers::Parameter& parameter) override;
  // Valid until the next call.
  std::span<const float> original(layers::Parameter& parameter) { return numbers(parameter, {}); }

  void replace(const layers::Parameter& parameter, std::span<const double> numbers, std::size_t size = 0);
  // The same, but `read` supplies the numbers each time, so the scratch file does not store them.
  using Read = std::function<void(const layers::Parameter& parameter, std::span<float> numbers)>;
  void replace(const layers::Parameter& parameter, Read read, std::size_t size = 0);
  // The same by two factors, left [in x R] and right [R x out], with no more numbers than the matrix. Layers get
  // them from factors(), not from bring().
  void replace(const layers::Parameter& parameter, const tt::Pair& factors, std::size_t size = 0);
  // The same for a vector, which is always in memory: a bias or the gain of a norm.
  void replace_vector(layers::Parameter& parameter, std::span<const float> numbers, std::size_t size = 0);
  bool any_replaced(std::size_t size = 0) const;
  // The factors in the selected version; rank 0 if the parameter is a matrix there. Valid until the next call.
  struct Factors {
    std::int64_t rank = 0;
    const float *left = nullptr, *right = nullptr;
  };
  Factors factors(const layers::Parameter& parameter);
  void restore();  // restores all weights at all sizes

  // The numbers of the model itself, and the name of the tensor that holds them.
  void read_original(const layers::Parameter& parameter, std::span<float> numbers) const {
    stored_.read(parameter, numbers);
  }
  std::string tensor_of(const layers::Parameter& parameter) const { return stored_.tensor_of(parameter); }

  // Layers read these numbers until end_trial(), whichever version is selected.
  void try_out(const layers::Parameter& parameter, std::span<const double> numbers);
  void end_trial() { trial_.reset(); }

  // Bytes of weights that stay in memory even if all matrices are smaller.
  static constexpr std::size_t small = std::size_t{1} << 28;

  // Drops the numbers that were used least recently, until these bytes hold the others.
  void forget_beyond(std::size_t bytes);

  std::size_t most_bytes() const { return most_; }
  std::size_t held_bytes() const { return held_; }

 private:
  struct Place {
    std::size_t size = 0;
    int index = -1;  // of the parameter
    auto operator<=>(const Place&) const = default;
  };
  struct Held {
    Place place;  // size 0 unless replaced
    bool replaced = false;
    std::vector<float> numbers;
  };
  struct Vector {
    layers::Parameter* parameter = nullptr;
    std::vector<float> original;
    std::map<std::size_t, std::vector<float>> by_size = {};
  };
  bool shows_replaced(const layers::Parameter& parameter) const;
  void show(const Vector& vector) const;
  void store(const Place& place, const layers::Parameter& parameter, std::span<const float> numbers);
  std::span<float> numbers(const layers::Parameter& parameter, std::optional<std::size_t> size);
  void read_replaced(const layers::Parameter& parameter, std::size_t size, std::span<float> numbers) const;
  void forget_replaced(const Place& place);
  void make_room(std::size_t bytes);
  void drop(std::list<Held>::iterator held);

  engine::StoredWeights stored_;
  ScratchFile& scratch_;
  Version shown_ = Version::original;
  std::size_t size_ = 0;                         // of the selected version
  std::size_t set_aside_, most_ = 0, held_ = 0;  // bytes
  std::list<Held> recent_;                       // most recently used first
  std::map<Place, std::uint64_t> offsets_;       // in the scratch file, of parameters that are or were replaced
  std::map<Place, std::int64_t> ranks_;          // of parameters that two factors replace
  std::map<Place, Read> readers_;                // of parameters whose replaced numbers are not in the scratch file
  std::set<Place> replaced_;
  std::map<int, Vector> vectors_;  // replaced at any size, by the index of the parameter
  std::optional<Held> trial_;
};

}  // namespace comera::compress
