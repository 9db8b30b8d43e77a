// Chat templates: the part of the language Jinja that templates of models use. Texts equal those of Jinja 3 as
// `transformers` sets it up (sandbox, trim_blocks, lstrip_blocks, loop controls, the tag generation, the filter tojson,
// raise_exception, strftime_now). Work and output are bounded.
//
// Read are: if, for (with `if` and else), set (with blocks, members of namespaces), macro, filter, raw, generation,
// break, continue; all operators of Jinja; the filters and tests of filters.cpp and tests.cpp; the methods of
// methods.cpp. What Jinja has beyond is an error that names it.
#pragma once

#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/data/template/syntax.h"
#include "lib/data/tokenizer/pipeline/aligned_text.h"

namespace comera::data::jinja {

struct Rendered {
  std::string text;
  std::vector<Span> generated;  // bytes within {% generation %}
};

class Template {
 public:
  static constexpr std::size_t largest = std::size_t{1} << 20;

  // `place` begins messages. InputError with the line of what is malformed or not known.
  Template(std::string source, std::string place);

  // InputError with the line that fails: a value of a wrong type, raise_exception(), more steps or longer
  // texts than the limits.
  Rendered render(const Members& variables, std::time_t now, const Limits& limits = {}) const;

  bool marks_generation() const { return marks_generation_; }  // has the tag generation

 private:
  std::string place_;
  std::shared_ptr<const Body> body_;
  bool marks_generation_ = false;
};

}  // namespace comera::data::jinja
