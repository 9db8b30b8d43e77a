// Click data: schemas, readers, the map of features, blocks and their loader.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "lib/core/error.h"
#include "lib/data/clicks/click_block.h"
#include "lib/data/clicks/click_dataset.h"
#include "tests/data/scratch.h"

using namespace comera::data;
using Catch::Contains;

namespace {

constexpr const char* schema_text = R"({"format": "csv", "label": "click",
  "dense": [{"column": "age", "transform": "log"}, {"column": "size", "transform": "standard"}],
  "categories": ["color", {"column": "tags", "separator": "|", "pooling": "mean"},
                 {"column": "shop", "encoding": "id", "rows": 4}]})";

constexpr const char* rows_text =
    "color,click,age,size,tags,shop\n"
    "red,1,3,1,a|b,0\n"
    "green,0,,3,,3\n"
    "red,0,0,,b,1\n"
    "\"bl\"\"ue\",1,-5,2,a|b|c,2\n";

DataSpec spec_of(const Scratch& scratch, const std::string& rows = rows_text) {
  DataSpec spec;
  spec.task = Task::ctr;
  spec.schema = scratch.write("schema.json", schema_text);
  spec.files = {scratch.write("rows.csv", rows)};
  return spec;
}

std::vector<float> floats(const Batch& batch, const char* name) {
  const auto view = batch[name].as<float>();
  return {view.begin(), view.end()};
}
std::vector<std::int32_t> ints(const Batch& batch, const char* name) {
  const auto view = batch[name].as<std::int32_t>();
  return {view.begin(), view.end()};
}

LoaderOptions in_order(std::int64_t batch) {
  LoaderOptions options;
  options.batch = batch;
  options.shuffle = false;
  return options;
}

// `rows` rows of a label, a number that names the row, and a category.
std::string numbered_rows(int rows) {
  std::string text;
  for (int i = 0; i < rows; ++i)
    text += std::to_string(i % 3 == 0) + "\t" + std::to_string(i) + "\tc" + std::to_string(i % 7) + "\n";
  return text;
}

std::shared_ptr<const ClickDataset> numbered(const Scratch& scratch, const std::vector<int>& files) {
  DataSpec spec;
  spec.task = Task::ctr;
  spec.schema = scratch.write(
      "numbered.json",
      R"({"format": "tsv", "header": false, "columns": ["y", "x", "c"], "label": "y", "dense": ["x"], "categories": ["c"]})");
  int number = 0;
  for (const int rows : files)
    spec.files.push_back(scratch.write("part" + std::to_string(number++) + ".tsv", numbered_rows(rows)));
  return ClickDataset::open(spec);
}

// Everything in the steps of an epoch, as text.
std::vector<std::string> steps_of(Loader& loader, std::int64_t accumulate, std::size_t count) {
  std::vector<std::string> steps;
  std::vector<Batch> parts(static_cast<std::size_t>(accumulate));
  while (steps.size() < count && loader.next(parts)) {
    std::string text;
    for (const Batch& part : parts)
      for (std::int64_t b = 0; b < part.sequences; ++b)
        text += fmt::format("{}:{}:{}:{} ", part["samples"].as<std::int64_t>()[static_cast<std::size_t>(b)],
                            floats(part, "dense")[static_cast<std::size_t>(b)],
                            ints(part, "labels")[static_cast<std::size_t>(b)],
                            ints(part, "ids.c")[static_cast<std::size_t>(b)]);
    steps.push_back(text);
  }
  return steps;
}

void check_refused(const std::string& schema, const std::string& message) {
  CHECK_THROWS_WITH(parse_schema(schema, "schema.json"), Contains("schema.json") && Contains(message));
}

void check_rows_refused(const std::string& rows, const std::string& message) {
  const Scratch scratch;
  CHECK_THROWS_WITH(ClickDataset::open(spec_of(scratch, rows)), Contains("rows.csv") && Contains(message));
}

}  // namespace

TEST_CASE("clicks: a batch has the numbers, rows, bags and weights of its examples") {
  const Scratch scratch;
  const auto dataset = ClickDataset::open(spec_of(scratch));
  CHECK(dataset->size() == 4);
  const auto loader = Loader::open(dataset, in_order(4));
  CHECK(loader->steps_per_epoch() == 1);
  Batch batch;
  REQUIRE(loader->next(batch));
  CHECK(batch.sequences == 4);
  CHECK(batch.counted == 4);
  CHECK(ints(batch, "labels") == std::vector<std::int32_t>{1, 0, 0, 1});
  const std::vector<float> dense = floats(batch, "dense");
  CHECK(dense[0] == Approx(std::log(4.0)));
  CHECK(dense[2] == 0);  // missing
  CHECK(dense[6] == 0);  // below 0
  // The mean of 1, 3 and 2 is 2, their deviation sqrt(2/3); a missing size is the mean.
  CHECK(dense[1] == Approx(-std::sqrt(1.5)));
  CHECK(dense[3] == Approx(std::sqrt(1.5)));
  CHECK(dense[5] == 0);
  // The most frequent category has row 1, then in order of appearance; row 0 is for unknown ones.
  CHECK(ints(batch, "ids.color") == std::vector<std::int32_t>{1, 2, 1, 3});
  CHECK(ints(batch, "offsets.tags") == std::vector<std::int32_t>{0, 2, 2, 3, 6});
  CHECK(ints(batch, "ids.tags") == std::vector<std::int32_t>{2, 1, 1, 2, 1, 3, 0, 0, 0, 0, 0, 0});
  const float third = 1.0F / 3;
  CHECK(floats(batch, "weights.tags") == std::vector<float>{0.5, 0.5, 1, third, third, third, 0, 0, 0, 0, 0, 0});
  CHECK(ints(batch, "ids.shop") == std::vector<std::int32_t>{0, 3, 1, 2});
  CHECK_FALSE(loader->next(batch));
}

TEST_CASE("clicks: a constant number has deviation 1") {
  const Scratch scratch;
  DataSpec spec;
  spec.task = Task::ctr;
  spec.schema =
      scratch.write("schema.json",
                    R"({"format": "csv", "label": "click", "dense": [{"column": "x", "transform": "standard"}],
                                  "categories": ["c"]})");
  std::string rows = "click,x,c\n";
  for (int i = 0; i < 800; ++i) rows += "1,0.1,a\n";
  spec.files = {scratch.write("rows.csv", rows)};
  CHECK(ClickDataset::open(spec)->schema().dense[0].deviation == 1);
}

TEST_CASE("clicks: other data get the rows of the training data; unknown categories row 0; long bags are cut") {
  const Scratch scratch;
  const auto train = ClickDataset::open(spec_of(scratch));
  DataSpec other = spec_of(scratch);
  other.files = {scratch.write("dev.csv", "click,color,age,size,tags,shop\n1,pink,1,1,z|a|b|c|b,3\n0,green,1,1,b,0\n")};
  const auto dev = ClickDataset::open(other, train->map());
  Batch batch;
  REQUIRE(Loader::open(dev, in_order(8))->next(batch));
  CHECK(ints(batch, "ids.color") == std::vector<std::int32_t>{0, 2});
  CHECK(ints(batch, "offsets.tags") == std::vector<std::int32_t>{0, 3, 4});
  CHECK(ints(batch, "ids.tags") == std::vector<std::int32_t>{0, 2, 1, 1, 0, 0});
}

TEST_CASE("clicks: rare categories share row 0, and large tables are hashed") {
  const Scratch scratch;
  DataSpec spec = spec_of(scratch);
  spec.min_count = 2;
  CHECK(ClickDataset::open(spec)->schema().categories[0].rows == 2);  // red
  spec.min_count = 0, spec.hash_rows = 3;
  const Schema hashed = ClickDataset::open(spec)->schema();
  CHECK(hashed.categories[0].encoding == Encoding::hash);
  for (const CategoryColumn& column : hashed.categories) CHECK(column.rows == 3);
}

TEST_CASE("clicks: min_count counts the rows that have a category, not its places in a bag") {
  const Scratch scratch;
  DataSpec spec;
  spec.task = Task::ctr;
  spec.schema = scratch.write("schema.json",
                              R"({"label": "y", "categories": [{"column": "a", "separator": "|", "min_count": 2}]})");
  spec.files = {scratch.write("rows.csv", "y,a\n1,twice|often|twice\n0,often|often|often\n1,once|often\n0,once\n")};
  const auto data = ClickDataset::open(spec);
  CHECK(data->schema().categories[0].rows == 3);  // often, once
  CHECK(data->map()->row(0, category_key("often")) == 1);
  CHECK(data->map()->row(0, category_key("once")) == 2);
  CHECK(data->map()->row(0, category_key("twice")) == 0);
}

TEST_CASE("clicks: a stored map gives the same rows") {
  const Scratch scratch;
  const auto dataset = ClickDataset::open(spec_of(scratch));
  dataset->save(comera::Folder(scratch.path("")));
  const auto read = FeatureMap::load(parse_schema(schema_json(dataset->schema()), "schema"), scratch.path(""));
  CHECK(read->hash() == dataset->map()->hash());
  for (const char* color : {"red", "green", "bl\"ue", "pink"})
    CHECK(read->row(0, category_key(color)) == dataset->map()->row(0, category_key(color)));
  Schema larger = dataset->schema();
  larger.categories[0].rows = 9;
  CHECK_THROWS_WITH(FeatureMap::load(larger, scratch.path("")), Contains("tensor 'color' must hold 8 keys"));
}

TEST_CASE("clicks: an epoch has each row once, in another order than the next one") {
  const Scratch scratch;
  const auto dataset = numbered(scratch, {40, 33, 27});
  LoaderOptions options;
  options.batch = 8;
  const auto loader = Loader::open(dataset, options);
  CHECK(loader->steps_per_epoch() == 13);
  const std::vector<std::string> both = steps_of(*loader, 1, 26);
  std::multiset<std::int64_t> samples;
  const auto again = Loader::open(dataset, options);
  for (int step = 0; step < 26; ++step) {
    Batch batch;
    REQUIRE(again->next(batch));
    CHECK(again->epoch_ended() == (step % 13 == 12));
    for (const std::int64_t sample : batch["samples"].as<std::int64_t>()) samples.insert(sample);
  }
  for (std::int64_t sample = 0; sample < 200; ++sample) CHECK(samples.count(sample) == 1);
  CHECK(both[0] != both[13]);
}

TEST_CASE("clicks: the rows of a step depend neither on micro-batches nor on a resume") {
  const Scratch scratch;
  const auto dataset = numbered(scratch, {50, 41});
  LoaderOptions whole, split;
  whole.batch = 12;
  split.batch = 4, split.accumulate = 3;
  const auto loader = Loader::open(dataset, whole);
  const std::vector<std::string> steps = steps_of(*loader, 1, 20);
  CHECK(steps_of(*Loader::open(dataset, split), 3, 20) == steps);
  for (std::size_t stop = 0; stop < 17; ++stop) {
    const auto first = Loader::open(dataset, whole);
    const std::vector<std::string> before = steps_of(*first, 1, stop);
    const auto rest = Loader::open(dataset, whole, LoaderState::from_json(first->state().to_json()));
    const std::vector<std::string> after = steps_of(*rest, 1, 20 - stop);
    CHECK(std::equal(after.begin(), after.end(), steps.begin() + static_cast<std::ptrdiff_t>(stop)));
  }
}

TEST_CASE("clicks: blocks beyond the first are resumed too") {
  const Scratch scratch;
  const auto dataset = numbered(scratch, {140000, 9000});  // a block has 131,072 rows
  LoaderOptions options;
  options.batch = 4096;
  const std::vector<std::string> steps = steps_of(*Loader::open(dataset, options), 1, 40);
  const auto first = Loader::open(dataset, options);
  steps_of(*first, 1, 34);
  CHECK(first->state().window == 1);
  const auto rest = Loader::open(dataset, options, first->state());
  const std::vector<std::string> after = steps_of(*rest, 1, 6);
  CHECK(std::equal(after.begin(), after.end(), steps.begin() + 34));
}

TEST_CASE("clicks: Criteo's columns, and libFM by position or as a bag") {
  const Schema criteo = criteo_schema();
  CHECK(criteo.columns.size() == 40);
  CHECK(criteo.dense.size() == 13);
  CHECK(criteo.categories.size() == 26);
  const Scratch scratch;
  DataSpec spec;
  spec.task = Task::ctr;
  spec.files = {scratch.write("rows.libfm", "1 3:1 7:1\n-1 3:1 9:1\n0 4:1 7:1\n")};
  const auto fields = ClickDataset::open(spec);
  Batch batch;
  REQUIRE(Loader::open(fields, in_order(3))->next(batch));
  CHECK(ints(batch, "labels") == std::vector<std::int32_t>{1, 0, 0});
  CHECK(ints(batch, "ids.field_1") == std::vector<std::int32_t>{1, 1, 2});
  CHECK(ints(batch, "ids.field_2") == std::vector<std::int32_t>{1, 2, 1});
  CHECK(floats(batch, "dense") == std::vector<float>{1, 1, 1});

  // One category is the bag of all entries, also where the schema has the number of rows.
  spec.files = {scratch.write("bag.libfm", "1 3:1 7:0.5\n0 9:2\n")};
  for (const char* all :
       {R"("all")", R"({"column": "all", "most": 0})", R"({"column": "all", "encoding": "id"})",
        R"({"column": "all", "encoding": "id", "rows": 12})", R"({"column": "all", "encoding": "hash", "rows": 12})"}) {
    spec.schema = scratch.write("bag.json", fmt::format(R"({{"format": "libfm", "categories": [{}]}})", all));
    const auto bag = ClickDataset::open(spec);
    REQUIRE(Loader::open(bag, in_order(2))->next(batch));
    CHECK(ints(batch, "offsets.all") == std::vector<std::int32_t>{0, 2, 3});
    CHECK(floats(batch, "weights.all") == std::vector<float>{1, 0.5, 2, 0});
  }
}

TEST_CASE("clicks: rows to predict may lack the label, the column of the label, and all fields") {
  const Schema named =
      parse_schema(R"({"format": "tsv", "label": "y", "dense": ["x"], "categories": ["c"]})", "named.json");
  const Schema unnamed = parse_schema(
      R"({"format": "tsv", "header": false, "columns": ["x", "y", "c"], "label": "y", "dense": ["x"],
          "categories": ["c"]})",
      "unnamed.json");
  const auto check = [](const Schema& schema, const std::string& text) {
    ClickReader reader(ByteStream::of(text), "rows", schema, ClickReader::Labels::optional);
    ClickRow row;
    REQUIRE(reader.next(row));
    CHECK((row.label == -1 && row.dense[0] == 5 && row.keys[0] == category_key("a")));
    REQUIRE(reader.next(row));
    CHECK((row.label == -1 && std::isnan(row.dense[0]) && row.keys[0] == category_key("")));
    CHECK_FALSE(reader.next(row));
  };
  check(named, "c\tx\na\t5\n\t\n");
  check(named, "x\ty\tc\n5\t\ta\n\t\t\n\n\n");
  check(unnamed, "5\ta\n\t\n");
  check(unnamed, "5\t\ta\n\t\t\n");
  const auto refused = [&](const std::string& text, ClickReader::Labels labels, const std::string& message) {
    ClickReader reader(ByteStream::of(text), "rows", unnamed, labels);
    ClickRow row;
    CHECK_THROWS_WITH(reader.next(row), Contains(message));
  };
  refused("5\n", ClickReader::Labels::optional, "line 1: has 1 column, 3 are wanted, or 2 without the label");
  refused("5\ta\n", ClickReader::Labels::required, "line 1: has 2 columns, 3 are wanted");
}

TEST_CASE("clicks: a schema that is wrong is refused with its place") {
  check_refused("[]", "must be a JSON object");
  check_refused(R"({"label": "y", "categories": ["a"], "hedaer": true})", "no key 'hedaer'");
  check_refused(R"({"label": "y", "categories": []})", "names no categories");
  check_refused(R"({"categories": ["a"]})", "'label' is missing");
  check_refused(R"({"label": "y", "categories": ["a", "a"]})", "'a' is named twice");
  check_refused(R"({"label": "y", "dense": ["a"], "categories": [{"column": "a"}]})", "'a' is named twice");
  check_refused(R"({"label": "y", "categories": [{"column": "a", "encoding": "hash"}]})", "'rows' is missing");
  check_refused(R"({"label": "y", "categories": [{"column": "a", "encoding": "bash"}]})", "'encoding' must be one of");
  check_refused(R"({"label": "y", "categories": [{"column": "a", "rows": 1e30}]})", "a whole number from 1");
  check_refused(R"({"label": "y", "categories": [{"column": "a", "rows": 18446744073709551615}]})",
                "a whole number from 1");
  check_refused(R"({"label": "y", "categories": [{"rows": 5}]})", "categories[0]: 'column' is missing");
  check_refused(R"({"label": "y", "header": false, "categories": ["a"]})", "'columns' must name");
  check_refused(R"({"label": "y", "columns": ["y", "b"], "categories": ["a"]})", "there is no column 'a'");
  check_refused(R"({"format": "libfm", "dense": ["x"], "categories": ["a"]})", "libFM lines have no numbers");
  check_refused("{", "schema.json");
}

TEST_CASE("clicks: a key of a schema file that would change nothing is refused") {
  const Scratch scratch;
  const auto idle = [&](const std::string& schema, const std::string& message) {
    CHECK_THROWS_WITH(read_schema(scratch.write("schema.json", schema)), Contains(message + " has no effect"));
  };
  const auto column = [&](const std::string& keys, const std::string& message, const char* format = "csv") {
    const std::string label = format == std::string("csv") ? R"("label": "y", )" : "";
    idle(fmt::format(R"({{"format": "{}", {}"categories": ["a", {{"column": "b", {}}}]}})", format, label, keys),
         "categories[1]: " + message);
  };
  column(R"("rows": 9)", "'rows'");
  column(R"("encoding": "id", "min_count": 2)", "'min_count'");
  column(R"("most": 3)", "'most'");
  column(R"("pooling": "mean")", "'pooling'");
  column(R"("weighted": true)", "'weighted'");
  column(R"("pooling": "mean")", "'pooling'", "libfm");
  column(R"("separator": "|")", "'separator'", "libfm");
  idle(R"({"label": "y", "columns": ["y", "a"], "categories": ["a"]})", "'columns'");
  idle(R"({"format": "libfm", "label": "y", "categories": ["a"]})", "'label'");
  idle(R"({"label": "y", "dense": [{"column": "x", "mean": 3}], "categories": ["a"]})", "dense[0]: 'mean'");
  CHECK_NOTHROW(read_schema(scratch.write("schema.json", schema_text)));
  CHECK_NOTHROW(read_schema(scratch.write(
      "schema.json", R"({"format": "libfm", "categories": [{"column": "all", "most": 9, "pooling": "mean"}]})")));
  DataSpec spec;
  spec.task = Task::ctr;
  spec.schema =
      scratch.write("schema.json", R"({"label": "y", "categories": [{"column": "a", "encoding": "hash", "rows": 3}]})");
  spec.files = {scratch.write("rows.csv", "y,a\n1,u\n")};
  spec.min_count = 2;
  CHECK_THROWS_WITH(ClickDataset::open(spec), Contains("--min-count has no effect"));
}

TEST_CASE("clicks: rows that are wrong are refused with file, line and column") {
  check_rows_refused("", "first line must name the columns");
  check_rows_refused("color,age,size,tags,shop\n", "no column 'click'");
  check_rows_refused("color,click,age,size,tags,shops\n", "no column 'shop'");
  check_rows_refused("color,click,age,size,tags,shop\n", "holds no rows");
  const std::string head = "color,click,age,size,tags,shop\n";
  check_rows_refused(head + "red,2,1,1,a,0\n", "line 2: the label is '2'; 0 or 1 is wanted");
  check_rows_refused(head + "red,-1,1,1,a,0\n", "the label is '-1'");
  check_rows_refused(head + "red,1,1,1,a,0\nred,,1,1,a,0\n", "line 3: the label is ''");
  check_rows_refused(head + "red,1,old,1,a,0\n", "line 2: column 'age' has 'old'; a number is wanted");
  check_rows_refused(head + "red,1,1e99,1,a,0\n", "column 'age' has '1e99'");
  check_rows_refused(head + "red,1,1,1,a,4\n", "line 2: column 'shop' has '4'; the number of a row from 0 to 3");
  check_rows_refused(head + "red,1,1,1,a,-1\n", "column 'shop' has '-1'");
  check_rows_refused(head + "red,1,1,1,a\n", "line 2: has 5 columns, 6 are wanted");
  check_rows_refused(head + "\n\nred,1,1,1,a,0\n", "line 2: is empty");
}

TEST_CASE("clicks: libFM lines that are wrong are refused") {
  const auto refused = [](const std::string& rows, const std::string& message) {
    const Scratch scratch;
    DataSpec spec;
    spec.task = Task::ctr;
    spec.files = {scratch.write("rows.libfm", rows)};
    CHECK_THROWS_WITH(ClickDataset::open(spec), Contains("rows.libfm") && Contains(message));
  };
  refused("", "is empty");
  refused("1\n", "line 1: has 1 words");
  refused("1 3:1 7:1\n1 3:1\n", "line 2: has 1 entries, 2 are wanted");
  refused("1 3:1 7:1\n1 3:1 4:1 5:1\n", "line 2: has more than 2 entries");
  refused("1 3:1 7:x\n", "line 1: '7:x' is no entry of libFM");
  refused("1 3:1 a:1\n", "'a:1' is no entry of libFM");
  refused("1 3:1 7\n", "'7' is no entry of libFM");
  refused("5 3:1 7:1\n", "line 1: the label is '5'; 0 or -1, or 1 is wanted");
  DataSpec spec;
  const Scratch scratch;
  spec.files = {scratch.write("rows.txt", "1 3:1\n")};
  CHECK_THROWS_WITH(ClickDataset::open(spec), Contains("the columns are not known; use --schema FILE"));
}

TEST_CASE("clicks: the table of keys finds what was added, and nothing else") {
  KeyTable table;
  CHECK(table.find(5) == KeyTable::missing);
  for (std::int32_t i = 0; i < 5000; ++i) CHECK(table.add(category_key(std::to_string(i)), i) == i);
  CHECK(table.add(category_key("17"), 9999) == 17);
  CHECK(table.size() == 5000);
  for (std::int32_t i = 0; i < 10000; ++i)
    CHECK(table.find(category_key(std::to_string(i))) == (i < 5000 ? i : KeyTable::missing));
}
