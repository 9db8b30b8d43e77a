// Reads any bytes as a chat template and renders a conversation with it. Either an error with a message, or a text
// within the bound with parts of the assistant inside it.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "lib/core/error.h"
#include "lib/data/template/template.h"
#include "lib/data/tokenizer/unicode.h"
#include "lib/io/json.h"

using namespace comera;

namespace {

constexpr const char* variables =
    R"({"messages": [{"role": "system", "content": "Be \u00e9"}, {"role": "user", "content": " Hello\n"},
        {"role": "assistant", "content": "Hi", "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1.5}}}]},
        {"role": "tool", "content": [{"type": "text", "text": "42"}, null, true]}],
        "tools": [{"type": "function"}], "documents": null, "add_generation_prompt": true, "bos_token": "<s>",
        "eos_token": "</s>"})";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const data::jinja::Value given = data::jinja::Value::of_json(io::parse_json(variables, "variables"));
  constexpr data::jinja::Limits limits{.steps = 100'000, .bytes = std::size_t{1} << 20};
  try {
    const data::jinja::Template source(std::string(reinterpret_cast<const char*>(data), size), "input");
    const data::jinja::Rendered rendered = source.render(given.dict().members, 1721952000, limits);
    if (rendered.text.size() > limits.bytes) std::abort();
    if (data::find_invalid_utf8(rendered.text) != std::string::npos) std::abort();
    for (std::size_t end = 0; const data::Span& span : rendered.generated) {
      if (span.begin < end || span.end < span.begin || span.end > rendered.text.size()) std::abort();
      end = span.end;
    }
  } catch (const InputError&) {
  }
  return 0;
}
