#include "lib/io/file_kind.h"

#include <catch2/catch.hpp>
#include <string>

#include "lib/core/error.h"
#include "lib/io/safetensors.h"

using namespace comera;
using namespace std::string_literals;
using Catch::Matchers::Contains;

namespace {

std::string name_of(const std::string& start) {
  const io::FileKind* kind = io::kind_of(start);
  return kind ? kind->name : "";
}

std::string message(const std::string& file) {
  try {
    io::parse_safetensors(file, file.size(), "m.bin");
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("file kind: files are recognised by their first bytes") {
  CHECK_THAT(name_of("GGUF\3\0\0\0"s), Contains("GGUF"));
  CHECK_THAT(name_of("PK\3\4\0\0"s), Contains("zip"));
  CHECK_THAT(name_of("\x80\4\x95"s), Contains("pickle"));
  CHECK_THAT(name_of("\x89HDF\r\n\x1a\n"s), Contains("HDF5"));
  CHECK_THAT(name_of("\x1f\x8b\x08"s), Contains("gzip"));
  CHECK_THAT(name_of("PAR1"s), Contains("Parquet"));
  CHECK_THAT(name_of("version https://git-lfs.github.com/spec/v1\noid sha256:0\n"), Contains("Git LFS"));
  CHECK_THAT(name_of("<!DOCTYPE html><html>"), Contains("web page"));
  CHECK_THAT(name_of(std::string(257, 'x') + "ustar"), Contains("tar"));
  CHECK_THAT(name_of("\x08\x08\x12\x07pytorch"s), Contains("ONNX"));
  CHECK_THAT(name_of("\x89PNG\r\n\x1a\n\0\0\0\rIHDR"s), Contains("PNG"));
  CHECK_THAT(name_of("\xff\xd8\xff\xe0\0\x10JFIF"s), Contains("JPEG"));
  CHECK_THAT(name_of("SQLite format 3\0"s), Contains("SQLite"));
  CHECK_THAT(name_of("\n\x0e\n\5<unk>\x15\0\0\0\0\x18\2"s), Contains("SentencePiece"));
  CHECK_THAT(name_of("\n\x09\n\5<unk>\x18\2"s), Contains("SentencePiece"));
  CHECK(name_of("\n\x0e\n\x7f<unk>\x15"s).empty());
  CHECK_THAT(name_of("\x1b\0\0\0\0\0\0\0\5\0\0\0<unk>"s), Contains("llama2.c"));
  CHECK(name_of("{\n  \"model_type\": \"bert\"\n}") == "JSON text");
  CHECK(name_of("a sentence\n") == "text");
  CHECK(name_of("[PAD]\n[UNK]\n") == "text");
  CHECK(name_of("").empty());
  CHECK(name_of("\x01\x02\x03"s).empty());
}

TEST_CASE("file kind: the error for a weights file of another kind names that kind") {
  CHECK_THAT(message("GGUF\3\0\0\0\1\0\0\0"s), Contains("m.bin: is a GGUF file") && Contains("Hugging Face folder"));
  CHECK_THAT(message("{\"hidden_size\": 384}"), Contains("is JSON text") && Contains("folder"));
  CHECK_THAT(message("version https://git-lfs.github.com/spec/v1\n"), Contains("Git LFS") && Contains("git lfs pull"));
  // A header length that equals a magic number is still a header: 'BZh' is 6,839,874.
  CHECK_THAT(message("BZh\0\0\0\0\0{}"s), Contains("truncated"));
}
