// Shares one budget among the layers of a model, by the loss of each layer at each rank.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace comera::tt {

// One layer. Index r of both tables is the rank.
struct LossCurve {
  std::string name;
  std::vector<double> losses;       // squared error left at rank r, r = 0 .. largest; losses[0] is the whole norm
  std::vector<std::int64_t> bytes;  // what rank r costs, as many entries
  std::int64_t dense_bytes = 0;
  double weight = 1;  // losses count as weight * losses[r] / losses[0]
  std::int64_t smallest_rank = 1,
               largest_rank = 0;  // 0: no limit but the table; a rank that computes slower than dense is left out so
  std::int64_t multiple = 1;      // ranks above it are multiples of it
  bool may_be_dense = true;
};

struct Allotment {
  bool dense = false;
  std::int64_t rank = 0;  // 0 where dense
  std::int64_t bytes = 0;
  double loss = 0;  // losses[rank] / losses[0]
};

struct Allocation {
  std::vector<Allotment> layers;
  std::int64_t bytes = 0;
  double loss = 0;  // sum of weight * loss
};

// The least that these layers can take, every one at its smallest rank.
std::int64_t smallest_bytes(const std::vector<LossCurve>& layers);

// The same rank everywhere (less where a layer cannot); dense where that costs no more.
Allocation by_rank(const std::vector<LossCurve>& layers, std::int64_t rank);
// The smallest rank whose relative error sqrt(losses[r] / losses[0]) is at most `tolerance`.
Allocation by_tolerance(const std::vector<LossCurve>& layers, double tolerance);
// The largest uniform share of its dense bytes that every layer can have within the budget, and the next rank where
// that still fits.
Allocation by_share(const std::vector<LossCurve>& layers, std::int64_t budget);
// Water-filling: the sum of weighted losses is made small within the budget; no layer gets less than `floor` times its
// rank of by_share. InputError where even the smallest ranks exceed the budget; it names the least that is possible.
Allocation water_fill(const std::vector<LossCurve>& layers, std::int64_t budget, double floor = 0.5);

}  // namespace comera::tt
