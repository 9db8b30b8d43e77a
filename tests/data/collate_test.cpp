#include "lib/data/collate.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "tests/data/scratch.h"

using namespace comera::data;

namespace {

Window two_sequences() {
  Window window;
  window.ids = {2, 5, 6, 3, 7, 3, 2, 8, 9, 10, 3};
  window.sequences = {{0, 6, 4, 1, Table::no_score, 0, -1, 40}, {6, 5, 5, -1, Table::no_score, 0, -1, 41}};
  return window;
}

}  // namespace

TEST_CASE("collate: a batch is padded to a multiple of 8 and has its counts") {
  const Window window = two_sequences();
  Batch batch;
  collate(window, window.sequences, *letters(), {}, batch);
  CHECK(batch.sequences == 2);
  CHECK(batch.length == 8);
  CHECK(batch.tokens == 11);
  CHECK(batch.counted == 1);
  const auto row = [&](const char* name) {
    const auto values = batch[name].as<std::int32_t>();
    return Ids(values.begin(), values.end());
  };
  CHECK(row("input_ids") == Ids{2, 5, 6, 3, 7, 3, 0, 0, 2, 8, 9, 10, 3, 0, 0, 0});
  CHECK(row("token_type_ids") == Ids{0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  CHECK(row("lengths") == Ids{6, 5});
  CHECK(row("labels") == Ids{1, -1});
  CHECK(batch["samples"].as<std::int64_t>()[1] == 41);
  CHECK_FALSE(batch.has("masked_index"));
}

TEST_CASE("collate: masked positions are in order and unused slots are -1") {
  Window window = two_sequences();
  window.task = Task::mlm;
  Batch batch;
  collate(window, window.sequences, *letters(), {0.15, 3}, batch);
  const auto index = batch["masked_index"].as<std::int32_t>();
  const auto target = batch["masked_targets"].as<std::int32_t>();
  REQUIRE(static_cast<std::int64_t>(index.size()) == masked_capacity(2, 8, 0.15));
  REQUIRE(batch.counted == 2);  // max(1, round(0.15 * 3)) of each sequence
  const Ids before = {2, 5, 6, 3, 7, 3, 0, 0, 2, 8, 9, 10, 3, 0, 0, 0};
  for (int i = 0; i < 2; ++i)
    CHECK(before[static_cast<std::size_t>(index[static_cast<std::size_t>(i)])] == target[static_cast<std::size_t>(i)]);
  CHECK(index[0] < 8);
  CHECK(index[1] >= 8);
  CHECK_FALSE(batch.has("labels"));
}

TEST_CASE("collate: the number of masked tokens is the rounded share, at least one, and no special piece is masked") {
  const auto tokenizer = letters();
  Ids positions, targets;
  for (std::int32_t length : {1, 2, 3, 10, 11, 100, 510}) {
    Ids ids(static_cast<std::size_t>(length) + 2, 7);
    ids.front() = 2;
    ids.back() = 3;
    mask_tokens(ids, length, *tokenizer, {0.15, 1}, positions, targets);
    const auto wanted = std::max<std::size_t>(1, static_cast<std::size_t>(0.15 * length + 0.5));
    CHECK(positions.size() == wanted);
    CHECK(static_cast<std::int64_t>(positions.size()) <= masked_capacity(1, round_up_length(length + 2), 0.15));
    for (std::int32_t position : positions) CHECK((position >= 1 && position <= length));
    CHECK(targets == Ids(positions.size(), 7));
    CHECK((ids.front() == 2 && ids.back() == 3));
  }
  Ids none = {2, 3};
  mask_tokens(none, 0, *tokenizer, {0.15, 1}, positions, targets);
  CHECK(positions.empty());
}

TEST_CASE("collate: masks depend on seed and sample, not on the batch") {
  const auto tokenizer = letters();
  Ids first, second, targets;
  const auto masked = [&](std::uint64_t seed, std::int64_t sample) {
    Ids ids(100, 7);
    mask_tokens(ids, sample, *tokenizer, {0.15, seed}, first, targets);
    return ids;
  };
  CHECK(masked(1, 5) == masked(1, 5));
  CHECK(masked(1, 5) != masked(1, 6));
  CHECK(masked(1, 5) != masked(2, 5));
  CHECK(masked(1, 5) != masked(1, 5 + (std::int64_t{1} << 32)));
}

TEST_CASE("collate: 80 % become the mask, 10 % a random piece, 10 % stay, uniformly over positions and pieces") {
  const auto tokenizer = letters();
  Ids positions, targets;
  double total = 0, mask = 0, kept = 0, by_position[20] = {}, by_piece[57] = {};
  for (std::int64_t sample = 0; sample < 20000; ++sample) {
    Ids ids(20, 7);
    mask_tokens(ids, sample, *tokenizer, {0.15, 9}, positions, targets);
    for (std::int32_t position : positions) {
      const std::int32_t id = ids[static_cast<std::size_t>(position)];
      total += 1;
      mask += id == 4;
      kept += id == 7;
      by_position[position] += 1;
      if (id != 4) by_piece[id] += 1;
    }
  }
  const auto near = [](double count, double trials, double p) {
    return std::abs(count - trials * p) < 6 * std::sqrt(trials * p * (1 - p));
  };
  CHECK(total == 60000);
  CHECK(near(mask, total, 0.8));
  CHECK(near(kept, total, 0.1 + 0.1 / 52));  // a random piece equals the original in 1 of 52 cases
  for (double count : by_position) CHECK(near(count, total, 1.0 / 20));
  for (int id = 0; id < 5; ++id) CHECK(by_piece[id] == 0);
  for (int id = 5; id < 57; ++id)
    if (id != 7) CHECK(near(by_piece[id], total, 0.1 / 52));
}
