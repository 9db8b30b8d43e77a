#include "lib/layers/activations/slopes.h"

#include "lib/core/error.h"

namespace comera::layers {
namespace {

using kernels::Activation;
using kernels::SlopeTable;

// tests/layers/slopes_test.cpp finds these tables again by dynamic programming.
constexpr SlopeTable gelu_derivative = {{-0.498962280f, kernels::smallest_cut, 0.498962280f},
                                        {-0.0463859279f, 0.312675097f, 0.687324903f, 1.04638593f}};
constexpr SlopeTable silu_derivative = {{-0.668528726f, kernels::smallest_cut, 0.668528726f},
                                        {0.0335946697f, 0.344526355f, 0.655473645f, 0.966405330f}};

// h(x) = sum_i a_i max(x - c_i, 0) with the constants a, c of Approx-BP; the slopes are the sums of the first a_i.
constexpr SlopeTable gelu_primitive = {{-3.1858810036855245f, -0.001178821281161997f, 3.190832613414926f},
                                       {0, -0.04922261145617846f, 1.0487405950855513f, 1}};
constexpr SlopeTable silu_primitive = {{-6.3050461001646445f, -0.0008684942046214787f, 6.325815242089708f},
                                       {0, -0.04060357190528599f, 1.0403218566243821f, 1}};

struct Codes {
  std::int64_t rows = 0, columns = 0;
  SlopeTable table;
  Tensor codes;
};

class SlopeCodes final : public Saved {
 public:
  Tensor read(Walk&) override {
    COMERA_CHECK(!"slopes are kept, not numbers");
    return {};
  }
  void release(Walk& walk) override { walk.drop(kept.codes); }
  bool has_numbers() const override { return false; }
  void multiply_by_slope(Walk& walk, const Tensor& dy) override {
    walk.run(walk.backend().slope_apply, kernels::SlopeApply{.rows = kept.rows,
                                                             .columns = kept.columns,
                                                             .table = kept.table,
                                                             .codes = static_cast<const std::uint8_t*>(kept.codes.data),
                                                             .dy = dy.data,
                                                             .dx = dy.data});
  }
  Codes kept;
};

class SlopeKeeper final : public Keeper {
 public:
  explicit SlopeKeeper(SlopeFit fit) : fit_(fit) {}

  void keep(Walk& walk, const Tensor& tensor, Use, Slot& slot) override {
    const std::int64_t columns = tensor.shape[tensor.shape.dims() - 1];
    Codes& kept = object_in<SlopeCodes>(slot).kept;
    kept.rows = tensor.elements() / columns, kept.columns = columns;
    kept.table = slope_table(slot.activation, fit_);
    kept.codes = walk.make("slope codes", {kept.rows, kernels::slope_row_bytes(columns)}, DType::u8);
    walk.run(walk.backend().slope_encode, kernels::SlopeEncode{.rows = kept.rows,
                                                               .columns = columns,
                                                               .table = kept.table,
                                                               .x = tensor.data,
                                                               .codes = static_cast<std::uint8_t*>(kept.codes.data)});
  }

 private:
  SlopeFit fit_;
};

}  // namespace

bool has_slope_table(Activation activation) { return activation == Activation::gelu || activation == Activation::silu; }

SlopeTable slope_table(Activation activation, SlopeFit fit) {
  COMERA_CHECK(has_slope_table(activation));
  const bool gelu = activation == Activation::gelu;
  if (fit == SlopeFit::derivative) return gelu ? gelu_derivative : silu_derivative;
  return gelu ? gelu_primitive : silu_primitive;
}

std::unique_ptr<Keeper> make_slope_keeper(SlopeFit fit) { return std::make_unique<SlopeKeeper>(fit); }

}  // namespace comera::layers
