// `comera extract`: the difference of two dense models as a LoRA adapter of PEFT.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/io/adapter/write_lora.h"
#include "lib/io/model_folder.h"

namespace comera::compress {

// Exactly one of rank and tolerance is set.
struct ExtractSettings {
  std::string base, tuned, output;
  std::optional<std::int64_t> rank;  // of every weight; a weight whose smaller size is less gets that
  std::optional<double> tolerance;   // the largest rel_error of a weight; the rank is the smallest that reaches it
  io::StoredType type = io::StoredType::F32;  // of the factors
  bool writes = true;                         // false: only sizes and, with a tolerance, ranks
};

// A linear weight that differs. Errors are those of the stored factors after `--adapter` has merged them: with T and B
// the weights of both models and M the merged one.
struct ExtractedLayer {
  std::string name;  // without ".weight"
  io::FileShape shape;
  std::int64_t rank = 0;                 // 0: the tolerance is met without a change
  double change = 0;                     // |T - B| / |T|
  std::optional<double> rel_error = {};  // |T - M| / |T|; none if nothing was factorised
  std::int64_t parameters() const { return rank * (shape[0] + shape[1]); }
};

struct Extracted {
  std::vector<ExtractedLayer> layers;
  std::int64_t equal = 0;           // tensors without a difference
  std::vector<std::string> others;  // tensors that differ and that no LoRA adapter holds: norms, biases, tables
  std::uint64_t bytes = 0;          // of the adapter's weights
};

// Memory holds one weight of each model and its factors. The folder appears atomically, and only if a layer differs.
// InputError: a folder with chains, tensors that one model lacks or that differ in shape, a rank above the sizes of all
// weights.
Extracted extract(const ExtractSettings& settings);

}  // namespace comera::compress
