// Distributes one byte budget among the layers of a model, using the loss of each layer at each rank.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace comera::tt {

// One layer. Entry r of both tables belongs to rank r.
struct LossCurve {
  std::string name;
  std::vector<double> losses;       // squared error at rank r, r = 0 .. largest; losses[0] is the squared norm
  std::vector<std::int64_t> bytes;  // size at rank r; as many entries as `losses`
  std::int64_t dense_bytes = 0;
  double weight = 1;  // losses count as weight * losses[r] / losses[0]
  // largest_rank 0: limited only by the table. A limit also excludes ranks that compute slower than dense
  std::int64_t smallest_rank = 1, largest_rank = 0;
  std::int64_t multiple = 1;  // ranks above this value are multiples of it
  bool may_be_dense = true;
  bool menu = false;  // entries are forms by bytes in place of ranks: water_fill() may choose any
};

struct Allotment {
  bool dense = false;
  std::int64_t rank = 0;  // 0 if dense
  std::int64_t bytes = 0;
  double loss = 0;  // losses[rank] / losses[0]
};

struct Allocation {
  std::vector<Allotment> layers;
  std::int64_t bytes = 0;
  double loss = 0;  // sum of weight * loss
};

// The smallest total size of these layers: every layer at its smallest rank.
std::int64_t smallest_bytes(const std::vector<LossCurve>& layers);

// The same rank everywhere, or less if a layer does not allow it. Dense if that is not larger.
Allocation by_rank(const std::vector<LossCurve>& layers, std::int64_t rank);
// The smallest rank whose relative error sqrt(losses[r] / losses[0]) is at most `tolerance`.
Allocation by_tolerance(const std::vector<LossCurve>& layers, double tolerance);
// The largest uniform share of dense bytes that every layer can have within the budget. A layer gets the next
// rank if it still fits.
Allocation by_share(const std::vector<LossCurve>& layers, std::int64_t budget);
// Water-filling: reduces the sum of weighted losses within the budget. No layer gets less than `floor` times its rank
// of by_share. InputError if even the smallest ranks exceed the budget; the message contains the smallest possible
// size.
Allocation water_fill(const std::vector<LossCurve>& layers, std::int64_t budget, double floor = 0.5);

}  // namespace comera::tt
