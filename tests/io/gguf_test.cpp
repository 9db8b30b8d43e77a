#include "lib/io/gguf/gguf.h"

#include <catch2/catch.hpp>
#include <cstring>

#include "lib/core/error.h"
#include "lib/io/tt_format.h"
#include "tests/core/temporary_folder.h"
#include "tests/io/gguf_bytes.h"
#include "tests/oracle/gguf_blocks.h"

using namespace comera;
using namespace comera::io;
using Catch::Matchers::Contains;

namespace {

void check_blocks(GgufType type, std::span<const std::uint8_t> bytes, std::span<const float> wanted) {
  std::vector<float> found(wanted.size());
  dequantise(type, std::as_bytes(bytes), found);
  for (std::size_t i = 0; i < found.size(); ++i) {
    INFO(name_of(type) << " " << i);
    CHECK(found[i] == wanted[i]);
  }
}

// One tensor of 2 rows of 32 numbers, and some keys.
GgufBytes small_file() {
  GgufBytes file;
  file.text_key("general.architecture", "llama").number_key("llama.block_count", 3);
  file.texts_key("tokenizer.ggml.tokens", {"a", "b"});
  file.floats("table", {2, 32}, std::vector<float>(64, 0.5f));
  return file;
}

void check_refused(const std::string& bytes, const std::string& why) {
  CHECK_THROWS_WITH(parse_gguf(bytes, "m.gguf"), Contains("m.gguf") && Contains(why));
  CHECK_THROWS_AS(parse_gguf(bytes, "m.gguf"), InputError);
}

}  // namespace

TEST_CASE("gguf: blocks have the values that PyPI's gguf finds, to the bit") {
  check_blocks(GgufType::Q4_0, oracle::Q4_0_bytes, oracle::Q4_0_values);
  check_blocks(GgufType::Q4_1, oracle::Q4_1_bytes, oracle::Q4_1_values);
  check_blocks(GgufType::Q5_0, oracle::Q5_0_bytes, oracle::Q5_0_values);
  check_blocks(GgufType::Q5_1, oracle::Q5_1_bytes, oracle::Q5_1_values);
  check_blocks(GgufType::Q8_0, oracle::Q8_0_bytes, oracle::Q8_0_values);
  check_blocks(GgufType::Q4_K, oracle::Q4_K_bytes, oracle::Q4_K_values);
  check_blocks(GgufType::Q6_K, oracle::Q6_K_bytes, oracle::Q6_K_values);
  const std::uint8_t half[] = {0x00, 0x3e, 0x00, 0xc0}, bf16[] = {0xc0, 0x3f, 0x00, 0xc0};
  check_blocks(GgufType::F16, half, std::vector<float>{1.5f, -2});
  check_blocks(GgufType::BF16, bf16, std::vector<float>{1.5f, -2});
}

TEST_CASE("gguf: keys of all kinds and tensors are read") {
  TemporaryFolder folder;
  GgufBytes bytes = small_file();
  bytes.key("small", 1, std::string(1, '\xff')).key("real", 6, GgufBytes::raw(0.25f)).key("yes", 7, std::string(1, 1));
  bytes.key("large", 10, GgufBytes::raw(std::uint64_t{1} << 40)).key("double", 12, GgufBytes::raw(0.125));
  write_file_atomic(folder / "m.gguf", bytes.file());
  const GgufFile file(folder / "m.gguf");
  CHECK(file.text("general.architecture") == "llama");
  CHECK(file.integer("llama.block_count") == 3);
  CHECK(file.texts("tokenizer.ggml.tokens") == std::vector<std::string>{"a", "b"});
  CHECK(file.integer("small") == -1);
  CHECK(file.real("real") == 0.25);
  CHECK(file.real("llama.block_count") == 3);
  CHECK(file.integer("large") == std::int64_t{1} << 40);
  CHECK(file.real("double") == 0.125);
  REQUIRE(file.find("table"));
  CHECK(file.find("table")->shape == FileShape{2, 32});
  std::vector<float> row(32);
  file.read_row(*file.find("table"), 1, row);
  CHECK(row == std::vector<float>(32, 0.5f));
  CHECK_THROWS_WITH(file.integer("none"), Contains("key none is missing"));
  CHECK_THROWS_WITH(file.text("llama.block_count"), Contains("is not a text"));
  CHECK_THROWS_WITH(file.integers("tokenizer.ggml.tokens"), Contains("list of whole numbers"));
}

namespace {

// Part `number` (from 0) of a model in `count` files, with one tensor of its own.
GgufBytes part(std::int64_t number, std::int64_t count, const std::string& tensor) {
  GgufBytes bytes;
  bytes.number_key("split.no", number).number_key("split.count", count).number_key("split.tensors.count", count);
  if (number == 0) bytes.text_key("general.architecture", "llama");
  return bytes.floats(tensor, {2}, {static_cast<float>(number), 7});
}

std::string error_of(const std::string& path) {
  try {
    const GgufFile file(path);
    return "accepted";
  } catch (const InputError& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("gguf: a model in several files is read as one") {
  TemporaryFolder folder;
  const std::string first = folder / "m-00001-of-00002.gguf", second = folder / "m-00002-of-00002.gguf";
  write_file_atomic(first, part(0, 2, "a").file());
  CHECK_THAT(error_of(first), Contains("m-00002-of-00002.gguf: file 2 of 2 of the model is missing"));
  write_file_atomic(second, part(1, 2, "b").file());
  for (const std::string& path : {first, second}) {
    const GgufFile file(path);
    REQUIRE(file.tensors().size() == 2);
    CHECK(file.text("general.architecture") == "llama");
    CHECK(file.bytes() == file_size(first) + file_size(second));
    std::vector<float> row(2);
    file.read_row(*file.find("b"), 0, row);
    CHECK(row == std::vector<float>{1, 7});
    file.forget(*file.find("b"));
  }
  // Names and keys that do not belong together.
  write_file_atomic(second, part(1, 2, "a").file());
  CHECK_THAT(error_of(first), Contains("tensor a is in two files"));
  write_file_atomic(second, part(0, 2, "b").file());
  CHECK_THAT(error_of(first), Contains("key split.no is not 1"));
  write_file_atomic(second, part(1, 3, "b").file());
  CHECK_THAT(error_of(first), Contains("key split.count is not 2"));
  write_file_atomic(second, part(1, 2, "b").floats("c", {1}, {1}).file());
  CHECK_THAT(error_of(first), Contains("hold 3 tensors") && Contains("says 2"));
  write_file_atomic(folder / "renamed.gguf", part(0, 2, "a").file());
  CHECK_THAT(error_of(folder / "renamed.gguf"), Contains("its name must end in -00001-of-00002.gguf"));
  for (const std::int64_t count : {std::int64_t{-1}, std::int64_t{1} << 40}) {
    write_file_atomic(
        first,
        GgufBytes().key("split.count", 11, GgufBytes::raw(count)).key("split.no", 11, GgufBytes::raw(count)).file());
    CHECK_THAT(error_of(first), Contains("it must be 1 to 1000"));
  }
}

TEST_CASE("gguf: tensors are described by number format, kind and bytes") {
  TemporaryFolder folder;
  GgufBytes bytes;
  bytes.floats("token_embd.weight", {2, 32}, std::vector<float>(64));
  bytes.floats("blk.10.attn_norm.weight", {8}, std::vector<float>(8));
  bytes.tensor({"blk.2.attn_q.weight", {1, 32}, 8, 288});
  write_file_atomic(folder / "m.gguf", bytes.file() + std::string(64, '\0'));
  const std::vector<TensorForm> forms = describe(GgufFile(folder / "m.gguf"));
  REQUIRE(forms.size() == 3);
  CHECK(forms[0].name == "blk.2.attn_q.weight");
  CHECK(forms[0].kind == "linear");
  CHECK(forms[0].form == "Q8_0");
  CHECK(forms[0].bytes == 34);
  CHECK(forms[0].bytes_dense == 128);
  CHECK(forms[1].kind == "norm");
  CHECK(forms[2].kind == "embedding");
  CHECK(forms[2].form == "dense");
  CHECK(forms[2].parameters == 64);
  CHECK(is_gguf_file(folder / "m.gguf"));
  CHECK(!is_gguf_file(folder.path()));
  CHECK(!is_gguf_file(folder / "none"));
}

TEST_CASE("gguf: every truncated file is refused") {
  const std::string bytes = small_file().file();
  for (std::size_t size = 0; size < bytes.size(); ++size)
    CHECK_THROWS_AS(parse_gguf(std::string_view(bytes).substr(0, size), "m.gguf"), InputError);
  CHECK_NOTHROW(parse_gguf(bytes, "m.gguf"));
}

TEST_CASE("gguf: what a file claims is checked against its size") {
  const auto with = [](std::size_t at, auto number) {
    std::string bytes = small_file().file();
    std::memcpy(bytes.data() + at, &number, sizeof number);
    return bytes;
  };
  check_refused(std::string(60, 'G'), "no GGUF file");
  check_refused(with(4, std::uint32_t{1}), "version 1");
  check_refused(with(4, std::uint32_t{0x03000000}), "big-endian");
  check_refused(with(8, ~std::uint64_t{0}), "tensors, but only");
  check_refused(with(16, std::uint64_t{1} << 40), "keys, but only");
  check_refused(with(24, std::uint64_t{1} << 62), "a key claims");
  check_refused(GgufBytes().key("x", 99, "").file(), "unknown kind 99");
  check_refused(GgufBytes().key("x", 9, GgufBytes::raw(std::uint32_t{9})).file(), "array of arrays");
  check_refused(GgufBytes().key("x", 9, GgufBytes::raw(std::uint32_t{0}) + GgufBytes::raw(~std::uint64_t{0})).file(),
                "items of an array");
  check_refused(
      GgufBytes()
          .key("x", 9,
               GgufBytes::raw(std::uint32_t{0}) + GgufBytes::raw(std::uint64_t{1 << 25}) + std::string(1 << 25, 'x'))
          .file(),
      "more than 16777216 items");
  check_refused(GgufBytes().number_key("x", 1).number_key("x", 2).file(), "occurs twice");
  for (const std::int64_t alignment : {0, 3, 1 << 24})
    check_refused(small_file().number_key("general.alignment", alignment).file(), "general.alignment");
}

TEST_CASE("gguf: tensors that cannot be are refused by name") {
  const auto with = [](const GgufBytes::Tensor& tensor) { return small_file().tensor(tensor).file(); };
  check_refused(with({"t", {32}, 99, 0}), "tensor t: its type 99 is not read");
  check_refused(with({"t", {33}, 2, 0}), "no whole blocks of 32");
  check_refused(with({"t", {1, 1, 1, 1, 1}, 0, 0}), "5 dimensions");
  check_refused(with({"t", {0}, 0, 0}), "a size of 0");
  check_refused(with({"t", {std::int64_t{1} << 40, std::int64_t{1} << 40}, 0, 0}), "2^60");
  check_refused(with({"t", {8}, 0, 1}), "no multiple of 32");
  check_refused(with({"t", {8}, 0, 1 << 20}), "do not lie in the file");
  check_refused(with({"t", {8}, 0, 0}), "overlaps with that of");
  check_refused(small_file().floats("table", {1}, {1}).file(), "occurs twice");
}
