#include "lib/data/chat/chat_template.h"

#include <algorithm>
#include <filesystem>

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/data/template/operations.h"
#include "lib/data/tokenizer/pipeline/pipeline.h"
#include "lib/io/gguf/gguf_tokenizer.h"
#include "lib/io/json_file.h"
#include "lib/io/modules.h"

namespace comera::data {
namespace {

namespace fs = std::filesystem;
using jinja::Value;

constexpr const char* special_names[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                         "pad_token", "cls_token", "mask_token"};
constexpr std::time_t day_of_training = 1721952000;  // 26 July 2024

// A piece is a text, or an object with its content.
std::string content_of(const io::Json& piece) {
  if (piece.is_string()) return piece.get<std::string>();
  const auto content = piece.find("content");
  return piece.is_object() && content != piece.end() && content->is_string() ? content->get<std::string>() : "";
}

void add_specials(const io::Json& json, jinja::Members& variables) {
  if (!json.is_object()) return;
  for (const char* name : special_names) {
    const auto found = json.find(name);
    if (found == json.end()) continue;
    const bool known =
        std::any_of(variables.begin(), variables.end(), [&](const auto& one) { return one.first == name; });
    if (const std::string content = content_of(*found); !content.empty() && !known)
      variables.emplace_back(name, content);
  }
}

// chat_template is a text, or a list of {"name": ..., "template": ...}.
std::string template_of(const io::Json& config, const std::string& place) {
  const auto found = config.is_object() ? config.find("chat_template") : config.end();
  if (found == config.end() || found->is_null()) return "";
  if (found->is_string()) return found->get<std::string>();
  if (!found->is_array()) fail_input("{}: \"chat_template\" must be a text or a list", place);
  std::string names;
  for (const io::Json& one : *found) {
    const std::string name = one.is_object() ? one.value("name", "") : "";
    if (name == "default") return one.value("template", "");
    names += (names.empty() ? "" : ", ") + name;
  }
  fail_input("{}: none of its chat templates is called default; it has {}", place, names);
}

std::shared_ptr<const ChatTemplate> made(std::string source, jinja::Members variables, const std::string& place) {
  if (source.empty())
    fail_input(
        "{}: has no chat template; conversations need chat_template.jinja, or chat_template in "
        "tokenizer_config.json",
        place);
  return std::make_shared<const ChatTemplate>(std::move(source), std::move(variables), place);
}

std::size_t common_start(std::string_view a, std::string_view b) {
  const auto end = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first;
  std::size_t size = static_cast<std::size_t>(end - a.begin());
  while (size > 0 && size < a.size() && (static_cast<unsigned char>(a[size]) & 0xC0) == 0x80) --size;
  return size;
}

}  // namespace

ChatTemplate::ChatTemplate(std::string source, jinja::Members variables, std::string place)
    : place_(std::move(place)), variables_(std::move(variables)), template_(std::move(source), place_) {}

jinja::Rendered ChatTemplate::render(const Value& messages, bool asks, std::time_t now) const {
  jinja::Members variables = variables_;
  variables.emplace_back("messages", messages);
  variables.emplace_back("tools", nullptr);
  variables.emplace_back("documents", nullptr);
  variables.emplace_back("add_generation_prompt", asks);
  return template_.render(variables, now);
}

std::string ChatTemplate::prompt(const io::Json& messages, std::time_t now) const {
  return render(Value::of_json(messages), true, now).text;
}

Conversation ChatTemplate::conversation(const io::Json& messages) const {
  const Value values = Value::of_json(messages);
  jinja::Rendered rendered = render(values, false, day_of_training);
  Conversation conversation{.text = std::move(rendered.text), .answers = std::move(rendered.generated)};
  if (template_.marks_generation()) return conversation;
  conversation.whole = !find_answers(values.list().items, conversation);
  if (conversation.whole) conversation.answers = {{0, conversation.text.size()}};
  return conversation;
}

bool ChatTemplate::find_answers(const std::vector<Value>& messages, Conversation& conversation) const try {
  jinja::Meter meter;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (jinja::text_of(jinja::member_of(messages[i], "role", meter), meter) != "assistant") continue;
    const auto first = messages.begin();
    const auto before = Value::list({first, first + static_cast<std::ptrdiff_t>(i)});
    const auto with = Value::list({first, first + static_cast<std::ptrdiff_t>(i) + 1});
    const std::string prompt = render(before, true, day_of_training).text;
    const std::string text = render(with, false, day_of_training).text;
    const Span answer{prompt.size(), common_start(text, conversation.text)};
    if (!conversation.text.starts_with(prompt) || answer.end < answer.begin) return false;
    conversation.answers.push_back(answer);
  }
  return !conversation.answers.empty();
} catch (const InputError&) {  // the template refuses a part of the conversation
  return false;
}

std::shared_ptr<const ChatTemplate> load_chat_template(const std::string& model) {
  jinja::Members variables;
  if (io::is_gguf_file(model)) {
    const io::Json config = io::parse_json(io::gguf_tokenizer_files(io::GgufFile(model)).config, model);
    add_specials(config, variables);
    return made(template_of(config, model), std::move(variables), model);
  }
  const std::string place = is_folder(model) ? io::transformer_place(model) : "";
  const fs::path folder = is_folder(model) ? fs::path(model) / place : fs::path(model).parent_path();
  std::string source;
  if (const fs::path path = folder / "chat_template.jinja"; fs::exists(path))
    source = read_file(path.string(), jinja::Template::largest);
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const fs::path path = folder / name;
    if (!fs::exists(path)) continue;
    const io::Json config = io::read_json(path.string(), io::largest_tokenizer_config);
    if (source.empty()) source = template_of(config, path.string());
    add_specials(config, variables);
  }
  return made(std::move(source), std::move(variables), model);
}

void require_chat_tokenizer(const Tokenizer& tokenizer) {
  if (!dynamic_cast<const Pipeline*>(&tokenizer))
    fail_input(
        "[tokenizer] {}: does not find its special pieces in a text, which conversations need; use a model "
        "with a tokenizer.json",
        tokenizer.source());
}

ConversationIds encode_conversation(const Conversation& conversation, const Tokenizer& tokenizer) {
  require_chat_tokenizer(tokenizer);
  ConversationIds made;
  std::vector<Span> places;
  dynamic_cast<const Pipeline&>(tokenizer).encode(conversation.text, made.ids, places);
  auto answer = conversation.answers.begin();
  for (const Span& place : places) {
    while (answer != conversation.answers.end() && answer->end <= place.begin) ++answer;
    made.answers.push_back(answer != conversation.answers.end() && place.end > answer->begin);
  }
  return made;
}

void check_messages(const io::Json& messages, const std::string& place) {
  if (!messages.is_array() || messages.empty())
    fail_input("{}: a conversation is a list of objects with role and content", place);
  for (const io::Json& message : messages) {
    const auto role = message.find("role");
    if (!message.is_object() || role == message.end() || !role->is_string())
      fail_input("{}: a message is no object with a role, as {{\"role\": \"user\", \"content\": \"Hello\"}}", place);
  }
}

io::Json parse_messages(std::string_view json, const std::string& place) {
  io::Json messages = io::parse_json(json, place);
  check_messages(messages, place);
  return messages;
}

}  // namespace comera::data
