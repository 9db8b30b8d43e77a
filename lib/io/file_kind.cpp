#include "lib/io/file_kind.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/core/hub_hint.h"

namespace comera::io {
namespace {

using namespace std::string_view_literals;

constexpr std::size_t enough = 512;

struct Magic {
  std::size_t at;
  std::string_view bytes;
  FileKind kind;
};

constexpr const char* convert = "convert it to safetensors where it came from";
constexpr const char* pickled =
    "opening such a file can run any code; save the model as safetensors where it came from";
constexpr const char* zipped =
    "PyTorch's pickled weights are such files, and opening one can run any code; save the model as safetensors "
    "where it came from";
constexpr const char* unpack = "unpack it first";
constexpr const char* no_model = "a model is expected here";

constexpr std::array magics{
    Magic{0,
          "GGUF"sv,
          {"a GGUF file (llama.cpp)", "make a Hugging Face folder of it: comera export FILE -o DIR --to safetensors"}},
    Magic{0, "PK\x03\x04"sv, {"a zip archive", zipped, true}},
    Magic{0, "\x80\x02"sv, {"a Python pickle", pickled}},
    Magic{0, "\x80\x03"sv, {"a Python pickle", pickled}},
    Magic{0, "\x80\x04"sv, {"a Python pickle", pickled}},
    Magic{0, "\x80\x05"sv, {"a Python pickle", pickled}},
    Magic{0, "\x89HDF\r\n"sv, {"an HDF5 file (Keras)", convert}},
    Magic{0, "\x93NUMPY"sv, {"a NumPy array", convert}},
    Magic{4, "TFL3"sv, {"a TFLite graph", convert}},
    Magic{0, "PAR1"sv, {"a Parquet table", no_model}},
    Magic{0, "\x1f\x8b"sv, {"a gzip archive", unpack, true}},
    Magic{0, "\x28\xb5\x2f\xfd"sv, {"a Zstandard archive", unpack, true}},
    Magic{0,
          "\xfd"
          "7zXZ"sv,
          {"an xz archive", unpack, true}},
    Magic{4, "1AY&SY"sv, {"a bzip2 archive", unpack, true}},  // behind BZh and a digit: the mark of its first block
    Magic{0, "7z\xbc\xaf\x27\x1c"sv, {"a 7z archive", unpack, true}},
    Magic{257, "ustar"sv, {"a tar archive", unpack, true}},
    Magic{0,
          "version https://git-lfs"sv,
          {"a pointer of Git LFS, not the file itself",
           "run `git lfs pull` in that folder, or fetch it with `hf download`"}},
    Magic{0, "<!DOCTYPE"sv, {"a web page", "the download failed; fetch the file again"}},
    Magic{0, "<html"sv, {"a web page", "the download failed; fetch the file again"}},
    Magic{0,
          "\x7f"
          "ELF"sv,
          {"a program or library", no_model}},
    Magic{0, "\x89PNG\r\n\x1a\n"sv, {"a PNG image", no_model}},
    Magic{0, "\xff\xd8\xff"sv, {"a JPEG image", no_model}},
    Magic{0, "GIF8"sv, {"a GIF image", no_model}},
    Magic{8, "WEBP"sv, {"a WebP image", no_model}},
    Magic{0, "%PDF-"sv, {"a PDF document", no_model}},
    Magic{0, "SQLite format 3\0"sv, {"an SQLite database", no_model}},
    Magic{0, "ARROW1\0\0"sv, {"an Arrow table", no_model}},
    Magic{8, "\5\0\0\0<unk>"sv, {"a vocabulary of llama2.c", no_model}},  // behind the longest length and a score
};

// An ONNX graph begins with its IR version (field 1, a small number). The next field is its producer, opsets, graph or
// metadata.
bool is_onnx(std::string_view start) {
  if (start.size() < 3 || start[0] != 0x08 || start[1] < 1 || start[1] > 20) return false;
  return "\x12\x1a\x22\x3a\x42\x72"sv.find(start[2]) != std::string_view::npos;
}

// A SentencePiece model begins with its first piece (field 1): the piece's text (field 1), then its score (field 2) or
// its type (field 3).
bool is_sentencepiece(std::string_view start) {
  if (start.size() < 4 || start[0] != 0x0a || start[2] != 0x0a) return false;
  const auto piece = static_cast<unsigned char>(start[1]), text = static_cast<unsigned char>(start[3]);
  const std::size_t next = 4 + std::size_t{text};
  return piece < 0x80 && text + 2 < piece && next < start.size() && (start[next] == 0x15 || start[next] == 0x18);
}

bool is_text(std::string_view start) {
  return !start.empty() && std::none_of(start.begin(), start.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte == 0x7f || (byte < 0x20 && byte != '\n' && byte != '\r' && byte != '\t');
  });
}

}  // namespace

const FileKind* kind_of(std::string_view start) {
  static constexpr FileKind onnx{"an ONNX graph", "`comera tensorize` reads such files by the suffix .onnx"};
  static constexpr FileKind json{"JSON text", "name the folder that it lies in"};
  static constexpr FileKind pieces{"a SentencePiece model, which is a tokenizer",
                                   "name the folder that it lies in, or give it to --tokenizer"};
  static constexpr FileKind text{"text", no_model};
  start = start.substr(0, enough);
  for (const Magic& magic : magics)
    if (start.size() >= magic.at && start.substr(magic.at).starts_with(magic.bytes)) return &magic.kind;
  if (is_onnx(start)) return &onnx;
  if (is_sentencepiece(start)) return &pieces;
  if (!is_text(start)) return nullptr;
  const std::size_t first = start.find_first_not_of(" \n\r\t");
  return first != std::string_view::npos && start[first] == '{' ? &json
                                                                // '[' is text: it also begins a vocabulary, with
                                                                // [PAD].
                                                                : &text;
}

const FileKind* kind_of_file(const std::string& path) {
  try {
    return kind_of(MappedFile(path).text());
  } catch (const InputError&) {
    return nullptr;
  }
}

void require_model_folder(std::string_view where, const std::string& path) {
  if (is_folder(path)) return;
  if (!path_exists(path))
    fail_input("{} {}: no such folder; name a model folder or a run folder{}", where, path, hub_hint(path));
  const FileKind* kind = kind_of_file(path);
  if (kind && kind->is_gguf()) return;
  if (kind) fail_input("{} {}: is {}, no folder; {}", where, path, kind->name, kind->advice);
  fail_input("{} {}: is no folder; {}", where, path, folder_instead_of(path));
}

std::string folder_instead_of(const std::string& file) {
  const std::string folder = parent_path(file);
  if (!path_exists(join_path(folder, "config.json"))) return "name a model folder or a run folder";
  return fmt::format("name the folder that it lies in: {}", folder);
}

}  // namespace comera::io
