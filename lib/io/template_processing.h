// The post-processor of a tokenizer.json that puts special pieces around texts (TemplateProcessing of the library
// `tokenizers`).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lib/io/json.h"

namespace comera::io {

struct FramePiece {
  std::string text;
  std::int64_t id = 0;
};

// One text: begin A end. Two: begin A end B end, with type 1 for B and its end.
Json template_processing(const FramePiece& begin, const std::optional<FramePiece>& end = std::nullopt);

}  // namespace comera::io
