#include "lib/data/tokenizer/pipeline/frame.h"

#include <limits>

#include "lib/core/terminal/log.h"

namespace comera::data {
namespace {

using Ids = std::vector<std::int32_t>;

std::int32_t id_of(const JsonNode& node) {
  const std::int64_t id = node.integer();
  if (id < 0 || id > std::numeric_limits<std::int32_t>::max()) node.fail("{} is no id", id);
  return static_cast<std::int32_t>(id);
}

// ["piece", id]
std::int32_t id_of_pair(const JsonNode& node) {
  if (!node.json().is_array() || node.json().size() != 2) node.fail("must be a piece and its id");
  return id_of(JsonNode(node.json()[1], node.place()));
}

// Ids between the texts of a template: before A, behind A (before B), behind B.
struct Pieces {
  std::vector<Ids> gaps = {{}};
  std::vector<std::string> texts;
  std::int64_t last_type = 0;
};

Pieces read_pieces(const JsonNode& list, const JsonNode& special_tokens) {
  Pieces pieces;
  list.for_each_item([&](const JsonNode& item) {
    if (const auto text = item.find("Sequence")) {
      pieces.texts.push_back(text->at("id").text());
      pieces.last_type = text->integer_or("type_id", 0);
      pieces.gaps.emplace_back();
      return;
    }
    const std::string name = item.at("SpecialToken").at("id").text();
    special_tokens.at(name.c_str()).at("ids").for_each_item([&](const JsonNode& id) {
      pieces.gaps.back().push_back(id_of(id));
    });
  });
  return pieces;
}

Frame read_template(const JsonNode& node) {
  const JsonNode tokens(node.find("special_tokens") ? node.at("special_tokens") : node);
  const Pieces one = read_pieces(node.at("single"), tokens), two = read_pieces(node.at("pair"), tokens);
  if (one.texts != std::vector<std::string>{"A"}) node.at("single").fail("must hold the text A once");
  Frame frame{.before = one.gaps[0], .after = one.gaps[1]};
  if (two.texts == std::vector<std::string>{"A", "B"} && two.gaps[0] == frame.before && two.gaps[2] == frame.after) {
    frame.between = two.gaps[1];
    frame.second_type = two.last_type != 0;
  }
  return frame;
}

// Joins what two processors of a sequence do. One frame at most is not empty.
void join(Frame& all, const Frame& one, const JsonNode& node) {
  all.trims_offsets = all.trims_offsets || one.trims_offsets;
  all.adds_blank = all.adds_blank || one.adds_blank;
  if (one.before.empty() && one.after.empty()) return;
  if (!all.before.empty() || !all.after.empty()) node.fail("two processors of the sequence add special pieces");
  all.before = one.before;
  all.after = one.after;
  all.between = one.between;
  all.second_type = one.second_type;
}

}  // namespace

Frame read_frame(const JsonNode& node) {
  const std::string type = node.type();
  if (type == "TemplateProcessing") return read_template(node);
  if (type == "ByteLevel")
    return {.between = Ids{},
            .trims_offsets = node.flag_or("trim_offsets", true),
            .adds_blank = node.flag_or("add_prefix_space", true)};
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    const std::int32_t cls = id_of_pair(node.at("cls")), sep = id_of_pair(node.at("sep"));
    const bool roberta = type == "RobertaProcessing";
    return {.before = {cls},
            .after = {sep},
            .between = roberta ? Ids{sep, sep} : Ids{sep},
            .second_type = !roberta,
            .trims_offsets = roberta && node.flag_or("trim_offsets", true),
            .adds_blank = roberta && node.flag_or("add_prefix_space", true)};
  }
  if (type == "Sequence") {
    Frame frame{.between = Ids{}};
    node.at("processors").for_each_item([&](const JsonNode& item) { join(frame, read_frame(item), item); });
    return frame;
  }
  node.fail_unknown_type("post-processor",
                         "TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel, Sequence");
}

}  // namespace comera::data
