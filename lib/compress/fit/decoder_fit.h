// The decoder of words as a linear layer. Its table [words x columns] is the transpose of a linear weight, and every
// row is fitted to the same inputs, so that a few rows at a time are enough.
#pragma once

#include "lib/compress/plan/plan.h"
#include "lib/quant/rounding.h"
#include "lib/tt/output_errors.h"

namespace comera::compress {

// The rows on a grid for logits h Wᵀ. `inputs`: of the moment S = sum of h hᵀ.
quant::Quantised fit_decoder(const tt::Matrix& table, const quant::LinearFit& inputs, quant::Grid grid);

// tt::output_norm(), tt::output_loss() and tt::errors_of_outputs() of a weight as its candidate is stored: [in x out],
// or the table of a decoder of words.
double output_norm(const Candidate& candidate, const tt::Matrix& weight, const tt::KeptMatrix& moment);
double output_loss(const Candidate& candidate, const tt::Matrix& weight, tt::Matrix fitted,
                   const tt::KeptMatrix& moment);
tt::OutputErrors errors_of_outputs(const Candidate& candidate, const tt::Matrix& weight, tt::Matrix fitted,
                                   const tt::KeptMatrix& moment);
// output_loss() and errors_of_outputs() of a decoder of words on a grid.
double decoder_loss(const tt::Matrix& table, const quant::Quantised& fitted, const tt::KeptMatrix& moment);
tt::OutputErrors decoder_errors(const Candidate& candidate, const tt::Matrix& table, const quant::Quantised& fitted,
                                const tt::KeptMatrix& moment);

}  // namespace comera::compress
