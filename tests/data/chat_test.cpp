#include <catch2/catch.hpp>

#include "lib/core/error.h"
#include "lib/data/chat/chat_template.h"
#include "lib/data/loader.h"
#include "lib/data/tokenizer/pipeline/pipeline.h"
#include "lib/data/tokenizer/training/tokenizer_files.h"
#include "tests/data/scratch.h"

using namespace comera::data;
using Catch::Contains;

namespace {

const std::string chatml =
    "{% for m in messages %}{{ '<|im_start|>' ~ m.role ~ '\\n' ~ m.content ~ '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
const std::string marked =
    "{% for m in messages %}{{ m.role }}:{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration "
    "%}"
    "{% else %}{{ m.content }}{% endif %};{% endfor %}";

comera::io::Json messages(const std::string& json) { return parse_messages(json, "test"); }
const std::string talk =
    R"([{"role": "user", "content": "hé"}, {"role": "assistant", "content": "yo"}, {"role": "user", "content": "x"},
        {"role": "assistant", "content": "done"}])";

std::vector<std::string> answers(const Conversation& conversation) {
  std::vector<std::string> parts;
  for (const Span& span : conversation.answers) parts.push_back(conversation.text.substr(span.begin, span.size()));
  return parts;
}

// A byte-level BPE without merges: one token per byte, plus the pieces of ChatML.
std::string byte_tokenizer() {
  TrainTokenizerOptions options;
  options.vocab_size = 260;
  options.frame = TextFrame::decoder;
  std::string json = train_bpe([](const TakeText& take) { take("a"); }, options);
  const std::string added = R"("added_tokens": [)";
  std::string more;
  for (const auto& [id, piece] : {std::pair(260, "<|im_start|>"), std::pair(261, "<|im_end|>")})
    more += fmt::format(R"({{"id": {}, "content": "{}", "single_word": false, "lstrip": false, "rstrip": false, )"
                        R"("normalized": false, "special": true}}, )",
                        id, piece);
  return json.insert(json.find(added) + added.size(), more);
}

}  // namespace

TEST_CASE("chat: answers are what the template marks, or what it adds behind its prompts") {
  const Conversation by_mark = ChatTemplate(marked, {}, "x").conversation(messages(talk));
  CHECK(by_mark.text == "user:hé;assistant:yo;user:x;assistant:done;");
  CHECK(answers(by_mark) == std::vector<std::string>{"yo", "done"});
  const Conversation by_prompt = ChatTemplate(chatml, {}, "x").conversation(messages(talk));
  CHECK(answers(by_prompt) == std::vector<std::string>{"yo<|im_end|>\n", "done<|im_end|>\n"});
  CHECK_FALSE(by_prompt.whole);
  // Here the text of a conversation does not begin with the prompts before its answers.
  const Conversation whole =
      ChatTemplate("{{ messages | length }}{{ messages[-1].content }}", {}, "x").conversation(messages(talk));
  CHECK(whole.whole);
  CHECK(answers(whole) == std::vector<std::string>{"4done"});
}

TEST_CASE("chat: templates are found in the files of a model") {
  const Scratch scratch;
  CHECK_THROWS_WITH(load_chat_template(scratch.path(".")), Contains("has no chat template"));
  scratch.write("tokenizer_config.json",
                R"({"chat_template": [{"name": "tools", "template": "t"}], "bos_token": "<s>"})");
  CHECK_THROWS_WITH(load_chat_template(scratch.path(".")),
                    Contains("none of its chat templates is called default; it has tools"));
  scratch.write("tokenizer_config.json", R"({"chat_template": [{"name": "tools", "template": "t"}, {"name": "default",
      "template": "{{ bos_token }}{{ eos_token }}{{ messages[0].content }}"}], "bos_token": {"content": "<s>"}})");
  scratch.write("special_tokens_map.json", R"({"bos_token": "<no>", "eos_token": "</s>"})");
  CHECK(load_chat_template(scratch.path("."))->prompt(messages(talk), 0) == "<s></s>hé");
  scratch.write("chat_template.jinja", "{{ bos_token }}!");
  CHECK(load_chat_template(scratch.path("tokenizer.json"))->prompt(messages(talk), 0) == "<s>!");
  scratch.write("chat_template.jinja", "\n{% if %}");
  CHECK_THROWS_WITH(load_chat_template(scratch.path(".")), Contains("line 2 of the chat template: expected a value"));
}

TEST_CASE("chat: a conversation that is none is refused") {
  CHECK_THROWS_WITH(messages("[]"), Contains("test: a conversation is a list of objects with role and content"));
  CHECK_THROWS_WITH(messages("{}"), Contains("a conversation is a list"));
  CHECK_THROWS_WITH(messages("[1]"), Contains("a message is no object with a role"));
  CHECK_THROWS_WITH(messages(R"([{"role": 1}])"), Contains("a message is no object with a role"));
  const Conversation conversation = ChatTemplate(chatml, {}, "x").conversation(messages(talk));
  CHECK_THROWS_WITH(encode_conversation(conversation, *letters()), Contains("use a model with a tokenizer.json"));
}

TEST_CASE("chat: decoders learn the answers of conversations, and nothing else") {
  const Scratch scratch;
  const auto tokenizer = std::make_shared<Pipeline>(PipelineFiles{.tokenizer = byte_tokenizer()}, "bytes");
  const std::string rows =
      R"({"messages": [{"role": "user", "content": "ab"}, {"role": "assistant", "content": "cd"}]})"
      "\n"
      R"({"messages": [{"role": "user", "content": "e"}, {"role": "assistant", "content": "f"}]})"
      "\n";
  DataSpec spec;
  spec.files = {scratch.write("talks.jsonl", rows)};
  spec.task = Task::clm;
  spec.max_length = 16;  // the first conversation goes on in a second sequence
  spec.chat = std::make_shared<const ChatTemplate>(chatml, jinja::Members{}, "chat");
  const auto data = Dataset::open(spec, tokenizer);
  const auto loader = Loader::open(data, {.batch = 8, .shuffle = false});
  Batch batch;
  REQUIRE(loader->next(batch));
  const auto ids = batch["input_ids"].as<std::int32_t>();
  const auto targets = batch["targets"].as<std::int32_t>();
  const auto lengths = batch["lengths"].as<std::int32_t>();
  std::string all, learned;
  for (std::int64_t row = 0; row < batch.sequences; ++row)
    for (std::int32_t t = 0; t < lengths[static_cast<std::size_t>(row)]; ++t) {
      const auto at = static_cast<std::size_t>(row * batch.length + t);
      all += tokenizer->decode({ids[at]}, true);
      if (targets[at] >= 0) learned += tokenizer->decode({targets[at]}, true);
    }
  CHECK(all ==
        "<|im_start|>user\nab<|im_end|>\n<|im_start|>assistant\ncd<|im_end|>\n"
        "<|im_start|>user\ne<|im_end|>\n<|im_start|>assistant\nf<|im_end|>\n");
  CHECK(learned == "cd<|im_end|>\nf<|im_end|>\n");
  CHECK(batch.counted == 2 + 2 + 1 + 2);
}

TEST_CASE("chat: rows that are no conversations are refused with their line") {
  const Scratch scratch;
  DataSpec spec;
  spec.task = Task::clm;
  spec.max_length = 16;
  spec.chat = std::make_shared<const ChatTemplate>(chatml, jinja::Members{}, "chat");
  const auto tokenizer = std::make_shared<Pipeline>(PipelineFiles{.tokenizer = byte_tokenizer()}, "bytes");
  const auto message = [&](const std::string& name, const std::string& text) -> std::string {
    spec.files = {scratch.write(name, text)};
    try {
      Batch batch;
      Loader::open(Dataset::open(spec, tokenizer), {.batch = 8, .shuffle = false})->next(batch);
    } catch (const comera::InputError& error) {
      return error.what();
    }
    return "accepted";
  };
  CHECK_THAT(message("a.jsonl", "{\"text\": 1}\n"), Contains("a.jsonl: line 1: has no list 'messages'"));
  CHECK_THAT(message("b.jsonl", "{\"messages\": \"x\"}\n"), Contains("has no list 'messages'"));
  CHECK_THAT(message("c.jsonl", "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}\n{\"messages\": [2]}\n"),
             Contains("c.jsonl: line 2: a message is no object with a role"));
  CHECK_THAT(message("d.txt", "hello\n"), Contains("conversations are read from .jsonl files"));
  spec.task = Task::mlm;
  CHECK_THAT(message("a.jsonl", "{}\n"), Contains("--chat is for decoders"));
}
