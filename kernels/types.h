// The vocabulary of the seam between layers and arithmetic: plain pointers, sizes, element types, a status.
// Nothing here or in any op header knows about models, files or command lines.
//
// Letters used for shapes everywhere: B batch, T sequence, K = B*T tokens, M in, N out, R rank, H heads, V vocabulary.
// Matrices are row major; `ld...` is the distance between rows in elements. Null optional pointers are allowed only
// where an op says so. Unless an op says otherwise, outputs are overwritten and gradients of parameters are accumulated
// (+=). Scalars declared double hold the real part in c128 calls.
//
// In bf16 calls the stream is bf16: activations and their gradients, halves and dense weights as products read them.
// All else is f32: parameters (cores, diagonals, biases, gains, word tables), gradients of parameters and of halves,
// statistics, log-sum-exps, logits' maxima and losses; and every sum is kept in f32.
#pragma once

#include <cstddef>
#include <cstdint>

namespace comera::kernels {

enum class DType : std::uint8_t { f32, f64, c128, bf16, f16, i32, i64, u8 };

constexpr std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
    case DType::i32: return 4;
    case DType::f64:
    case DType::i64: return 8;
    case DType::c128: return 16;
    case DType::bf16:
    case DType::f16: return 2;
    case DType::u8: return 1;
  }
  return 0;
}

// The type of parameters, their gradients and statistics beside a stream of that type.
constexpr DType parameter_type(DType stream) { return stream == DType::bf16 ? DType::f32 : stream; }

enum class Status : int { ok, unsupported_dtype, unsupported_shape, workspace_too_small, failed };

enum class Activation : std::uint8_t { none, gelu, silu, tanh };  // gelu is the exact one, x * Phi(x)

// The machine of a call. `stream` is the backend's own: the CPU's thread pool (kernels/thread_pool.h), a CUDA stream.
struct Context {
  DType dtype = DType::f32;  // of every floating-point tensor of the call
  void* stream = nullptr;
  void* workspace = nullptr;  // at least what workspace_bytes() answered for the same arguments
  std::size_t workspace_bytes = 0;
  bool tf32 = false;  // factors of f32 products may be rounded to TF32 (10 bits behind the point) where the backend has
                      // it; sums stay f32
  bool fp8 =
      false;  // bf16 calls: factors of the tall products of TT layers are taken in eight bits where the shape allows it
};

// The ways a backend may take a call: its own pass over everything at once, or products of its library one after
// another. Both are right within the op's bounds, their bits differ. A path that does not fit the call is not taken.
enum class Path : std::uint8_t { automatic, fused, library };

// One entry of a backend's table. A null `run` means that the backend lacks the op.
template <class Args>
struct Op {
  const char* name = nullptr;
  Status (*run)(const Context&, const Args&) = nullptr;
  std::size_t (*workspace_bytes)(const Context&, const Args&) =
      nullptr;  // null: needs none; reads sizes, which pointers are null, and alignment
  bool (*fuses)(const Context&,
                const Args&) = nullptr;  // whether Path::fused is another way than Path::library; null: never
};

// Numbers that vary from step to step are read by pointer, so that a recorded step can be replayed.
struct StepScalars {
  std::uint64_t seed = 0;     // of the run
  std::uint64_t step = 0;     // optimiser steps taken; (seed, step) is the key of every random number
  double loss_scale = 1;      // 1 / (tokens or examples of the whole step, over all micro-batches)
  double sequence_scale = 1;  // 1 / (sequences of the whole step): losses against a teacher
  double gradient_scale = 1;  // clipping: written by clip_gradient, read by adamw
  double finite = 1;          // 0 when the loss or a gradient is not finite: adamw then changes nothing
};

// Dropout by counter (kernels/philox.h): the mask of an element depends on seed, step, site, global sample number,
// token and feature alone, never on padding, batching or threads. Masks are recomputed in the backward, not stored.
struct Dropout {
  double probability = 0;  // 0: no dropout, the rest is not read
  std::uint32_t site = 0;  // which dropout of the model
  const StepScalars* scalars = nullptr;
  const std::int64_t* samples = nullptr;  // [B] global sample number of each sequence
  std::int64_t tokens_per_sample = 1;     // T: row k belongs to sequence k / T, token k % T
};

}  // namespace comera::kernels
