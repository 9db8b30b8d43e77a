#include "lib/data/tokenizer/pipeline/json_node.h"

#include "lib/core/terminal/log.h"

namespace comera::data {

JsonNode JsonNode::at(const char* key) const {
  const auto found = find(key);
  if (!found) fail("\"{}\" is missing", key);
  return *found;
}

std::optional<JsonNode> JsonNode::find(const char* key) const {
  if (!json_->is_object()) fail("must be an object, is {}", json_->type_name());
  const auto found = json_->find(key);
  if (found == json_->end() || found->is_null()) return std::nullopt;
  return JsonNode(*found, fmt::format("{}.{}", place_, key));
}

void JsonNode::for_each_item(const std::function<void(const JsonNode&)>& visit) const {
  if (!json_->is_array()) fail("must be a list, is {}", json_->type_name());
  std::size_t index = 0;
  for (const io::Json& item : *json_) visit(JsonNode(item, fmt::format("{}[{}]", place_, index++)));
}

std::string JsonNode::text() const {
  if (!json_->is_string()) fail("must be a text, is {}", json_->type_name());
  return json_->get<std::string>();
}

bool JsonNode::flag() const {
  if (!json_->is_boolean()) fail("must be true or false, is {}", json_->type_name());
  return json_->get<bool>();
}

std::int64_t JsonNode::integer() const {
  if (!json_->is_number_integer()) fail("must be an integer, is {}", json_->type_name());
  return json_->get<std::int64_t>();
}

std::string JsonNode::text_or(const char* key, const std::string& otherwise) const {
  const auto found = find(key);
  return found ? found->text() : otherwise;
}

bool JsonNode::flag_or(const char* key, bool otherwise) const {
  const auto found = find(key);
  return found ? found->flag() : otherwise;
}

std::int64_t JsonNode::integer_or(const char* key, std::int64_t otherwise) const {
  const auto found = find(key);
  return found ? found->integer() : otherwise;
}

void JsonNode::fail_unknown_type(const char* what, const char* known) const {
  fail("the {} \"{}\" is not known; known are {}", what, printable(type()), known);
}

}  // namespace comera::data
