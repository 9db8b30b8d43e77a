#include "lib/data/template/template.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "lib/core/error.h"
#include "lib/io/json.h"

using namespace comera::data;
using Catch::Contains;

namespace {

constexpr std::time_t day = 1721952000;  // 26 July 2024

std::string rendered(const std::string& source, const std::string& variables = "{}", const jinja::Limits& limits = {}) {
  const jinja::Value values = jinja::Value::of_json(comera::io::parse_json(variables, "variables"));
  return jinja::Template(source, "chat").render(values.dict().members, day, limits).text;
}

std::string message_of(const std::string& source, const jinja::Limits& limits = {}) {
  try {
    return "accepted: " + rendered(source, "{}", limits);
  } catch (const comera::InputError& error) {
    return error.what();
  }
}

std::string file_of(const std::string& name) {
  std::ifstream file(std::filesystem::path(TEMPLATES) / name);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

constexpr const char* talk = R"({"messages": [{"role": "system", "content": "Be short."},
    {"role": "user", "content": " Hi\n"}, {"role": "assistant", "content": "Hello!"}, {"role": "user", "content": "?"}],
    "add_generation_prompt": true, "bos_token": "<s>", "eos_token": "</s>"})";

}  // namespace

// The texts come from Jinja 3.1.6 as transformers 5 sets it up; interop/templates_against_pypi.py compares many more.
TEST_CASE("chat templates: texts are those of Jinja for the formats of known models") {
  CHECK(rendered(file_of("chatml.jinja"), talk) ==
        "<|im_start|>system\nBe short.<|im_end|>\n<|im_start|>user\n Hi\n<|im_end|>\n<|im_start|>assistant\n"
        "Hello!<|im_end|>\n<|im_start|>user\n?<|im_end|>\n<|im_start|>assistant\n");
  CHECK(rendered(file_of("llama2.jinja"), talk) ==
        "<s>[INST] <<SYS>>\nBe short.\n<</SYS>>\n\nHi [/INST] Hello! </s><s>[INST] ? [/INST]");
  CHECK(rendered(file_of("llama3.jinja"), talk) ==
        "<s><|start_header_id|>system<|end_header_id|>\n\nToday Date: 26 Jul 2024\n\nBe short.<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
        "Hello!<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n?<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n");
  CHECK_THROWS_WITH(rendered(file_of("gemma.jinja"), talk),
                    Contains("chat: line 1 of the chat template: refuses this conversation: there is no system role"));
}

TEST_CASE("chat templates: white space, loops, scopes, macros") {
  CHECK(rendered("a\n  {% if true %}  \n  b\n  {%- endif %}\n c {#- x -#}  d\n") == "a\n  \n  b cd");
  CHECK(rendered("{% for i in range(5) if i != 2 %}{{ loop.index }}:{{ i }}{{ ',' if not loop.last }}{% endfor %}") ==
        "1:0,2:1,3:3,4:4");
  CHECK(rendered("{% set a = 1 %}{% for i in [1] %}{% set a = 2 %}{% endfor %}{{ a }}") == "1");
  CHECK(rendered("{% set n = namespace(a=1) %}{% for i in [1, 2] %}{% set n.a = n.a + i %}{% endfor %}{{ n.a }}") ==
        "4");
  CHECK(rendered("{% macro m(a, b='x') %}<{{ a }}{{ b }}>{% endmacro %}{{ m(1) }}{{ m(b=2, a='y') }}") == "<1x><y2>");
  CHECK(rendered("{{ {'a': [1, 'é', none, true, 1.0]} | tojson }}|{{ ['a\\n', \"'\"] }}") ==
        "{\"a\": [1, \"é\", null, true, 1.0]}|['a\\n', \"'\"]");
  CHECK(rendered("{{ 'abcdef'[::-2] }}{{ -7 // 2 }}{{ -7 % 3 }}{{ 7 / 2 }}{{ 2 ** 3 ** 2 }}") == "fdb-423.564");
}

TEST_CASE("chat templates: parts of generation are reported in bytes") {
  const jinja::Template source("é{% generation %}ü{% endgeneration %}x{% generation %}{% endgeneration %}", "chat");
  CHECK(source.marks_generation());
  const jinja::Rendered text = source.render({}, day);
  CHECK(text.text == "éüx");
  CHECK(text.generated == std::vector<Span>{{2, 4}, {5, 5}});
  CHECK_FALSE(jinja::Template("{{ 'generation' }}", "chat").marks_generation());
}

TEST_CASE("chat templates: what is not read is named with its line") {
  CHECK_THAT(message_of("\n\n{% include 'x' %}"),
             Contains("chat: line 3 of the chat template: the tag include is not read"));
  CHECK_THAT(message_of("{{ 1 | batch(2) }}"), Contains("line 1") && Contains("the filter 'batch' is not read"));
  CHECK_THAT(message_of("\n{{ 1 is escaped }}"), Contains("line 2") && Contains("the test 'escaped' is not read"));
  CHECK_THAT(message_of("{{ 'a'.zfill(3) }}"), Contains("the method 'zfill' of texts is not read"));
  CHECK_THAT(message_of("{{ [1].append(2) }}"), Contains("the method 'append' of lists is not read"));
  CHECK_THAT(message_of("{{ ''.__class__ }}"), Contains("the attribute '__class__' is not read"));
  CHECK_THAT(message_of("{% for x in y recursive %}{% endfor %}"), Contains("recursive are not read"));
  CHECK_THAT(message_of("{{ f(*x) }}"), Contains("'*' before an argument is not read"));
  CHECK_THAT(message_of("{% if x %}"), Contains("the tag if has no end; close it by {% endif %}"));
  CHECK_THAT(message_of("a\n{{ 'x }}"), Contains("line 2") && Contains("a text has no end"));
  CHECK_THAT(message_of("{{ x.y }}"), Contains("'x' is undefined"));
  CHECK_THAT(message_of("{{ lipsum() }}"), Contains("'lipsum' is undefined"));
  CHECK_THAT(message_of("{{ 'a' + 1 }}"), Contains("'+' has no meaning between values of the types str and int"));
  CHECK_THAT(message_of("\xff"), Contains("byte 0 of the chat template is no UTF-8"));
  CHECK_THAT(message_of(std::string((1 << 20) + 1, 'x')), Contains("at most 1048576 are read"));
}

TEST_CASE("chat templates: work, text and nesting are bounded") {
  const jinja::Limits few{.steps = 100'000, .bytes = 1 << 16};
  const std::string loop = "{% for a in range(99999) %}{% for b in range(99999) %}";
  CHECK_THAT(message_of(loop + "{% endfor %}{% endfor %}", few), Contains("takes more than 100000 steps"));
  CHECK_THAT(message_of("{% for i in range(99999) %}xxxxxxxxxxxxxxxx{% endfor %}", {.bytes = 1 << 20}),
             Contains("text of more than 1 MiB"));
  CHECK_THAT(message_of("{{ 'x' * 99999999999 }}"), Contains("makes a text of more than 32 MiB"));
  CHECK_THAT(message_of("{{ range(999999) }}"), Contains("range has more than 100000 numbers"));
  const std::string doubled =
      "{% set n = namespace(s='x') %}{% for i in range(99) %}{% set n.s = n.s ~ n.s %}{% endfor %}";
  CHECK_THAT(message_of(doubled), Contains("makes a text of more than 32 MiB"));
  const std::string nested = "{% set n = namespace(s=[]) %}{% for i in range(999) %}{% set n.s = [n.s] %}{% endfor %}";
  CHECK_THAT(message_of(nested), Contains("nests values deeper than 100"));
  CHECK_THAT(message_of("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"), Contains("deeper than 200"));
  CHECK_THAT(message_of("{{ " + std::string(5000, '(') + std::string(5000, ')') + " }}"), Contains("deeper than 200"));
  std::string sum = "{{ 1";
  for (int i = 0; i < 5000; ++i) sum += "+1";
  CHECK_THAT(message_of(sum + " }}"), Contains("nests deeper than 400"));
  CHECK_THAT(message_of("{{ 9223372036854775807 + 1 }}"), Contains("larger than 64 bits"));
}
