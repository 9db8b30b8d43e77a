// Post-processors of tokenizer.json: the special pieces around texts.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lib/data/tokenizer/pipeline/added_tokens.h"
#include "lib/data/tokenizer/pipeline/json_node.h"

namespace comera::data {

// One text is framed as `before` A `after`, two as `before` A `between` B `after`.
struct Frame {
  std::vector<std::int32_t> before = {}, after = {};
  std::optional<std::vector<std::int32_t>> between = {};  // none: pairs are framed in another way
  bool second_type = false;                               // the second text has token type 1
  bool trims_offsets = false;                             // offsets leave out white space
  bool adds_blank = false;                                // offsets: the first token may have got a blank
};

// TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel, Sequence. Another type is an InputError that names
// it.
Frame read_frame(const JsonNode& node);

}  // namespace comera::data
