#include "lib/io/safetensors.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <numeric>

#include "lib/core/error.h"
#include "lib/io/tt_format.h"
#include "tests/core/cpu_seconds.h"
#include "tests/core/temporary_folder.h"

using namespace comera;
using namespace comera::io;
using Catch::Matchers::Contains;

namespace {

std::string raw_file(const std::string& header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  return file + header + std::string(data_bytes, '\0');
}

// The header is an object with these members.
std::string file_of(const std::string& members, std::size_t data_bytes) {
  return raw_file(fmt::format("{{{}}}", members), data_bytes);
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return "\"" + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

SafetensorsHeader parse(const std::string& file) { return parse_safetensors(file, file.size(), "m.safetensors"); }

std::string message(const std::string& file) {
  try {
    parse(file);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("safetensors: a valid header") {
  const SafetensorsHeader header =
      parse(raw_file("{\"__metadata__\":{\"format\":\"pt\"}," + entry("b", "BF16", "[2,2]", "[8,16]") + "," +
                         entry("a", "F32", "[2]", "[0,8]") + "," + entry("none", "F32", "[0,1099511627776]", "[8,8]") +
                         "," + entry("scalar", "U8", "[]", "[16,17]") + "}  ",
                     17));
  REQUIRE(header.tensors.size() == 4);
  CHECK(header.metadata.at("format") == "pt");
  CHECK(header.tensors[0].name == "a");
  CHECK(header.tensors[1].elements() == 0);
  CHECK(header.tensors[2].shape == FileShape{2, 2});
  CHECK(header.tensors[3].bytes() == 1);
}

TEST_CASE("safetensors: headers that lie are refused, naming file and tensor") {
  const auto one = [](const std::string& dtype, const std::string& shape, const std::string& offsets,
                      std::size_t bytes) { return message(file_of(entry("w", dtype, shape, offsets), bytes)); };
  CHECK_THAT(message(""), Contains("m.safetensors") && Contains("too few"));
  CHECK_THAT(message("1234567"), Contains("too few"));
  CHECK_THAT(message(file_of("", 0).substr(0, 9)), Contains("truncated"));
  std::string long_header = file_of("", 0);
  long_header[5] = 1;
  CHECK_THAT(message(long_header), Contains("claims a header of") && Contains("no safetensors file"));
  CHECK_THAT(message(raw_file("[]", 0)), Contains("no safetensors file, because no '{' is at byte 8"));
  CHECK_THAT(message(std::string(40, '\7')), Contains("no safetensors file") && !Contains("header of"));
  CHECK_THAT(message(file_of(",", 0)), Contains("not valid JSON"));
  CHECK_THAT(message(file_of("\"w\xff\":1", 0)), Contains("not valid JSON"));
  CHECK_THAT(message(file_of("\"w\":{\"a\":{\"b\":{}}}", 0)), Contains("nests deeper"));
  CHECK_THAT(message(file_of(entry("w", "F32", "[1]", "[0,4]") + "," + entry("w", "F32", "[1]", "[4,8]"), 8)),
             Contains("\"w\"") && Contains("twice"));
  CHECK_THAT(message(file_of("\"w\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}", 0)), Contains("twice"));
  CHECK_THAT(message(file_of("\"w\":{\"dtype\":\"F32\"}", 0)), Contains("tensor w") && Contains("exactly"));
  CHECK_THAT(message(file_of("\"__metadata__\":{\"a\":1}", 0)), Contains("not text"));
  CHECK_THAT(message(file_of(entry("a\\u0007", "F32", "[1]", "[0,4]"), 4)), Contains("unusable name"));
  CHECK_THAT(message(file_of(entry("", "F32", "[1]", "[0,4]"), 4)), Contains("unusable name"));
  CHECK_THAT(one("F31", "[1]", "[0,4]", 4), Contains("tensor w") && Contains("unknown dtype 'F31'"));
  CHECK_THAT(one("F32", "[-1]", "[0,4]", 4), Contains("whole number"));
  CHECK_THAT(one("F32", "[1.5]", "[0,6]", 6), Contains("whole number"));
  CHECK_THAT(one("F32", "3", "[0,12]", 12), Contains("list of sizes"));
  CHECK_THAT(one("F32", "[2305843009213693952]", "[0,4]", 4), Contains("2^60"));
  CHECK_THAT(one("F32", "[1152921504606846976,16]", "[0,0]", 0), Contains("2^60"));
  CHECK_THAT(one("F32", "[4294967296,4294967296]", "[0,0]", 0), Contains("2^60"));
  CHECK_THAT(one("F32", "[18446744073709551616]", "[0,4]", 4), Contains("whole number"));
  CHECK_THAT(one("F32", "[2]", "[0,4]", 4), Contains("needs 8 bytes"));
  CHECK_THAT(one("F32", "[1]", "[4,0]", 4), Contains("damaged"));
  CHECK_THAT(one("F32", "[2]", "[0,8]", 4), Contains("truncated"));
  CHECK_THAT(one("F32", "[1]", "[4,8]", 8), Contains("unused bytes"));
  CHECK_THAT(one("F32", "[1]", "[0,4]", 8), Contains("follow the last tensor"));
  CHECK_THAT(one("F32", "[1]", "[0,4,8]", 4), Contains("two numbers"));
  CHECK_THAT(message(file_of(entry("a", "F32", "[2]", "[0,8]") + "," + entry("b", "F32", "[2]", "[4,12]"), 12)),
             Contains("tensor b") && Contains("overlaps"));
}

TEST_CASE("safetensors: a shape of millions of sizes is refused before parsing") {
  std::string shape = "[1";
  for (int i = 0; i < 10'000'000; ++i) shape += ",1";
  CHECK_THAT(message(file_of(entry("w", "F32", shape + "]", "[0,4]"), 4)), Contains("a shape of more than 64 sizes"));
  std::string sizes = "[1";
  for (int i = 1; i < 64; ++i) sizes += ",1";
  CHECK(message(file_of(entry("w", "F32", sizes + "]", "[0,4]"), 4)) == "accepted");
  CHECK(message(file_of(entry("a\\\"[" + std::string(100, ','), "F32", "[1]", "[0,4]"), 4)) ==
        "accepted");  // brackets and commas in a name do not count
}

TEST_CASE("safetensors: written data is read back in every floating type, and the same tensors give the same bytes") {
  const TemporaryFolder folder;
  std::vector<float> values(40000);
  std::iota(values.begin(), values.end(), -7.0f);
  const std::vector<std::int64_t> counts{1, -2, 3};
  std::vector<TensorToWrite> tensors;
  for (const StoredType type : {StoredType::F16, StoredType::F32, StoredType::BF16, StoredType::F64})
    tensors.push_back({std::string("w.") + name_of(type), type, {200, 200}, values.data(), true});
  tensors.push_back({"counts", StoredType::I64, {3}, counts.data()});
  write_safetensors(folder / "a", tensors, {{"format", "pt"}, {"k", "\"v\"\n"}});
  std::reverse(tensors.begin(), tensors.end());
  write_safetensors(folder / "b", tensors, {{"k", "\"v\"\n"}, {"format", "pt"}});
  CHECK(read_file(folder / "a") == read_file(folder / "b"));

  const SafetensorsFile file(folder / "a");
  CHECK(file.metadata().at("k") == "\"v\"\n");
  CHECK(file.read_floats("w.F32") == values);
  CHECK(file.read_floats("w.F64") == values);
  CHECK(file.read_floats("w.F16")[2000] == 1993.0f);
  CHECK(file.read_floats("w.BF16")[200] == 193.0f);
  std::vector<std::int64_t> read(3);
  std::memcpy(read.data(), file.bytes(*file.find("counts")).data(), 24);
  CHECK(read == counts);
  for (const StoredTensor& tensor : file.tensors()) CHECK(tensor.begin % size_of(tensor.type) == 0);
  CHECK_THROWS_WITH(file.read_floats("counts"), Contains("counts") && Contains("I64"));
  CHECK_THROWS_WITH(file.read_floats("gone"), Contains("has no tensor gone"));
}

TEST_CASE("safetensors: an abandoned writer leaves no file") {
  const TemporaryFolder folder;
  const TensorToWrite tensor{"w", StoredType::F32, {4}};
  CHECK_THROWS_AS(
      write_safetensors(folder / "a", {tensor}, {}, [](const TensorToWrite&, TensorSink&) { fail_run("stopped"); }),
      RunError);
  CHECK(list_folder(folder.path()).empty());
}

TEST_CASE("safetensors: a header of 100,000 tensors is read in less than a second") {
  std::string members;
  constexpr std::size_t count = 100'000;
  for (std::size_t i = 0; i < count; ++i)
    members += fmt::format(
        "{}{}", i == 0 ? "" : ",",
        entry(fmt::format("model.layers.{}.weight", i), "F32", "[1]", fmt::format("[{},{}]", 4 * i, 4 * i + 4)));
  const TemporaryFolder folder;
  write_file_atomic(folder / "model.safetensors", file_of(members, 4 * count));
  double least = 1e9;  // best of three rounds, because other programs disturb the caches
  for (int round = 0; round < 3; ++round) {
    const double start = cpu_seconds();
    const ModelFolder model(folder.path());
    CHECK(model.entries().size() == count);
    CHECK(describe(model).size() == count);
    least = std::min(least, cpu_seconds() - start);
  }
  CHECK(least < second());
}

TEST_CASE("safetensors: a header of 100,000 tensors is counted and written in less than a second each") {
  std::vector<TensorToWrite> tensors;
  for (int i = 0; i < 100'000; ++i) tensors.push_back({fmt::format("model.layers.{}.weight", i), StoredType::F32, {1}});
  const TemporaryFolder folder;
  const double start = cpu_seconds();
  const std::uint64_t bytes = safetensors_bytes(tensors, {});
  const double counted = cpu_seconds();
  CHECK(counted - start < second());
  const std::array<float, 1> number{};
  write_safetensors(folder / "model.safetensors", tensors, {},
                    [&](const TensorToWrite&, TensorSink& sink) { sink.floats(number); });
  CHECK(cpu_seconds() - counted < second());
  CHECK(file_size(folder / "model.safetensors") == bytes);
  CHECK(SafetensorsFile(folder / "model.safetensors").tensors().size() == tensors.size());
}
