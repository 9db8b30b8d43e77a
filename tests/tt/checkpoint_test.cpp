// Tests the fits on weights of a real encoder, with artificial second moments similar to those of text: outlier
// channels and a falling spectrum.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <ctime>

#include "lib/io/safetensors.h"
#include "lib/tt/data_aware.h"
#include "lib/tt/low_rank.h"
#include "tests/tt/random_matrix.h"

using namespace comera;
using namespace comera::tt;

namespace {

Matrix weight_of(const io::SafetensorsFile& file, const std::string& name) {
  const io::StoredTensor* tensor = file.find(name);
  REQUIRE(tensor != nullptr);
  const std::vector<float> values = file.read_floats(name);
  return transposed(Matrix(tensor->shape[0], tensor->shape[1], std::vector<double>(values.begin(), values.end())));
}

Matrix text_like_moment(std::int64_t size, unsigned seed) {
  Matrix s = test::random_moment(size, 1e5, seed);
  for (std::int64_t i = 0; i < size; ++i)
    for (std::int64_t j = 0; j < size; ++j) s(i, j) *= (i % 97 == 3 ? 6 : 1) * (j % 97 == 3 ? 6 : 1);
  return s;
}

}  // namespace

TEST_CASE("weights of all-MiniLM-L6-v2: whitening beats the plain cut on the outputs, budget and gauge bound hold") {
  const char* data = std::getenv("COMERA_DATA");
  if (!data) {
    WARN("COMERA_DATA is not set: no real weights are factorised");
    return;
  }
  const io::SafetensorsFile file(std::string(data) + "/checkpoints/all-MiniLM-L6-v2/model.safetensors");
  for (const char* name : {"attention.self.key", "intermediate.dense"}) {
    const Matrix w = weight_of(file, std::string("encoder.layer.1.") + name + ".weight");
    const Matrix s = text_like_moment(w.rows, 5);
    Search search;
    search.storage = {{1, 2}, true};
    search.bytes = w.rows * w.columns * 2 / 5;
    const std::clock_t begin = std::clock();
    const Candidate best = best_candidate(w, s, s, search);
    INFO(name << ": " << static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC << " s of processor time");
    CHECK(stored_bytes(best.chain, {1, 2}) <= search.bytes);
    const std::int64_t rank = largest_pair_rank(w.rows, w.columns, search.bytes, {{1, 2}, false});
    const Pair plain = LowRankCurve(w).pair(rank), whitened = WhitenedCurve(w, s).pair(rank);
    const double plain_error = output_error(w, multiply(plain.left, plain.right), s);
    const double whitened_error = output_error(w, multiply(whitened.left, whitened.right), s);
    CHECK(whitened_error < plain_error);
    CHECK(best.held_error < whitened_error);  // at equal bytes: the bytes that the gauge saves give more ranks
    double largest = 0;
    for (const double value : best.chain.cores.back()) largest = std::max(largest, std::abs(value));
    CHECK(largest <= 1.5 + 1e-9);
  }
}
