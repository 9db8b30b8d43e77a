// Conversations as texts, by the chat template of a model.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/data/template/template.h"
#include "lib/data/tokenizer/tokenizer.h"
#include "lib/io/json.h"

namespace comera::data {

struct Conversation {
  std::string text;
  std::vector<Span> answers;  // bytes that the assistant wrote, ascending; what a model learns
  bool whole = false;         // no rule tells the answers, so the whole text is one
};

// Ids of a conversation.
struct ConversationIds {
  Ids ids;
  std::vector<std::uint8_t> answers;  // 1: the token has a byte of an answer
};

class ChatTemplate {
 public:
  // `variables`: bos_token and the like. `place` begins messages. InputError for a malformed template.
  ChatTemplate(std::string source, jinja::Members variables, std::string place);

  // `messages`: an array of objects, as [{"role": "user", "content": "Hello"}]. The text ends where the assistant
  // begins. `now`: what the template takes for the present.
  std::string prompt(const io::Json& messages, std::time_t now) const;

  // The answers are what lies within {% generation %}. A template without that tag has them between the end of the
  // prompt before a message of the assistant and the place where the texts with and without the later messages part;
  // where the text does not begin with that prompt, the whole text counts. The day is always the same, so that runs
  // repeat.
  Conversation conversation(const io::Json& messages) const;

  const std::string& place() const { return place_; }

 private:
  jinja::Rendered render(const jinja::Value& messages, bool asks, std::time_t now) const;
  bool find_answers(const std::vector<jinja::Value>& messages, Conversation& conversation) const;

  std::string place_;
  jinja::Members variables_;
  jinja::Template template_;
};

// The template of a model folder (chat_template.jinja, or chat_template in tokenizer_config.json, the one called
// "default" of several), of the folder of a tokenizer file, or of a GGUF file. InputError if there is none.
std::shared_ptr<const ChatTemplate> load_chat_template(const std::string& model);

// InputError if the tokenizer does not know its special pieces in a text: then it is a SentencePiece model or a
// vocab.txt.
void require_chat_tokenizer(const Tokenizer& tokenizer);
ConversationIds encode_conversation(const Conversation& conversation, const Tokenizer& tokenizer);

// InputError that begins with `place` if this is no array of objects with a role.
io::Json parse_messages(std::string_view json, const std::string& place);
void check_messages(const io::Json& messages, const std::string& place);

}  // namespace comera::data
