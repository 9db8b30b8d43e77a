#include "lib/layers/activations/quantised.h"

#include <algorithm>
#include <vector>

#include "kernels/code_product.h"
#include "kernels/group_codes.h"
#include "lib/layers/training/subspace.h"

namespace comera::layers {
namespace {

struct Copy {
  kernels::GroupCodes codes_of;
  Shape shape;
  Tensor codes, ranges;
};

class QuantisedCopy final : public Saved {
 public:
  Tensor read(Walk& walk) override {
    Tensor x = walk.make("restored", copy.shape);
    walk.run(walk.backend().group_restore,
             kernels::GroupRestore{.shape = copy.codes_of,
                                   .codes = static_cast<const std::uint8_t*>(copy.codes.data),
                                   .ranges = static_cast<const std::uint16_t*>(copy.ranges.data),
                                   .x = x.data});
    return x;
  }
  bool exact() const override { return false; }
  std::optional<kernels::CodedRows> coded() const override {
    return kernels::CodedRows{.shape = copy.codes_of,
                              .codes = static_cast<const std::uint8_t*>(copy.codes.data),
                              .ranges = static_cast<const std::uint16_t*>(copy.ranges.data)};
  }
  bool multiplies(const Walk& walk, std::int64_t in, std::int64_t out) const override {
    return in == copy.codes_of.columns && walk.backend().code_product.run != nullptr &&
           kernels::fits(kernels::CodeProduct{.shape = copy.codes_of, .out = out});
  }
  void product(Walk& walk, const Tensor& g, std::int64_t ldg, const Tensor& result, std::int64_t ld_result,
               std::int64_t in, std::int64_t out) override {
    if (!multiplies(walk, in, out)) return Saved::product(walk, g, ldg, result, ld_result, in, out);
    walk.run(walk.backend().code_product,
             kernels::CodeProduct{.shape = copy.codes_of,
                                  .codes = static_cast<const std::uint8_t*>(copy.codes.data),
                                  .ranges = static_cast<const std::uint16_t*>(copy.ranges.data),
                                  .out = out,
                                  .g = g.data,
                                  .ldg = ldg,
                                  .result = result.data,
                                  .ld_result = ld_result});
  }
  void release(Walk& walk) override {
    walk.drop(copy.codes);
    if (copy.codes_of.has_ranges()) walk.drop(copy.ranges);
  }
  Copy copy;
};

class QuantisedKeeper final : public Keeper {
 public:
  explicit QuantisedKeeper(const QuantisedSettings& settings) : settings_(settings) {}

  void begin(const kernels::StepScalars* scalars) override {
    scalars_ = scalars;
    made_.clear();
  }

  void keep(Walk& walk, const Tensor& tensor, Use use, Slot& slot) override {
    if (settings_.bits == 16 && walk.dtype() == DType::bf16) return exact_keeper().keep(walk, tensor, use, slot);
    Copy& copy = object_in<QuantisedCopy>(slot).copy;
    // Numbers of tensors are unique within a forward and its backward.
    for (const Made& made : made_)
      if (made.tensor == tensor.id) {
        copy = made.copy;
        walk.keep(copy.codes);
        if (copy.codes_of.has_ranges()) walk.keep(copy.ranges);
        return;
      }
    copy = quantised(walk, tensor, key_of(slot));
    made_.push_back({tensor.id, site_of(slot.layer), copy});
  }

 private:
  struct Made {
    int tensor;
    std::uint32_t layer;  // site_of() of the first reader
    Copy copy;
  };

  // The key of the random numbers follows from the layer and the number of its earlier copies, so that it does not
  // depend on the policies of other layers.
  std::uint32_t key_of(const Slot& slot) const {
    const std::uint32_t layer = layers::site_of(slot.layer);
    const auto earlier =
        std::count_if(made_.begin(), made_.end(), [&](const Made& made) { return made.layer == layer; });
    return layer + static_cast<std::uint32_t>(earlier);
  }

  Copy quantised(Walk& walk, const Tensor& tensor, std::uint32_t site) const {
    const std::int64_t columns = tensor.shape[tensor.shape.dims() - 1];
    Copy copy{.codes_of = {tensor.elements() / columns, columns, settings_.bits},
              .shape = tensor.shape,
              .codes = {},
              .ranges = {}};
    const kernels::GroupCodes& codes = copy.codes_of;
    copy.codes = walk.make("codes", {codes.rows, codes.row_bytes()}, DType::u8);
    if (codes.has_ranges()) copy.ranges = walk.make("ranges", {codes.rows, codes.groups(), 2}, DType::bf16);
    walk.run(walk.backend().group_quantise,
             kernels::GroupQuantise{.shape = codes,
                                    .x = tensor.data,
                                    .codes = static_cast<std::uint8_t*>(copy.codes.data),
                                    .ranges = static_cast<std::uint16_t*>(copy.ranges.data),
                                    .scalars = settings_.stochastic ? scalars_ : nullptr,
                                    .site = site});
    return copy;
  }

  QuantisedSettings settings_;
  const kernels::StepScalars* scalars_ = nullptr;
  std::vector<Made> made_;  // of the current forward
};

}  // namespace

std::unique_ptr<Keeper> make_quantised_keeper(const QuantisedSettings& settings) {
  return std::make_unique<QuantisedKeeper>(settings);
}

}  // namespace comera::layers
