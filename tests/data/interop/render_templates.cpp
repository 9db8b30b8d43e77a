// Renders the template in a file with each line of stdin (a JSON object of variables): `render_templates TEMPLATE
// TIME`. Writes a JSON object per line: text and generated (pairs of bytes), or error.
#include <iostream>

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/data/template/template.h"
#include "lib/io/json.h"

using namespace comera::data;

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string path = argv[1];
  for (std::string line; std::getline(std::cin, line);) {
    comera::io::Json answer = comera::io::Json::object();
    try {
      const jinja::Template source(comera::read_file(path, 16 << 20), path);
      const auto variables = jinja::Value::of_json(comera::io::parse_json(line, "stdin"));
      const jinja::Rendered rendered = source.render(variables.dict().members, std::stol(argv[2]));
      answer["text"] = rendered.text;
      answer["generated"] = comera::io::Json::array();
      for (const Span& span : rendered.generated) {
        answer["generated"].push_back(span.begin);
        answer["generated"].push_back(span.end);
      }
    } catch (const comera::InputError& error) {
      answer["error"] = error.what();
    }
    std::cout << answer.dump() << "\n";
  }
}
