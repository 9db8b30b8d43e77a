// Fits one layer at one or several sizes and stores its chains in the work folder.
#pragma once

#include "lib/compress/fit/work.h"
#include "lib/compress/layer_job.h"

namespace comera::compress {

// Fills the outcome if no fit is needed: the layer stays dense, or the work folder holds it. Returns true in this case.
bool take_finished(LayerJob& job, std::size_t size, const WorkFolder& work);

// One factorisation for all of these sizes. No layer of `sizes` stays dense.
void fit_layer(LayerJob& job, const std::vector<std::size_t>& sizes, const Evidence& evidence,
               const io::ModelFolder& folder, WorkFolder& work);

// The stored weight as a matrix, [in x out] or the rows of a table; a chain of a linear layer as left [in x R] and
// right [R x out].
tt::Matrix fitted_matrix(const LayerJob& job, std::size_t size);
tt::Pair fitted_factors(const LayerJob& job, std::size_t size);
// The model that `moments` knows by the number `as` computes with the layer as it is stored at this size.
void follow(InputMoments& moments, const LayerJob& job, std::size_t size, std::size_t as);

}  // namespace comera::compress
