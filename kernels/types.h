// Basic types of the interface between layers and kernels: plain pointers, sizes, element types, a status.
// This file and the op headers do not depend on models, files or the command line.
//
// Letters used for shapes everywhere: B batch, T sequence, K = B*T tokens, M in, N out, R rank, H heads, V vocabulary.
// Matrices are row major; `ld...` is the distance between rows in elements. A pointer may be null only if its op marks
// it as optional. By default, outputs are overwritten and gradients of parameters are accumulated (+=). Scalars
// declared double hold the real part in c128 calls.
//
// In bf16 calls the activation dtype is bf16: activations, their gradients, and left factors, right factors and dense
// weights as products read them. All other tensors are f32: parameters (cores, diagonals, biases, gains, embedding
// tables), gradients of parameters and of the factors, statistics, log-sum-exps, maxima of logits, and losses. All sums
// are computed in f32.
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

// Type of parameters, their gradients and statistics for an activation dtype.
constexpr DType parameter_type(DType stream) { return stream == DType::bf16 ? DType::f32 : stream; }

enum class Status : int { ok, unsupported_dtype, unsupported_shape, workspace_too_small, failed };

// Settings of ops that models and options hold.
// gelu is the exact one, x Phi(x); gelu_tanh is 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), that of GPT-2.
enum class Activation : std::uint8_t { none, gelu, silu, tanh, gelu_tanh, relu };
enum class NormKind : std::uint8_t { layer, rms };
enum class Pooling : std::uint8_t { mean, first };
enum class Distance : std::uint8_t { squared, cosine };
enum class RankPenalty : std::uint8_t { size, mean };

struct LateSums;  // late_sums.h

// Execution context of a call. `stream` depends on the backend: a ThreadPool* (kernels/host/thread_pool.h) or a CUDA
// stream.
struct Context {
  DType dtype = DType::f32;  // of every floating-point tensor of the call
  void* stream = nullptr;
  void* workspace = nullptr;  // at least workspace_bytes() bytes for the same arguments
  std::size_t workspace_bytes = 0;
  // Allows f32 products to round their factors to TF32 (10 fraction bits) if the backend supports it. Sums stay f32.
  bool tf32 = false;
  // bf16 calls: the tall products of TT layers (those over tokens) round their factors to fp8 if the shape allows it.
  bool fp8 = false;
  // For a call that leaves sums to a later one (Op::late): memory for their parts, and the sums that an earlier call
  // has left, which this one adds. Null: it leaves none.
  void* late_parts = nullptr;
  const LateSums* earlier = nullptr;
};

// Path of an op: one fused kernel, or a sequence of library products. Both are within the op's error bounds, but their
// bits differ. A path that does not fit the call is not used.
enum class Path : std::uint8_t { automatic, fused, library };

// One entry of a backend's table. If `run` is null, the backend lacks the op.
template <class Args>
struct Op {
  const char* name = nullptr;
  Status (*run)(const Context&, const Args&) = nullptr;
  // Null: needs no workspace. The result depends on sizes, on which pointers are null, and on alignment.
  std::size_t (*workspace_bytes)(const Context&, const Args&) = nullptr;
  // Returns true if Path::fused differs from Path::library for this call. Null: never.
  bool (*fuses)(const Context&, const Args&) = nullptr;
  // The sums that this call leaves to a later one if it is given memory for their parts. One that leaves none adds
  // none. The result depends on the same as workspace_bytes. Null: never.
  LateSums (*late)(const Context&, const Args&, void* parts) = nullptr;
};

// Numbers that vary from step to step are read by pointer, so that a recorded step can be replayed.
struct StepScalars {
  std::uint64_t seed = 0;     // of the run
  std::uint64_t step = 0;     // optimiser steps taken; (seed, step) is the key of all random numbers
  double loss_scale = 1;      // 1 / (tokens or examples of the whole step, over all micro-batches)
  double sequence_scale = 1;  // 1 / (sequences of the whole step): losses against a teacher
  double gradient_scale = 1;  // clipping factor: written by clip_gradient, read by adamw
  double finite = 1;          // 0 if the loss or a gradient is not finite: adamw then changes nothing
};

// Dropout by counter (kernels/philox.h). The mask of an element depends only on seed, step, site, global sample number,
// token and feature, never on padding, batching or threads. The backward recomputes masks; they are not stored.
struct Dropout {
  double probability = 0;  // 0: no dropout, the other fields are not read
  std::uint32_t site = 0;  // which dropout of the model
  const StepScalars* scalars = nullptr;
  const std::int64_t* samples = nullptr;  // [B] global sample number of each sequence
  std::int64_t tokens_per_sample = 1;     // T: row k belongs to sequence k / T, token k % T
};

}  // namespace comera::kernels
