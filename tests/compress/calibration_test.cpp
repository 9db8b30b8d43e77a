#include "lib/compress/calibration/calibration.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <map>
#include <random>

#include "kernels/host/thread_pool.h"
#include "lib/compress/check/verify.h"
#include "lib/compress/tensorize.h"
#include "lib/core/error.h"
#include "lib/quant/corrected.h"
#include "lib/tt/data_aware.h"
#include "tests/compress/small_models.h"
#include "tests/core/temporary_folder.h"

using namespace comera;
using namespace comera::compress;

namespace {

Settings settings_for(const std::string& model, const std::string& output, double ratio) {
  Settings settings;
  settings.model = model;
  settings.output = output;
  settings.goal.ratios = {ratio};
  settings.choice.exclude = {"*embeddings*"};
  return settings;
}

double mean_output_error(const Verification& verification) {
  double sum = 0;
  for (const LayerCheck& layer : verification.layers) sum += layer.output_error.value();
  return sum / static_cast<double>(verification.layers.size());
}

}  // namespace

TEST_CASE("calibration: moments match the inputs, and a replaced weight changes later inputs") {
  const TemporaryFolder folder;
  write_model(folder.path());
  write_text(folder / "text.txt");
  const auto moments = calibrate(machine(), {folder.path(), {folder / "text.txt"}, "", 1000, 24});
  const MomentsInfo info = moments->info();
  CHECK(info.all_tokens() >= 1000);
  CHECK(info.held_tokens + info.judged_tokens > info.tokens / 5);
  CHECK(std::abs(static_cast<double>(info.held_tokens - info.judged_tokens)) <
        0.5 * static_cast<double>(info.held_tokens));
  std::vector<std::string> seen;
  double key_trace = 0, last_trace = 0;
  moments->visit({.follows = true}, [&](const MomentGroup& group) {
    seen.insert(seen.end(), group.layers.begin(), group.layers.end());
    CHECK((*group.fit.moment.get())(0, 1) == (*group.fit.moment.get())(1, 0));
    if (seen.size() == 3) key_trace = tt::trace(*group.fit.moment.get());
    if (group.layers.front() == "bert.encoder.layer.1.output.dense") last_trace = tt::trace(*group.fit.moment.get());
  });
  CHECK(std::vector<std::string>(seen.begin(), seen.begin() + 4) ==
        std::vector<std::string>{"bert.encoder.layer.0.attention.self.query", "bert.encoder.layer.0.attention.self.key",
                                 "bert.encoder.layer.0.attention.self.value",
                                 "bert.encoder.layer.0.attention.output.dense"});
  CHECK(seen.size() >= 12);
  // The first block reads the rows of a LayerNorm: their mean square is that of a normalised row times the norm's
  // weights, plus its bias.
  CHECK(key_trace > 0);
  moments->replace("bert.encoder.layer.0.attention.self.value", tt::Matrix(hidden, hidden));
  double again = 0;
  moments->visit({}, [&](const MomentGroup& group) {
    if (group.layers.front() == "bert.encoder.layer.1.output.dense") again = tt::trace(*group.fit.moment.get());
  });
  CHECK(again != last_trace);
  moments->restore();
  moments->visit({}, [&](const MomentGroup& group) {
    if (group.layers.front() == "bert.encoder.layer.1.output.dense") again = tt::trace(*group.fit.moment.get());
  });
  CHECK(again == Approx(last_trace).epsilon(1e-12));
}

TEST_CASE("calibration: after a replaced weight, a layer that adds to the residual stream gets a corrected target") {
  const TemporaryFolder folder;
  write_model(folder.path());
  write_text(folder / "text.txt");
  const auto moments = calibrate(machine(), {folder.path(), {folder / "text.txt"}, "", 1000, 24});
  const std::string value = "bert.encoder.layer.0.attention.self.value", up = "bert.encoder.layer.1.intermediate.dense",
                    down = "bert.encoder.layer.1.output.dense";
  moments->visit({.follows = true}, [&](const MomentGroup& group) { CHECK(!group.moved()); });
  moments->replace(value, tt::Matrix(hidden, hidden));
  std::size_t shown = 0;
  moments->visit({.follows = true}, [&](const MomentGroup& group) {
    CHECK(group.moved() == group.layers.front().ends_with("output.dense"));
    if (group.layers.front() == up) CHECK(!group.moved());
    if (group.layers.front() != down) return;
    ++shown;
    const Candidate candidate{down, down + ".weight", false, false, io::StoredType::F32, {hidden, intermediate}};
    const tt::Matrix w = read_weight(io::ModelFolder(folder.path()), candidate), target = target_of(w, group);
    const tt::Followed held{group.held.moment, group.held.products};
    CHECK(tt::followed_loss(target, held) < tt::followed_loss(w, held));
    CHECK(group.fit.products.rows == intermediate);
    CHECK(group.fit.products.columns == hidden);
  });
  CHECK(shown == 1);
  moments->restore();
  moments->visit({}, [&](const MomentGroup& group) { CHECK(!group.moved()); });
}

// A block is measured on the outputs of the blocks before it. These run again after a weight change, and only from the
// changed block on.
TEST_CASE("calibration: a weight replaced during a visit has the same effect as one replaced before it") {
  const TemporaryFolder folder;
  write_model(folder.path());
  write_text(folder / "text.txt");
  using Sums = std::map<std::string, std::vector<double>>;
  const auto open = [&] { return calibrate(machine(), {folder.path(), {folder / "text.txt"}, "", 1000, 24}); };
  const auto keep = [](const MomentGroup& group, Sums& sums) {
    for (const tt::KeptMatrix* kept :
         {&group.fit.moment, &group.fit.products, &group.held.moment, &group.held.products}) {
      std::vector<double>& all = sums[group.layers.front()];
      const tt::Matrix matrix = kept->copy();
      all.insert(all.end(), matrix.values.begin(), matrix.values.end());
    }
  };
  const auto value_of = [](int block) { return fmt::format("bert.encoder.layer.{}.attention.self.value", block); };
  const auto moments = open();
  Sums original;
  moments->visit({.follows = true}, [&](const MomentGroup& group) { keep(group, original); });
  for (int again = 0; again < 2; ++again) {
    Sums on_the_way;
    moments->visit({.follows = true}, [&](const MomentGroup& group) {
      keep(group, on_the_way);
      for (const int block : {0, 1})
        if (group.layers.back() == value_of(block)) moments->replace(value_of(block), tt::Matrix(hidden, hidden));
    });
    CHECK(on_the_way.size() == original.size());
    CHECK(on_the_way[fmt::format("bert.encoder.layer.{}.intermediate.dense", blocks - 1)] !=
          original[fmt::format("bert.encoder.layer.{}.intermediate.dense", blocks - 1)]);
    for (int block = 0; block < blocks; ++block) {
      const auto before = open();
      for (const int replaced : {0, 1})
        if (replaced < block) before->replace(value_of(replaced), tt::Matrix(hidden, hidden));
      before->visit({.follows = block % 2 == 0}, [&](const MomentGroup& group) {
        if (!group.layers.front().starts_with(fmt::format("bert.encoder.layer.{}.", block))) return;
        Sums sums;
        keep(group, sums);
        CHECK(sums[group.layers.front()] == on_the_way[group.layers.front()]);
      });
    }
    moments->restore();
  }
  Sums restored;
  moments->visit({.follows = true}, [&](const MomentGroup& group) { keep(group, restored); });
  CHECK(restored == original);
  // The same if a weight of an earlier block changes.
  Sums late, fresh;
  moments->visit({.follows = true}, [&](const MomentGroup& group) {
    keep(group, late);
    if (group.layers.back() == value_of(1)) moments->replace(value_of(0), tt::Matrix(hidden, hidden));
  });
  const auto other = open();
  other->replace(value_of(0), tt::Matrix(hidden, hidden));
  other->visit({}, [&](const MomentGroup& group) { keep(group, fresh); });
  const std::string last = fmt::format("bert.encoder.layer.{}.output.dense", blocks - 1);
  CHECK(late[last] == fresh[last]);
}

TEST_CASE("calibration: moments in the scratch folder are those in memory, and their fits too") {
  const TemporaryFolder folder;
  write_model(folder.path());
  write_text(folder / "text.txt");
  const std::string down = "bert.encoder.layer.1.output.dense";
  const Candidate candidate{down, down + ".weight", false, false, io::StoredType::F32, {hidden, intermediate}};
  const tt::Matrix weight = read_weight(io::ModelFolder(folder.path()), candidate);
  struct Seen {
    std::vector<tt::Matrix> sums;
    std::vector<std::byte> corrected;
    std::vector<std::vector<double>> pair;
  };
  const auto seen_with = [&](std::uint64_t in_memory) {
    CalibrationSettings settings{folder.path(), {folder / "text.txt"}, "", 1000, 24};
    settings.moments_in_memory = in_memory;
    const auto moments = calibrate(machine(), settings);
    moments->replace("bert.encoder.layer.0.attention.self.value", tt::Matrix(hidden, hidden));
    Seen seen;
    moments->visit({}, [&](const MomentGroup& group) {
      if (group.layers.front() != down) return;
      for (const MomentGroup::Sums* sums : {&group.fit, &group.held, &group.judged})
        for (const tt::KeptMatrix* kept : {&sums->moment, &sums->products}) seen.sums.push_back(kept->copy());
      const tt::Matrix target = target_of(weight, group);
      const quant::Corrected corrected =
          quant::fit_corrected(target, {group.fit.moment, group.held.moment}, quant::Grid::q3_0, 4, [](tt::Pair&) {});
      seen.corrected = corrected.base.bytes;
      tt::Search search;
      search.bytes = hidden * intermediate;
      search.shrinkage = {0, 0.1};
      seen.pair = tt::best_candidate(target, group.fit.moment, group.held.moment, search).chain.cores;
    });
    return seen;
  };
  const Seen memory = seen_with(std::uint64_t{1} << 30), stored = seen_with(0);
  REQUIRE(memory.sums.size() == 6);
  REQUIRE(stored.sums.size() == 6);
  CHECK(!memory.sums[0].values.empty());
  CHECK(!memory.sums[1].values.empty());
  for (std::size_t i = 0; i < memory.sums.size(); ++i) CHECK(memory.sums[i].values == stored.sums[i].values);
  CHECK(memory.corrected == stored.corrected);
  CHECK(memory.pair == stored.pair);
}

TEST_CASE("calibration: a group measured alone has the same moments as among all groups") {
  const TemporaryFolder folder;
  write_model(folder.path());
  write_text(folder / "text.txt");
  const std::string value = "bert.encoder.layer.0.attention.self.value";
  for (const bool follows : {false, true})
    for (const char* wanted : {"bert.encoder.layer.0.output.dense", "bert.encoder.layer.2.attention.self.key",
                               "bert.encoder.layer.2.output.dense"}) {
      const auto measured = [&](const std::function<bool(const std::string&, std::size_t)>& wants) {
        const auto moments = calibrate(machine(), {folder.path(), {folder / "text.txt"}, "", 1000, 24});
        moments->replace(value, tt::Matrix(hidden, hidden));
        std::map<std::string, std::vector<double>> sums;
        moments->visit({.follows = follows, .wants = wants}, [&](const MomentGroup& group) {
          for (const tt::KeptMatrix* kept :
               {&group.fit.moment, &group.fit.products, &group.held.moment, &group.held.products})
            for (const std::string& layer : group.layers) {
              const tt::Matrix matrix = kept->copy();
              sums[layer].insert(sums[layer].end(), matrix.values.begin(), matrix.values.end());
            }
        });
        return sums;
      };
      const auto all = measured({}),
                 one = measured([&](const std::string&layer, std::size_t) { return layer == wanted; });
      CHECK(one.contains(wanted));
      CHECK(one.size() <= 3);  // layers that read the same input
      for (const auto& [layer, sums] : one) CHECK(sums == all.at(layer));
    }
}

TEST_CASE("calibration: factors have the effect of their product on later inputs") {
  const TemporaryFolder folder;
  write_model(folder.path());
  write_text(folder / "text.txt");
  std::mt19937 random(11);
  std::normal_distribution<double> normal(0, 0.3);
  const auto drawn = [&](std::int64_t rows, std::int64_t columns) {
    tt::Matrix a(rows, columns);
    for (double& value : a.values) value = normal(random);
    return a;
  };
  const auto last_moment = [&](const std::function<void(InputMoments&)>& replace) {
    const auto moments = calibrate(machine(), {folder.path(), {folder / "text.txt"}, "", 1000, 24});
    replace(*moments);
    tt::Matrix last;
    moments->visit({.follows = true}, [&](const MomentGroup& group) {
      if (group.layers.front() == "bert.encoder.layer.2.output.dense") last = group.fit.moment.copy();
    });
    return last;
  };
  const std::string up = "bert.encoder.layer.0.intermediate.dense", value = "bert.encoder.layer.1.attention.self.value";
  // The factors of `value` have more numbers than the matrix.
  const tt::Pair first{drawn(hidden, 5), drawn(5, intermediate)}, second{drawn(hidden, 20), drawn(20, hidden)};
  const tt::Matrix by_factors = last_moment([&](InputMoments&moments) {
    moments.replace(up, first);
    moments.replace(value, second);
  }),
                   by_products = last_moment([&](InputMoments&moments) {
                     moments.replace(up, tt::multiply(first.left, first.right));
                     moments.replace(value, tt::multiply(second.left, second.right));
                   }),
                   dense = last_moment([](InputMoments&) {});
  const double off = std::sqrt(tt::squared_norm(tt::difference(by_factors, by_products)));
  CHECK(off < 1e-5 * std::sqrt(tt::squared_norm(by_products)));
  CHECK(off < 1e-3 * std::sqrt(tt::squared_norm(tt::difference(by_products, dense))));
}

TEST_CASE("calibration: a visit with a part of the text does not affect the next visit with all of it") {
  const TemporaryFolder folder;
  write_model(folder.path());
  write_text(folder / "text.txt");
  std::string text;
  for (int i = 0; i < 10; ++i) text += read_file(folder / "text.txt", 1 << 20);
  write_file_atomic(folder / "text.txt", text);
  const auto moments = calibrate(machine(), {folder.path(), {folder / "text.txt"}, "", 100000, 12});
  const auto traces = [&](std::int64_t tokens) {
    std::vector<double> all;
    moments->visit({.follows = true, .tokens = tokens}, [&](const MomentGroup& group) {
      all.push_back(tt::trace(*group.fit.moment.get()));
      all.push_back(tt::trace(*group.held.moment.get()));
    });
    return all;
  };
  const std::vector<double> whole = traces(0), again = traces(0);
  const std::vector<double> part = traces(moments->info().tokens / 2);
  CHECK(whole == again);
  CHECK(traces(0) == whole);
  CHECK(traces(moments->info().tokens) == whole);
  REQUIRE(part.size() == whole.size());
  for (std::size_t i = 0; i < whole.size(); i += 2) {
    CHECK(part[i] < 0.75 * whole[i]);
    CHECK(part[i] > 0.25 * whole[i]);
    CHECK(part[i + 1] == whole[i + 1]);
  }
}

TEST_CASE("calibration: the effect is the change of the model's output, and the weight is restored") {
  const TemporaryFolder folder;
  write_model(folder.path());
  write_text(folder / "text.txt");
  io::Json bare = config();
  bare["architectures"] = {"BertModel"};
  write_file_atomic(folder / "config.json", io::json_text(bare));
  const auto moments = calibrate(machine(), {folder.path(), {folder / "text.txt"}, "", 1000, 24});
  const std::string down = "bert.encoder.layer.0.output.dense", key = "bert.encoder.layer.1.attention.self.key";
  const Candidate candidate{down, down + ".weight", false, false, io::StoredType::F32, {hidden, intermediate}};
  tt::Matrix weight = read_weight(io::ModelFolder(folder.path()), candidate);
  CHECK(moments->effect(down, weight) == 0.0);
  const double gone = moments->effect(down, tt::Matrix(intermediate, hidden)).value();
  CHECK(gone > 1e-3);
  CHECK(moments->effect(key, tt::Matrix(hidden, hidden)).value() > 0);
  CHECK(moments->effect(down, tt::Matrix(intermediate, hidden)) == gone);
  for (double& value : weight.values) value *= 0.9;
  CHECK(moments->effect(down, weight).value() == Approx(0.01 * gone).epsilon(0.3));  // small changes are linear
  CHECK(!moments->effect("nothing", weight));
  // A masked language model outputs neither hidden states nor class logits. Then all layers have the same weight.
  write_file_atomic(folder / "config.json", io::json_text(config()));
  CHECK(!calibrate(machine(), {folder.path(), {folder / "text.txt"}, "", 1000, 24})->effect(down, weight));
}

TEST_CASE("tensorize: without text, a table has as much weight as all linear layers together") {
  const TemporaryFolder folder;
  write_model(folder.path());
  kernels::ThreadPool pool(1);
  Settings settings = settings_for(folder.path(), folder / "out", 1.7);
  settings.choice.exclude = {"*position*", "*type*"};
  Tensorizer plain(settings, pool, nullptr);
  double table = -1, linear = 0, count = 0;
  const std::vector<Result> results = plain.run();
  for (const LayerOutcome& layer : results.at(0).layers) {
    if (layer.table)
      table = layer.rel_error;
    else
      linear += layer.rel_error, ++count;
  }
  CHECK(table >= 0);
  CHECK(table < linear / count);
}

TEST_CASE("tensorize: without text, linear layers stay dense if a smaller table alone meets the budget") {
  const TemporaryFolder folder;
  write_model(folder.path());
  kernels::ThreadPool pool(1);
  Settings settings = settings_for(folder.path(), folder / "out", 1.01);
  settings.choice.exclude = {"*position*", "*type*", "*attention*", "*transform*", "*layer.1*", "*layer.2*"};
  Tensorizer plain(settings, pool, nullptr);
  const std::vector<Result> results = plain.run();
  for (const LayerOutcome& layer : results.at(0).layers) {
    CHECK(layer.chain.has_value() == layer.table);
    if (!layer.table) CHECK_THAT(layer.reason, Catch::Contains("alone meet"));
  }
}

TEST_CASE("tensorize: calibration reduces output errors at no more bytes, and the certificate holds") {
  const TemporaryFolder folder;
  write_model(folder.path());
  write_text(folder / "text.txt");
  kernels::ThreadPool pool(1);
  const CalibrationSettings text{folder.path(), {folder / "text.txt"}, "", 1400, 24};
  const auto run = [&](const std::string& output, bool calibrated) {
    Tensorizer tensorizer(settings_for(folder.path(), output, 1.7), pool,
                          calibrated ? calibrate(machine(), text) : nullptr);
    const std::vector<Result> results = tensorizer.run();
    REQUIRE(results.size() == 1);
    CHECK(results[0].ratio() >= 1.7);
    CHECK(tensorizer.sizes()[0].file_bytes >= results[0].file_bytes);
    return results[0];
  };
  const Result aware = run(folder / "aware", true);
  run(folder / "plain", false);
  const Verification check = verify(folder / "aware", folder.path(), calibrate(machine(), text).get(), pool);
  CHECK(check.holds());
  for (const LayerOutcome& layer : aware.layers)
    if (layer.output_error) CHECK(*layer.output_error < 1);
  // The certificate of the plain model names no text. So its output errors are computed here, with the same moments as
  // those of the first block of the other model.
  double plain = 0, calibrated = 0;
  calibrate(machine(), text)->visit({}, [&](const MomentGroup& group) {
    for (const char* which : {"plain", "aware"}) {
      const io::ModelFolder made(folder / which), dense(folder.path());
      const auto block = io::parse_comera_block(made.config(), "config.json");
      for (const io::ChainSpec& chain : block->chains) {
        if (std::find(group.layers.begin(), group.layers.end(), chain.name) == group.layers.end()) continue;
        const Candidate candidate{chain.name, chain.name + ".weight", false, false, io::StoredType::F32, chain.shape};
        const tt::Matrix weight = read_weight(dense, candidate),
                         fitted = tt::expand(tt::to_double(io::read_chain(made, chain, {})));
        double loss = 0;
        const tt::Matrix error = tt::difference(weight, fitted);
        loss = tt::dot(error, tt::multiply(*group.held.moment.get(), error)) /
               tt::dot(weight, tt::multiply(*group.held.moment.get(), weight));
        (which[0] == 'p' ? plain : calibrated) += loss;
      }
    }
  });
  CHECK(calibrated < plain);
  CHECK(mean_output_error(check) > 0);
}

TEST_CASE("tensorize: sizes fitted together have the same bytes as sizes fitted one by one, for any threads") {
  const TemporaryFolder folder, outputs;
  write_model(folder.path());
  write_text(folder / "text.txt");
  const std::vector<std::vector<std::string>> left_dense = {
      {"*embeddings*"},                                   // all sizes share the first block
      {"*position*", "*type*"},                           // the table differs by size
      {"*embeddings*", "*layer.0*", "*layer.1.output*"},  // the first block is that of the dense model
  };
  for (std::size_t i = 0; i < left_dense.size(); ++i) {
    const auto run = [&](std::vector<double> ratios, int threads, const std::string& name) {
      kernels::ThreadPool pool(threads);
      Settings settings = settings_for(folder.path(), outputs / fmt::format("{}-{}", name, i), 0);
      settings.goal.ratios = std::move(ratios);
      settings.choice.exclude = left_dense[i];
      const CalibrationSettings text{folder.path(), {folder / "text.txt"}, "", 1400, 24};
      Tensorizer(settings, pool, calibrate(machine(), text)).run();
      return settings.output;
    };
    const auto bytes_of = [](const std::string& place) { return read_file(place + "/model.safetensors", 1 << 24); };
    const std::string both = run({1.2, 1.3}, 1, "both"), again = run({1.2, 1.3}, 3, "again");
    for (const double ratio : {1.2, 1.3}) {
      const std::string size = fmt::format("/ratio-{}", ratio), alone = run({ratio}, 2, fmt::format("alone-{}", ratio));
      CHECK(bytes_of(both + size) == bytes_of(alone));
      CHECK(bytes_of(both + size) == bytes_of(again + size));
    }
  }
}

// Every eighth line only judges the result. Other words in these lines change the reported figures and nothing else.
TEST_CASE("tensorize: the judging text does not affect the stored weights") {
  const TemporaryFolder folder;
  write_model(folder.path());
  write_text(folder / "text.txt");
  std::string other;
  int line = 0;
  for (std::string text = read_file(folder / "text.txt", 1 << 20); const char letter : text) {
    // The words keep their number, so the lines keep their lengths: 'w12' becomes 'w13'.
    other += line % 8 == 7 && letter >= '1' && letter <= '2' ? static_cast<char>(letter + 1) : letter;
    line += letter == '\n';
  }
  write_file_atomic(folder / "other.txt", other);
  kernels::ThreadPool pool(1);
  const auto run = [&](const std::string& text, const std::string& output) {
    Settings settings = settings_for(folder.path(), folder / output, 1.7);
    settings.choice.exclude = {"*position*", "*type*"};
    Tensorizer tensorizer(settings, pool, calibrate(machine(), {folder.path(), {folder / text}, "", 2000, 24}));
    return tensorizer.run().at(0);
  };
  const Result one = run("text.txt", "one"), two = run("other.txt", "two");
  REQUIRE(one.calibration->judged_tokens == two.calibration->judged_tokens);
  std::size_t changed = 0;
  for (std::size_t i = 0; i < one.layers.size(); ++i) {
    CHECK(one.layers[i].chain_hash == two.layers[i].chain_hash);
    changed += one.layers[i].chain && one.layers[i].output_error != two.layers[i].output_error;
  }
  CHECK(changed > 5);
}

TEST_CASE("tensorize: more bytes give a smaller error, and the budget is never exceeded") {
  const TemporaryFolder folder;
  write_model(folder.path());
  kernels::ThreadPool pool(1);
  double before = 0;
  for (const double ratio : {1.2, 1.6, 2.2}) {
    const std::string output = folder / fmt::format("r{}", static_cast<int>(ratio * 10));
    Tensorizer tensorizer(settings_for(folder.path(), output, ratio), pool, nullptr);
    const Result result = tensorizer.run().at(0);
    CHECK(static_cast<double>(result.file_bytes) * ratio <= static_cast<double>(result.file_bytes_dense));
    double loss = 0;
    for (const LayerOutcome& layer : result.layers) loss += layer.rel_error * layer.rel_error;
    CHECK(loss >= before);
    before = loss;
  }
}
