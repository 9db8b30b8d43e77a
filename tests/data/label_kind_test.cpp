#include "lib/data/label_kind.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "lib/core/error.h"
#include "tests/data/scratch.h"

using namespace comera::data;

namespace {

DataSpec spec_of(const Scratch& scratch, const std::string& labels, Task task = Task::regression) {
  std::string rows = "text\tlabel\n";
  for (std::size_t begin = 0; begin < labels.size();) {
    const std::size_t end = std::min(labels.find('|', begin), labels.size());
    rows += "a b\t" + labels.substr(begin, end - begin) + "\n";
    begin = end + 1;
  }
  DataSpec spec;
  spec.files = {scratch.write("x.tsv", rows)};
  spec.task = task;
  spec.text = {"text"};
  spec.label = "label";
  return spec;
}

LabelSurvey survey(const std::string& labels) {
  const Scratch scratch;
  return survey_labels(spec_of(scratch, labels));
}

}  // namespace

TEST_CASE("label kind: a decimal point or an exponent makes labels numbers; words and whole numbers are classes") {
  for (const char* classes :
       {"yes|no", "0|1|2", "-1|+1", "1|2|many", "v1|1.5", "1|2|3.x", "nan|1.5", "0x1p3|1.5", "1,5|2.5"}) {
    INFO(classes);
    CHECK(survey(classes).kind == LabelKind::classes);
  }
  for (const char* reals : {"3.8", "5|3.8|2", "1e3|2", "-0.5|1", " 2.5 |3", ".5|1", "+1.5|2"}) {
    INFO(reals);
    CHECK(survey(reals).kind == LabelKind::reals);
  }
  CHECK(survey("5|3.8|2").example == "3.8");
  CHECK(survey("5|3").example.empty());
}

TEST_CASE("label kind: a regression has one number per row") {
  const Scratch scratch;
  const auto dataset = Dataset::open(spec_of(scratch, "3.8|-2| 1e1 |+0.25"), letters());
  REQUIRE(dataset->size() == 4);
  CHECK(dataset->labels().empty());
  CHECK(dataset->score(0) == 3.8F);
  CHECK(dataset->score(1) == -2);
  CHECK(dataset->score(2) == 10);
  CHECK(dataset->score(3) == 0.25F);
  const ScoreMoments moments = moments_of_scores(*dataset);
  CHECK(moments.count == 4);
  CHECK(moments.mean == Approx(12.05 / 4));
  CHECK(moments.deviation == Approx(std::sqrt((3.8 * 3.8 + 4 + 100 + 0.0625) / 4 - 12.05 * 12.05 / 16)));
  const auto classes = Dataset::open(spec_of(scratch, "3.8|-2", Task::classify), letters());
  CHECK(std::isnan(classes->score(0)));
  DataSpec unlabelled = spec_of(scratch, "x|y");
  unlabelled.label.clear();
  CHECK(std::isnan(Dataset::open(unlabelled, letters())->score(1)));
}

TEST_CASE("label kind: the error for a label that is no finite number names file and line") {
  const Scratch scratch;
  const auto refused = [&](const std::string& labels, const std::string& message) {
    CHECK_THROWS_AS(Dataset::open(spec_of(scratch, labels), letters()), comera::InputError);
    CHECK_THROWS_WITH(Dataset::open(spec_of(scratch, labels), letters()), Catch::Contains("x.tsv: line 3: " + message));
  };
  refused("1.5|high", "the label 'high' (column 'label') is no finite number; a regression learns numbers");
  refused("1.5|nan", "the label 'nan' (column 'label') is no finite number");
  refused("1.5|-inf", "the label '-inf' (column 'label') is no finite number");
  refused("1.5|1e999", "the label '1e999' (column 'label') is no finite number");
  refused("1.5|1e39", "the label '1e39' (column 'label') is larger than a float can be");
  refused("1.5|1,5", "the label '1,5'");
  refused("1.5||2", "the label (column 'label') is empty");
}

TEST_CASE("label kind: a batch of a regression has its numbers") {
  const Scratch scratch;
  const auto dataset = Dataset::open(spec_of(scratch, "3.8|-2|0.5"), letters());
  LoaderOptions options;
  options.shuffle = false;
  options.batch = 2;
  const auto loader = Loader::open(dataset, options);
  Batch batch;
  REQUIRE(loader->next(batch));
  CHECK_FALSE(batch.has("labels"));
  CHECK(batch["scores"].as<float>()[0] == 3.8F);
  CHECK(batch["scores"].as<float>()[1] == -2);
  CHECK(batch.counted == 2);
  REQUIRE(loader->next(batch));
  CHECK(batch["scores"].as<float>()[0] == 0.5F);
  CHECK(batch.counted == 1);
}
