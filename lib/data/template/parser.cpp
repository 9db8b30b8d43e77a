// Statements of the template language, declared in syntax.h.
#include <algorithm>

#include "lib/data/template/expression_parser.h"
#include "lib/data/template/syntax.h"

namespace comera::data::jinja {
namespace {

using Names = std::initializer_list<std::string_view>;

class Parser : public ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  Body whole() {
    Body all = body({}, "", 0);
    return all;
  }

 private:
  // Statements up to a tag with one of the names, which stays. `of`: the tag that needs it.
  Body body(Names ends, const char* of, int line) {
    const Level level(nesting_);
    Body statements;
    for (;;) {
      if (now().kind == TokenKind::end) {
        if (ends.size() == 0) return statements;
        fail_syntax(line, "the tag {} has no end; close it by {{% {} %}}", of, *std::prev(ends.end()));
      }
      if (now().kind == TokenKind::block_begin &&
          std::find(ends.begin(), ends.end(), std::string_view(ahead().text)) != ends.end()) {
        take();
        return statements;
      }
      statements.push_back(statement());
    }
  }

  StatementPtr make(StatementKind kind, int line) const {
    auto made = std::make_unique<Statement>();
    made->kind = kind;
    made->line = line;
    return made;
  }

  void end_block() {
    if (now().kind != TokenKind::block_end) fail_here("%}");
    take();
  }

  StatementPtr statement() {
    const Token token = take();
    if (token.kind == TokenKind::data) {
      StatementPtr made = make(StatementKind::data, token.line);
      made->word = token.text;
      return made;
    }
    if (token.kind == TokenKind::output_begin) {
      StatementPtr made = make(StatementKind::output, token.line);
      made->value = tuple(true);
      if (now().kind != TokenKind::output_end) fail_here("}}");
      take();
      return made;
    }
    return tag();
  }

  StatementPtr tag() {
    const int line = now().line;
    const std::string name = require_name("the name of a tag");
    if (name == "if") return if_tag(line);
    if (name == "for") return for_tag(line);
    if (name == "set") return set_tag(line);
    if (name == "macro") return macro_tag(line);
    if (name == "generation") return generation_tag(line);
    if (name == "filter") return filter_tag(line);
    if (name == "break" || name == "continue") {
      if (loops_ == 0) fail_syntax(line, "the tag {} stands outside of a loop", name);
      end_block();
      return make(name == "break" ? StatementKind::break_ : StatementKind::continue_, line);
    }
    fail_syntax(line, "the tag {} is not read; known are if, for, set, macro, filter, raw, generation, break, continue",
                name);
  }

  StatementPtr if_tag(int line) {
    StatementPtr made = make(StatementKind::if_, line);
    for (;;) {
      Branch branch{.condition = tuple(false), .body = {}};
      end_block();
      branch.body = body({"elif", "else", "endif"}, "if", line);
      made->branches.push_back(std::move(branch));
      const std::string end = take().text;
      if (end == "elif") continue;
      end_block();
      if (end == "endif") return made;
      made->otherwise = body({"endif"}, "if", line);
      take();
      end_block();
      return made;
    }
  }

  std::vector<std::string> targets() {
    const bool bracket = take_sign("(");
    std::vector<std::string> names{target_name()};
    while (take_sign(",")) names.push_back(target_name());
    if (bracket) require_sign(")");
    return names;
  }

  std::string target_name() {
    const int line = now().line;
    std::string name = require_name("a name");
    for (const char* fixed : {"true", "false", "none", "True", "False", "None", "loop"})
      if (name == fixed) fail_syntax(line, "the name {} cannot be set", name);
    return name;
  }

  StatementPtr for_tag(int line) {
    StatementPtr made = make(StatementKind::for_, line);
    made->names = targets();
    if (!take_name("in")) fail_here("'in'");
    made->value = tuple(false);
    if (take_name("if")) made->condition = expression();
    if (at_name("recursive")) fail_syntax(line, "loops that are recursive are not read");
    end_block();
    ++loops_;
    made->body = body({"else", "endfor"}, "for", line);
    --loops_;
    if (take().text == "else") {
      end_block();
      made->otherwise = body({"endfor"}, "for", line);
      take();
    }
    end_block();
    return made;
  }

  StatementPtr set_tag(int line) {
    StatementPtr made = make(StatementKind::set, line);
    if (ahead().kind == TokenKind::sign && ahead().text == ".") {
      made->names.push_back(target_name());
      take();
      made->word = require_name("the name of a member");
    } else {
      made->names = targets();
    }
    if (take_sign("=")) {
      made->value = tuple(true);
      end_block();
      return made;
    }
    if (made->names.size() != 1) fail_here("'='");
    if (take_sign("|")) made->value = filters(nullptr);
    end_block();
    made->body = inner_body("endset", "set", line);
    return made;
  }

  // The body of a tag that a loop outside of it does not reach into.
  Body inner_body(std::string_view end, const char* of, int line) {
    const int loops = std::exchange(loops_, 0);
    Body made = body({end}, of, line);
    loops_ = loops;
    take();
    end_block();
    return made;
  }

  StatementPtr macro_tag(int line) {
    StatementPtr made = make(StatementKind::macro, line);
    made->word = target_name();
    require_sign("(");
    while (!take_sign(")")) {
      if (!made->names.empty()) require_sign(",");
      made->names.push_back(target_name());
      if (take_sign("="))
        made->defaults.push_back(expression());
      else if (!made->defaults.empty())
        fail_here("a default, because an argument before has one");
    }
    end_block();
    made->body = inner_body("endmacro", "macro", line);
    return made;
  }

  StatementPtr generation_tag(int line) {
    StatementPtr made = make(StatementKind::generation, line);
    end_block();
    made->body = inner_body("endgeneration", "generation", line);
    return made;
  }

  StatementPtr filter_tag(int line) {
    StatementPtr made = make(StatementKind::filter, line);
    made->value = filters(nullptr);
    end_block();
    made->body = inner_body("endfilter", "filter", line);
    return made;
  }

  int loops_ = 0;
};

}  // namespace

Body parse_template(std::string_view source) { return Parser(cut_template(source)).whole(); }

}  // namespace comera::data::jinja
