#include "lib/compress/calibration/calibration_text.h"

#include <catch2/catch.hpp>
#include <set>

#include "tests/compress/small_models.h"
#include "tests/core/temporary_folder.h"

using namespace comera;
using namespace comera::compress;

TEST_CASE("calibration text: batches hold texts of one part and like length, and tell the place of each") {
  const TemporaryFolder folder;
  write_model(folder.path());
  const models::ModelSpec spec = models::spec_from_folder(folder.path());
  std::vector<Sequence> sequences;
  for (int i = 0; i < 300; ++i) {
    const TextPart part = i % 4 == 3 ? TextPart::judging : TextPart::fitted;
    sequences.push_back({data::Ids(static_cast<std::size_t>(4 + i * 7 % 20), 5 + i % 50), part});
  }
  std::set<std::size_t> seen;
  for (const TextBatch& batch : batches_of(sequences, models::common(spec), 256)) {
    REQUIRE(std::ssize(batch.places) == batch.batch.sequences);
    const auto ids = batch.batch["input_ids"].as<const std::int32_t>();
    for (std::size_t b = 0; b < batch.places.size(); ++b) {
      const Sequence& own = sequences.at(batch.places[b]);
      CHECK(own.part == batch.part);
      REQUIRE(batch.lengths()[b] == std::ssize(own.ids));
      CHECK(std::equal(own.ids.begin(), own.ids.end(),
                       ids.begin() + static_cast<std::ptrdiff_t>(b) * batch.batch.length));
      if (b > 0) CHECK(batch.lengths()[b] >= batch.lengths()[b - 1]);
      CHECK(seen.insert(batch.places[b]).second);
    }
  }
  CHECK(seen.size() == sequences.size());
}
