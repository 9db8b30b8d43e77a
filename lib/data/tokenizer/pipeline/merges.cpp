// gpt2's vocab.json and merges.txt as a tokenizer.json.
#include <algorithm>

#include "lib/core/files/file.h"
#include "lib/data/tokenizer/pipeline/pipeline.h"

namespace comera::data {
namespace {

io::Json byte_level(bool trims) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", trims}, {"use_regex", true}};
}

io::Json added_token(const std::string& content, std::int64_t id, bool takes_blanks) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", takes_blanks},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

io::Json read_merges(const std::string& path) {
  const std::string text = read_file(path, largest_vocabulary);
  io::Json merges = io::Json::array();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    if (line.ends_with('\r')) line.pop_back();
    const bool comment = at == 0 && line.starts_with("#version");
    if (!line.empty() && !comment) merges.push_back(std::move(line));
    at = end + 1;
  }
  return merges;
}

}  // namespace

std::string tokenizer_json_of_merges(const std::string& vocab_path, const std::string& merges_path) {
  const io::Json vocabulary = io::parse_json(read_file(vocab_path, largest_vocabulary), vocab_path);
  const Vocabulary pieces = Vocabulary::of_object(JsonNode(vocabulary, "[tokenizer] " + vocab_path));
  io::Json added = io::Json::array();
  for (const char* name : {"<s>", "<pad>", "</s>", "<unk>", "<mask>", "<|endoftext|>"})
    if (const std::int32_t id = pieces.find(name); id >= 0)
      added.push_back(added_token(name, id, std::string_view(name) == "<mask>"));
  const std::int32_t begin = pieces.find("<s>"), end = pieces.find("</s>");
  const bool roberta = begin >= 0 && end >= 0;
  const io::Json frame = roberta ? io::Json{{"type", "RobertaProcessing"},
                                            {"sep", {"</s>", end}},
                                            {"cls", {"<s>", begin}},
                                            {"trim_offsets", true},
                                            {"add_prefix_space", false}}
                                 : byte_level(false);
  io::Json model{{"type", "BPE"}};
  if (roberta && pieces.find("<unk>") >= 0) model["unk_token"] = "<unk>";
  model["vocab"] = vocabulary;
  model["merges"] = read_merges(merges_path);
  return io::Json{{"version", "1.0"},        {"added_tokens", added},
                  {"normalizer", nullptr},   {"pre_tokenizer", byte_level(true)},
                  {"post_processor", frame}, {"decoder", byte_level(true)},
                  {"model", model}}
      .dump();
}

}  // namespace comera::data
