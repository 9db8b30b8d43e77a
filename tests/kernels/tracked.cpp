#include "tests/kernels/tracked.h"

#include "kernels/backend.h"
#include "kernels/reference/attention.h"
#include "kernels/reference/cast.h"
#include "kernels/reference/cross_entropy.h"
#include "kernels/reference/distillation.h"
#include "kernels/reference/elementwise.h"
#include "kernels/reference/embedding.h"
#include "kernels/reference/exact_rows.h"
#include "kernels/reference/linear.h"
#include "kernels/reference/norm.h"
#include "kernels/reference/optimizer.h"
#include "kernels/reference/pooling.h"
#include "kernels/reference/rank_objective.h"
#include "kernels/reference/rotary.h"
#include "kernels/reference/tt_cores.h"
#include "kernels/reference/tt_linear.h"
#include "kernels/reference/ttm_embedding.h"
#include "kernels/reference/ttm_merge.h"

namespace comera::kernels::test {

template <class Args>
void compute_tracked(const Args& args) {
  reference::compute<Tracked>(args);
}

template void compute_tracked(const LinearForward&);
template void compute_tracked(const LinearBackward&);
template void compute_tracked(const Product&);
template void compute_tracked(const MatMul&);
template void compute_tracked(const Cast&);
template void compute_tracked(const TtLinearForward&);
template void compute_tracked(const TtLinearBackward&);
template void compute_tracked(const TtMerge&);
template void compute_tracked(const TtMergeBackward&);
template void compute_tracked(const EmbeddingForward&);
template void compute_tracked(const EmbeddingBackward&);
template void compute_tracked(const TtmMerge&);
template void compute_tracked(const TtmMergeBackward&);
template void compute_tracked(const TtmForward&);
template void compute_tracked(const TtmBackward&);
template void compute_tracked(const ExactRowsForward&);
template void compute_tracked(const ExactRowsBackward&);
template void compute_tracked(const RotaryTable&);
template void compute_tracked(const Rotary&);
template void compute_tracked(const NormForward&);
template void compute_tracked(const NormApply&);
template void compute_tracked(const NormBackward&);
template void compute_tracked(const ActivationForward&);
template void compute_tracked(const ActivationBackward&);
template void compute_tracked(const GatedForward&);
template void compute_tracked(const GatedBackward&);
template void compute_tracked(const DropoutApply&);
template void compute_tracked(const Fill&);
template void compute_tracked(const AddScaled&);
template void compute_tracked(const GatherRows&);
template void compute_tracked(const ScatterRows&);
template void compute_tracked(const AttentionForward&);
template void compute_tracked(const AttentionBackward&);
template void compute_tracked(const CrossEntropyChunk&);
template void compute_tracked(const CrossEntropyLoss&);
template void compute_tracked(const CrossEntropyBackward&);
template void compute_tracked(const VectorDistance&);
template void compute_tracked(const VectorDistanceBackward&);
template void compute_tracked(const DivergenceChunk&);
template void compute_tracked(const DivergenceLoss&);
template void compute_tracked(const DivergenceBackward&);
template void compute_tracked(const PoolForward&);
template void compute_tracked(const PoolBackward&);
template void compute_tracked(const Adamw&);
template void compute_tracked(const SquareSum&);
template void compute_tracked(const ClipGradient&);
template void compute_tracked(const RankMeasure&);
template void compute_tracked(const RankPenaltyGradient&);
template void compute_tracked(const WeighGradient&);

}  // namespace comera::kernels::test
