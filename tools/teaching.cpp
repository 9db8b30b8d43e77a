#include "tools/teaching.h"

#include <algorithm>

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/core/join.h"
#include "lib/engine/weights_file.h"
#include "lib/io/file_kind.h"
#include "lib/layers/distillation.h"
#include "models/sentence.h"
#include "tools/images.h"
#include "tools/stored_model.h"

namespace comera::tools {
namespace {

// hidden: last hidden states of all tokens; embedding: sentence vector; logits: of labels or of vocabulary pieces.
std::string target_of(const OptionValues& values, data::Task task) {
  const std::string& word = values.text("distill");
  const bool logits =
      word == "logits" || (word == "automatic" && (task == data::Task::classify || task == data::Task::regression ||
                                                   task == data::Task::clm || task == data::Task::image));
  if (logits && (task == data::Task::multilabel || task == data::Task::tag))
    fail_input("[finetune] --distill logits: the task {} learns no logits of a teacher; use --distill hidden",
               data::name_of(task));
  if (logits && task == data::Task::regression && values.text("distill-distance") != "squared")
    fail_input("[finetune] --distill-distance {}: a regression's numbers are learned by squared error; leave it out",
               values.text("distill-distance"));
  if (word == "hidden" && task == data::Task::image)
    fail_input("[finetune] --distill hidden: the classes of images are learned from a teacher's logits; leave it out");
  if (word == "automatic") return logits ? "logits" : "hidden";
  if (word == "logits" && task == data::Task::embed)
    fail_input(
        "[finetune] --distill logits: the task has neither labels nor tokens to predict; use hidden or embedding");
  if (word == "embedding" && task != data::Task::embed)
    fail_input("[finetune] --distill embedding: only the task embed has embeddings");
  return word;
}

// Logits have a temperature, vectors a distance, the numbers of a regression neither.
void refuse_without_effect_on(const std::string& target, const OptionValues& values, data::Task task) {
  if (target == "logits" && task == data::Task::regression)
    return refuse_options(values, {"distill-temperature", "distill-distance"},
                          "the teacher's numbers are learned by squared error");
  if (target == "logits")
    return refuse_options(values, {"distill-distance"}, "the teacher's logits are learned by their softmax");
  refuse_options(values, {"distill-temperature"},
                 fmt::format("the teacher's {} are learned by their distance",
                             target == "hidden" ? "hidden states" : "embeddings"));
}

// Both read the same images.
void check_frame(const OptionValues& values, const RunSetup& setup, const models::ModelSpec& teacher) {
  const auto &own = std::get<models::VitSpec>(setup.spec), &other = std::get<models::VitSpec>(teacher);
  const std::string& folder = values.text("teacher");
  const data::ImageFrame student = frame_of_folder(own, values.text("model"));
  data::ImageFrame taught = frame_of_folder(other, folder);
  taught.tokens = student.tokens;  // its patches may have another size
  if (student != taught)
    fail_input(
        "[finetune] --teacher {}: reads other images than the student: {} x {}, {} channels, resized and normalised by "
        "its {}",
        folder, taught.size, taught.size, taught.channels, data::image_frame_file);
}

void check_vocabulary(const OptionValues& values, const RunSetup& setup, const models::Spec& teacher) {
  const std::string& folder = values.text("teacher");
  if (values.integer("seq") > teacher.positions)
    fail_input("[finetune] --teacher {}: has {} positions, --seq is {}; use --seq {} or another teacher", folder,
               teacher.positions, values.integer("seq"), teacher.positions);
  const std::int64_t own = models::common(setup.spec).vocabulary;
  if (teacher.vocabulary != own)
    fail_input("[finetune] --teacher {}: has {} pieces, the student {}; a teacher must have the student's vocabulary",
               folder, teacher.vocabulary, own);
  const auto tokenizer = open_tokenizer(values, folder);
  if (!values.has("tokenizer") && tokenizer->hash() != setup.tokenizer->hash())
    fail_input(
        "[finetune] --teacher {}: its {} differs from the student's {}; a teacher must have the student's vocabulary",
        folder, tokenizer->source(), setup.tokenizer->source());
}

// The teacher's spec with a head that fits the target.
models::ModelSpec teacher_spec(const std::string& folder, const std::string& target, const RunSetup& setup) {
  models::ModelSpec spec = models::spec_from_folder(folder);
  const models::Spec &stored = models::common(spec), &student = models::common(setup.spec);
  if (target == "logits" && predicts_words(student.task)) {
    if (stored.task != student.task)
      fail_input("[finetune] --teacher {}: its task is {}, the student's {}; use --distill hidden or another teacher",
                 folder, data::name_of(stored.task), data::name_of(student.task));
    return spec;
  }
  if (target == "logits" && student.task == data::Task::regression) {
    if (stored.task != student.task)
      fail_input(
          "[finetune] --teacher {}: its task is {}, the student's regression; use --distill hidden or a teacher for "
          "regression",
          folder, data::name_of(stored.task));
    return spec;
  }
  if (target == "logits") {
    if (stored.task == student.task && stored.labels != student.labels &&
        std::is_permutation(stored.labels.begin(), stored.labels.end(), student.labels.begin(), student.labels.end()))
      fail_input(
          "[finetune] --teacher {}: has the student's labels in another order ({}; the student: {}), and logits are "
          "compared by their place; use --distill hidden, or a teacher with the student's order",
          folder, join(stored.labels, ", "), join(student.labels, ", "));
    if (stored.task != student.task || stored.labels != student.labels)
      fail_input(
          "[finetune] --teacher {}: is no classifier of the student's {} labels; use --distill hidden or another "
          "teacher",
          folder, student.labels.size());
    return spec;
  }
  if (stored.hidden != student.hidden)
    fail_input("[finetune] --teacher {}: its vectors have {} numbers, the student's {}; use {}", folder, stored.hidden,
               student.hidden,
               student.task == data::Task::embed ? fmt::format("a teacher whose vectors have {}", student.hidden)
                                                 : "--distill logits or another teacher");
  return std::holds_alternative<models::EncoderSpec>(spec) ? models::with_head(spec, data::Task::embed, {}) : spec;
}

layers::Distillation distillation_of(const OptionValues& values, layers::VocabularyDecoder* teacher) {
  layers::Distillation settings;
  settings.active = true;
  settings.teacher = teacher;
  settings.distance =
      values.text("distill-distance") == "cosine" ? kernels::Distance::cosine : kernels::Distance::squared;
  settings.temperature = values.real("distill-temperature");
  settings.weight = values.real("distill-weight");
  return settings;
}

// Wraps the factory so that its models use the distillation settings.
layers::ModelFactory teaching(layers::ModelFactory base, const layers::Distillation& settings) {
  return [base = std::move(base), settings](const layers::RankTable& ranks) {
    auto model = base(ranks);
    model->set_distillation(settings);
    return model;
  };
}

}  // namespace

std::vector<Option> teaching_options() {
  std::vector<Option> rows{{.name = "teacher",
                            .type = OptionType::path,
                            .help = "model whose answers are learned",
                            .metavar = "FOLDER",
                            .synonyms = {"teacher-model"}},
                           {.name = "distill",
                            .type = OptionType::choice,
                            .default_text = "automatic",
                            .help = "target to learn from the teacher: its last hidden states, its embeddings, or its "
                                    "logits (of labels or of tokens; the numbers of a regression)",
                            .choices = {"automatic", "hidden", "embedding", "logits"},
                            .default_words = "logits for classify, regression and clm, else hidden"},
                           {.name = "distill-distance",
                            .type = OptionType::choice,
                            .default_text = "squared",
                            .help = "distance between hidden states or embeddings: mean squared error, or 1 - cosine",
                            .choices = {"squared", "cosine"}},
                           {.name = "distill-temperature",
                            .type = OptionType::real,
                            .default_text = "2",
                            .help = "temperature of the softmax over logits",
                            .minimum = 0.01},
                           {.name = "distill-weight",
                            .type = OptionType::real,
                            .default_text = "1",
                            .help = "weight of the teacher's loss relative to that of the labels",
                            .minimum = 0}};
  for (Option& option : rows) option.group = "Teacher", option.result_relevant = true;
  return rows;
}

void require_something_to_learn(const OptionValues& values) {
  const data::Task task = train::task_of(values);
  const bool taught = values.has("teacher") && values.real("distill-weight") > 0;
  if (values.flag("unlabelled") && !values.has("teacher"))
    fail_input(
        "[finetune] --unlabelled learns from a teacher alone, and there is none; add --teacher, or leave it out");
  if (values.flag("unlabelled") && (data::predicts_words(task) || task == data::Task::pairs))
    refuse_options(values, {"unlabelled"}, fmt::format("the task {} reads no labels", data::name_of(task)));
  if (values.flag("unlabelled") && values.source("label") == OptionSource::flag)
    fail_input("[finetune] --unlabelled reads no labels, and --label names their column; leave out one of them");
  if (values.has("teacher") && !taught && (task == data::Task::embed || !train::reads_labels(values)))
    fail_input(
        "[finetune] --distill-weight 0: the teacher's loss is all that {} learns, and it would count for nothing; use "
        "a weight above 0{}",
        task == data::Task::embed ? "the task embed" : "a run without labels",
        task == data::Task::embed ? "" : ", or name the column of the labels with --label");
}

void add_teacher(const OptionValues& values, RunSetup& setup) {
  if (!values.has("teacher")) {
    if (setup.options.task == data::Task::embed)
      fail_input("[finetune] --teacher is missing: embeddings are learned from another model's");
    return;
  }
  const std::string& folder = values.text("teacher");
  io::require_model_folder("[finetune] --teacher", folder);
  const std::string target = target_of(values, setup.options.task);
  refuse_without_effect_on(target, values, setup.options.task);
  if (setup.options.task == data::Task::embed) models::require_no_prompt(folder, "finetune");
  const models::ModelSpec spec = teacher_spec(folder, target, setup);
  if (std::holds_alternative<models::VitSpec>(spec) != std::holds_alternative<models::VitSpec>(setup.spec))
    fail_input("[finetune] --teacher {}: teacher and student must both read images, or both text", folder);
  if (std::holds_alternative<models::VitSpec>(spec))
    check_frame(values, setup, spec);
  else
    check_vocabulary(values, setup, models::common(spec));
  const models::Spec& student = models::common(setup.spec);
  const plan::Machine& machine = setup.open.machine;
  const bool words = target == "logits" && data::predicts_words(student.task);
  engine::check_weights(folder, *models::make_model(spec, machine.dtype));
  auto engine =
      std::make_unique<engine::Engine>(machine, teaching(models::factory_of(spec, machine.dtype), {.teaches = words}),
                                       engine::EngineOptions{.fetch_hidden = words || target == "hidden"});
  if (!setup.student) setup.student = setup.factory;
  setup.factory =
      teaching(setup.student, distillation_of(values, words ? engine->model().vocabulary_decoder() : nullptr));
  const char* output = words                ? layers::teacher_decoder_input
                       : target == "logits" ? layers::teacher_logits
                       : target == "hidden" ? layers::teacher_hidden
                                            : layers::teacher_embedding;
  const std::int64_t width = target == "logits" && !words ? student.outputs() : models::common(spec).hidden;
  setup.teacher = std::make_unique<train::Teacher>(
      std::move(engine), output, width, [folder](engine::Weights& weights) { engine::load_weights(folder, weights); });
}

}  // namespace comera::tools
