#include "models/sentence.h"

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/core/terminal/log.h"
#include "lib/io/json.h"
#include "lib/io/modules.h"

namespace comera::models {
namespace {

using io::Json;

constexpr std::uint64_t largest_file = 1 << 20;

Json read_json(const std::string& path) { return io::parse_json(read_file(path, largest_file), path); }

std::string text_of(const Json& json, const char* key) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  return json.is_object() && found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

// Older files have one flag per pooling mode; newer ones have the name of the mode.
kernels::Pooling pooling_of(const std::string& path) {
  const Json config = read_json(path);
  if (!config.is_object()) fail_input("{}: is not a JSON object; it must say how tokens are pooled", path);
  std::string found = text_of(config, "pooling_mode");
  for (const auto& [key, value] : config.items())
    if (key.starts_with("pooling_mode_") && value.is_boolean() && value.get<bool>())
      found += (found.empty() ? "" : " and ") + key.substr(std::string_view("pooling_mode_").size());
  if (found == "mean_tokens" || found == "mean") return kernels::Pooling::mean;
  if (found == "cls_token" || found == "cls") return kernels::Pooling::first;
  fail_input("{}: pooling by '{}' is not supported; mean_tokens and cls_token are", path, printable(found));
}

std::int64_t sentence_length(const std::string& folder) {
  const std::string path = join_path(folder, "sentence_bert_config.json");
  if (!path_exists(path)) return 0;
  const Json config = read_json(path);
  const auto found = config.is_object() ? config.find("max_seq_length") : config.end();
  const bool said = config.is_object() && found != config.end() && !found->is_null();
  if (said && (!found->is_number_integer() || *found < 1 || *found > 1 << 20))
    fail_input("{}: max_seq_length is {}; it must be a number of tokens", path, printable(found->dump()));
  return said ? found->get<std::int64_t>() : 0;
}

constexpr const char* prompts_file = "config_sentence_transformers.json";

struct Prompt {
  std::string name, text;
};

Prompt prompt_of(const std::string& folder) {
  const std::string path = join_path(folder, prompts_file);
  if (!path_exists(path)) return {};
  const Json config = read_json(path);
  Prompt prompt{.name = text_of(config, "default_prompt_name"), .text = {}};
  if (prompt.name.empty()) return {};
  const auto prompts = config.find("prompts");
  if (prompts == config.end() || !prompts->is_object() || !prompts->contains(prompt.name))
    fail_input("{}: default_prompt_name is '{}', and prompts has no such text; name one of them, or null", path,
               printable(prompt.name));
  prompt.text = text_of(*prompts, prompt.name.c_str());
  return prompt;
}

// Some models leave the tokens of the prompt out of the mean.
void require_whole_pooling(const std::string& folder) {
  for (const io::Module& module : io::read_modules(folder)) {
    if (module.kind() != "Pooling") continue;
    const std::string path = join_path(io::module_folder(folder, module), "config.json");
    const Json config = read_json(path);
    const auto found = config.find("include_prompt");
    if (found != config.end() && found->is_boolean() && !found->get<bool>())
      fail_input("{}: include_prompt is false, and {} has a prompt; only pooling with its tokens is supported", path,
                 prompts_file);
  }
}

void follow_module(const std::string& folder, const io::Module& module, SentenceRules& rules) {
  const std::string kind = module.kind();
  if (kind == "Transformer") {
    rules.max_length = sentence_length(io::module_folder(folder, module));
  } else if (kind == "Pooling") {
    rules.pooling = pooling_of(join_path(io::module_folder(folder, module), "config.json"));
  } else if (kind == "Normalize") {
    rules.normalise = true;
  } else {
    fail_input("{}: module '{}' is not supported; Transformer, Pooling and Normalize are",
               join_path(folder, "modules.json"), printable(module.type));
  }
}

}  // namespace

SentenceRules read_sentence_rules(const std::string& folder) {
  SentenceRules rules;
  rules.max_length = sentence_length(folder);
  for (const io::Module& module : io::read_modules(folder)) follow_module(folder, module, rules);
  return rules;
}

std::string default_prompt(const std::string& folder) {
  Prompt prompt = prompt_of(folder);
  if (!prompt.text.empty()) require_whole_pooling(folder);
  return std::move(prompt.text);
}

void require_no_prompt(const std::string& folder, const std::string& verb) {
  const Prompt prompt = prompt_of(folder);
  if (prompt.text.empty()) return;
  fail_input(
      "[{}] {}: default_prompt_name '{}' puts '{}' before every text, which is not done here; in a copy of the folder, "
      "set it to null and write the prompt into the texts that need it",
      verb, join_path(folder, prompts_file), printable(prompt.name), printable(prompt.text));
}

}  // namespace comera::models
