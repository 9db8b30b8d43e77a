#include "tools/choices.h"

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/core/terminal/log.h"
#include "lib/report/output/fit.h"
#include "lib/report/run/choice.h"
#include "tools/generation.h"
#include "tools/program.h"

namespace comera::tools {

int evaluate_choices(const OptionValues& values, StoredModel& stored) {
  const auto* decoder = std::get_if<models::DecoderSpec>(&stored.spec);
  if (!decoder)
    fail_input(
        "[evaluate] --task choice: {} is {}; choices are compared by the probability that a decoder gives their "
        "text",
        stored.folder, models::kind_of(stored.spec));
  std::vector<report::Requirement> requirements;
  for (const std::string& text : values.list("require"))
    requirements.push_back(report::parse_requirement(text, report::choice_metrics()));
  const std::vector<data::Question> questions = data::read_questions(values.list("data"));
  if (questions.empty()) fail_input("[evaluate] {}: holds no question", values.list("data").front());
  const engine::ChoiceOptions options{.batch = values.integer("batch"),
                                      .max_length = values.integer("seq"),
                                      .begin = begin_piece(*stored.tokenizer, *decoder),
                                      .pad = static_cast<std::int32_t>(decoder->pad)};
  const engine::ChoiceEvaluation evaluation =
      engine::evaluate_choices(*stored.engine, *stored.tokenizer, questions, options);
  if (values.has("predictions"))
    write_file_atomic(values.text("predictions"), report::choice_lines(questions, evaluation));
  if (evaluation.shortened > 0)
    log_info("{} questions with a choice are longer than --seq {}; their beginnings are left out", evaluation.shortened,
             values.integer("seq"));
  if (values.flag("json")) {
    report::Json json = report::to_json(evaluation);
    json["model"] = stored.folder;
    print_out(report::dump(json) + "\n");
  } else {
    print_out(report::render_for_stdout(report::to_table(evaluation)));
  }
  for (const report::Requirement& requirement : requirements) report::require_metric(evaluation, requirement);
  return 0;
}

}  // namespace comera::tools
