// The seam: a backend is this table. The reference and the CPU are linked in; the CUDA table comes from its own shared
// library.
#pragma once

#include "kernels/attention.h"
#include "kernels/cast.h"
#include "kernels/cross_entropy.h"
#include "kernels/distillation.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/exact_rows.h"
#include "kernels/linear.h"
#include "kernels/norm.h"
#include "kernels/optimizer.h"
#include "kernels/pooling.h"
#include "kernels/rank_objective.h"
#include "kernels/rotary.h"
#include "kernels/tt_cores.h"
#include "kernels/tt_linear.h"
#include "kernels/ttm_embedding.h"
#include "kernels/ttm_merge.h"
#include "kernels/types.h"

namespace comera::kernels {

// The memory of a backend's tensors. The host may read and write it only if `host_accessible`.
struct Memory {
  bool host_accessible = true;
  void* (*allocate)(std::size_t bytes) = nullptr;  // zeroed, aligned to 4096; null when there is not enough
  void (*release)(void* data, std::size_t bytes) = nullptr;
  Status (*upload)(const Context&, void* to, const void* from_host, std::size_t bytes) = nullptr;
  Status (*download)(const Context&, void* to_host, const void* from, std::size_t bytes) = nullptr;
};

// A device with a queue of its own: calls return before their work is done. All null where a backend computes on the
// host.
struct Device {
  Status (*open)(int index,
                 void** stream) = nullptr;  // makes the device current and gives a stream for Context::stream
  void (*close)(void* stream) = nullptr;
  void* (*allocate_pinned)(std::size_t bytes) =
      nullptr;  // memory of the host that uploads read without a copy of their own
  void (*release_pinned)(void* data) = nullptr;
  Status (*wait)(const Context&) = nullptr;  // until everything asked for on the stream is done
  Status (*free_bytes)(std::size_t* free_bytes, std::size_t* total) = nullptr;
  Status (*joules)(double* used) =
      nullptr;  // of the whole card since some moment; fails where its driver does not count them
  const char* (*failure)() = nullptr;  // the words of the last call of this thread that answered failed
  // A copy from pinned memory on a queue of its own, while the stream's work goes on; what the stream is asked for
  // behind join_copies() finds all of them there.
  Status (*upload_beside)(const Context&, void* to, const void* from_pinned, std::size_t bytes) = nullptr;
  Status (*join_copies)(const Context&) = nullptr;
  // Calls between begin and end are recorded instead of run; each launch of the graph runs them all in order.
  Status (*begin_graph)(const Context&) = nullptr;
  // `calls`: how many were recorded, each of which the device starts apart; may be null. After a failure: ends the
  // recording, gives a null graph.
  Status (*end_graph)(const Context&, void** graph, std::size_t* calls) = nullptr;
  Status (*launch_graph)(const Context&, void* graph) = nullptr;
  void (*release_graph)(void* graph) = nullptr;
};

struct Backend {
  const char* name = nullptr;  // "cpu", "reference", "cuda"
  const char* variant = "";    // instruction set or card
  Memory memory;
  Device device;
  Op<LinearForward> linear_forward;
  Op<LinearBackward> linear_backward;
  Op<Product> product;
  Op<MatMul> matmul;
  Op<Cast> cast;
  Op<TtLinearForward> tt_linear_forward;
  Op<TtLinearBackward> tt_linear_backward;
  Op<TtMerge> tt_merge;
  Op<TtMergeBackward> tt_merge_backward;
  Op<EmbeddingForward> embedding_forward;
  Op<EmbeddingBackward> embedding_backward;
  Op<TtmMerge> ttm_merge;
  Op<TtmMergeBackward> ttm_merge_backward;
  Op<TtmForward> ttm_forward;
  Op<TtmBackward> ttm_backward;
  Op<ExactRowsForward> exact_rows_forward;
  Op<ExactRowsBackward> exact_rows_backward;
  Op<NormForward> norm_forward;
  Op<NormApply> norm_apply;
  Op<NormBackward> norm_backward;
  Op<ActivationForward> activation_forward;
  Op<ActivationBackward> activation_backward;
  Op<GatedForward> gated_forward;
  Op<GatedBackward> gated_backward;
  Op<DropoutApply> dropout;
  Op<Fill> fill;
  Op<AddScaled> add_scaled;
  Op<GatherRows> gather_rows;
  Op<ScatterRows> scatter_rows;
  Op<RotaryTable> rotary_table;
  Op<Rotary> rotary;
  Op<AttentionForward> attention_forward;
  Op<AttentionBackward> attention_backward;
  Op<CrossEntropyChunk> cross_entropy_chunk;
  Op<CrossEntropyLoss> cross_entropy_loss;
  Op<CrossEntropyBackward> cross_entropy_backward;
  Op<VectorDistance> vector_distance;
  Op<VectorDistanceBackward> vector_distance_backward;
  Op<DivergenceChunk> divergence_chunk;
  Op<DivergenceLoss> divergence_loss;
  Op<DivergenceBackward> divergence_backward;
  Op<PoolForward> pool_forward;
  Op<PoolBackward> pool_backward;
  Op<Adamw> adamw;
  Op<SquareSum> square_sum;
  Op<ClipGradient> clip_gradient;
  Op<RankMeasure> rank_measure;
  Op<RankPenaltyGradient> rank_penalty_gradient;
  Op<WeighGradient> weigh_gradient;
};

// Scalar-templated, slow, obviously right: f32, f64 and c128 (complex step). Ignores Context::stream.
const Backend& reference_backend();

// The table for an instruction set of this machine. f32. Context::stream is a ThreadPool* (null: the calling thread
// alone). `isa`: "auto", "v3", "v4", "v4bf16". Null with *error set to a sentence when the machine lacks it or the name
// is unknown.
const Backend* cpu_backend(const char* isa, const char** error);

// Memory of the host, for backends that compute there (kernels/host_memory.cpp).
Memory host_memory();

}  // namespace comera::kernels
