// Factorisations that minimise the error of a layer's outputs: min E||x W - x Ŵ||² = tr((W - Ŵ)ᵀ S (W - Ŵ)). S = sum of
// x xᵀ is the second moment of its inputs (W [in x out], S [in x in], symmetric positive semidefinite, any scale).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/tt/chain.h"
#include "lib/tt/kept_matrix.h"

namespace comera::tt {

// (1 - rho) S + rho diag(S) + damping mean(diag S) I.
Matrix shrunk(Matrix moment, double rho, double damping = 0);

// l [in x in] with l lᵀ = S, by Cholesky, or from eigenvalues if S is not definite; negative ones count as 0.
Matrix factor_of(const Matrix& moment);

double output_norm(const Matrix& weight, const KeptMatrix& moment);                       // tr(Wᵀ S W), at least 0
double output_loss(const Matrix& weight, Matrix fitted, const KeptMatrix& moment);        // tr((W - Ŵ)ᵀ S (W - Ŵ))
double output_error(const Matrix& weight, Matrix fitted, const KeptMatrix& moment);       // sqrt(loss / norm)
double output_share(const Matrix& weight, const Matrix& lost, const KeptMatrix& moment);  // output_error of W - lost

// Sums over tokens with inputs X̂ from a compressed prefix in place of X, and target outputs Y = X W + R - R̂. The
// layer adds its output to a residual stream that has become R̂ in place of R.
struct Followed {
  KeptMatrix moment;    // X̂ᵀ X̂ = Ŝ [in x in]
  KeptMatrix products;  // X̂ᵀ Y [in x out]
};

double followed_loss(const Matrix& fitted, const Followed& inputs);  // ||Y - X̂ V||² - ||Y||²

// The target W' = Ŝ⁻¹ X̂ᵀ Y for these inputs: the loss of any V differs from tr((W' - V)ᵀ Ŝ (W' - V)) by a constant. Ŝ
// is damped by `damping` times its mean diagonal, which pulls W' towards W.
Matrix corrected_target(const Matrix& weight, const Followed& inputs, double damping);
// The best target on held-out inputs: W itself, or corrected_target() with one of several dampings.
Matrix best_target(const Matrix& weight, const Followed& fit, const Followed& held);

// Whitened SVD for every rank from one eigenproblem of the smaller side, without an inverse of S: G = Wᵀ S W = U Λ Uᵀ,
// Ŵ_r = W U_r U_rᵀ, loss(r) = the sum of the eigenvalues beyond r (Eckart and Young in the norm of S).
class WhitenedCurve {
 public:
  WhitenedCurve(const KeptMatrix& weight, const KeptMatrix& moment);
  // `outputs`: S W, if already known; only used if there are no more outputs than inputs.
  WhitenedCurve(KeptMatrix weight, const KeptMatrix& moment, Matrix outputs);

  std::int64_t largest_rank() const { return static_cast<std::int64_t>(losses_.size()) - 1; }  // min(in, out)
  const std::vector<double>& losses() const { return losses_; }  // r = 0 .. min(in, out), never rising
  Pair pair(std::int64_t rank) const;                            // left = W U_r [in x r], right = U_rᵀ [r x out]
  const Matrix& outputs() const { return outputs_; }             // S W; empty if there are more outputs than inputs

 private:
  // rows of basis_: the output directions, or their images under the weight if there are more outputs than inputs
  KeptMatrix weight_;
  Matrix basis_, outputs_;
  bool narrow_ = true;  // no more outputs than inputs
  std::vector<double> losses_;
};

// losses() of a WhitenedCurve with these arguments, in less time if the weight has more than 2,048 inputs and outputs.
std::vector<double> whitened_losses(const KeptMatrix& weight, const KeptMatrix& moment, Matrix outputs);

// Inputs ordered by S_ii ||W_i||², the largest first (ties by index).
std::vector<std::int32_t> order_by_energy(const Matrix& weight, const Matrix& moment);

// Ŵ[(i1 i2), o] = sum G1[i1, a] G2[a, i2, R] B[R, o] with sorted inputs.
struct Order3 {
  std::int64_t first = 0, second = 0;  // i1, i2: i1 i2 = in
  std::int64_t first_rank = 0, rank = 0;
};
// Alternating least squares: G2 and B jointly by reduced-rank regression, G1 by its normal equations, `sweeps` times.
Chain fit_order3(const Matrix& weight, const Matrix& moment, const Order3& shape, int sweeps = 5);

// The same for many shapes. Quantities that do not depend on the shape are computed once.
class Order3Problem {
 public:
  // `outputs`: S W.
  Order3Problem(const Matrix& weight, const Matrix& moment, const Matrix& outputs);
  ~Order3Problem();

  struct Fit {
    Order3 shape;
    Matrix first, second, last;  // G1 [i1 x first_rank], G2 [first_rank x (i2 rank)], B [rank x out]
  };
  Fit begin(const Order3& shape) const;   // without a sweep
  void sweep(Fit& fit, int times) const;  // more sweeps
  Matrix left(const Fit& fit) const;      // G1 G2 [in x rank], inputs in the order of the weight
  Chain chain(Fit fit) const;

 private:
  struct Sums;
  std::unique_ptr<Sums> sums_;
};

// The storage of a pair. pair_bytes() includes the gauge indices. largest_pair_rank() returns the largest rank whose
// pair fits (0: none), rounded down to a multiple of `multiple` if it is larger than that.
struct Storage {
  CoreBlocks blocks;
  bool gauge = true;
};
std::int64_t pair_bytes(std::int64_t in, std::int64_t out, std::int64_t rank, const Storage& storage);
std::int64_t order3_bytes(std::int64_t out, const Order3& shape, const Storage& storage);  // order included
std::int64_t largest_pair_rank(std::int64_t in, std::int64_t out, std::int64_t bytes, const Storage& storage,
                               std::int64_t multiple = 1);

// Options of the search for the best form of one layer.
struct Search {
  std::int64_t bytes = 0;  // budget, indices included
  Storage storage;
  bool order3 = true;  // try order 3 besides order 2
  std::int64_t multiple = 1;
  std::vector<double> shrinkage = {0};  // values to choose from
};

struct Candidate {
  Chain chain;            // with a fixed gauge if the storage requires it
  double shrinkage = 0;   // chosen value
  double held_error = 0;  // relative output error on the held-out moment
};

// The better of the whitened SVD and the order-3 forms by held-out error, within the budget. `curve`: of the weight and
// the fitted moment, if already known. InputError if not even rank 1 fits.
Candidate best_candidate(const KeptMatrix& weight, const KeptMatrix& fit_moment, const KeptMatrix& held_moment,
                         const Search& search, const WhitenedCurve* curve = nullptr);

}  // namespace comera::tt
