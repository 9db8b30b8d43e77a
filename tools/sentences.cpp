#include "tools/sentences.h"

#include <fmt/core.h>

#include <limits>

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/core/join.h"
#include "lib/report/output/fit.h"
#include "lib/report/weights/similarity.h"
#include "models/sentence.h"
#include "tools/input_texts.h"
#include "tools/program.h"

namespace comera::tools {
namespace {

engine::EmbeddingOptions embedding_options(const OptionValues& values, const StoredModel& stored) {
  return {.batch = values.integer("batch"),
          .max_length = values.integer("seq"),
          .prompt = models::default_prompt(stored.folder)};
}

// Vectors of the texts that are not empty, in order.
std::vector<float> vectors_of(const engine::EmbeddingOptions& options, StoredModel& stored,
                              const std::vector<InputText>& texts, const std::string& place) {
  std::vector<std::string> lines;
  for (const InputText& text : texts) {
    if (text.empty()) continue;
    if (text.texts.size() > 1)
      fail_input(
          "{}: {} embeds one text, but two came; name one column with --text, or write lines without tabs, which "
          "separate two texts",
          place, stored.folder);
    lines.push_back(text.texts[0]);
  }
  return engine::embed(*stored.engine, stored.tokenizer, lines, options);
}

void answer(Answers& answers, std::span<const float> vector) {
  if (answers.plain()) {
    std::string line;
    for (const float number : vector) line += fmt::format("{}{:.6g}", line.empty() ? "" : "\t", number);
    answers.line(line);
  } else {
    answers.value(vector.empty() ? report::Json() : report::Json(std::vector<float>(vector.begin(), vector.end())));
  }
}

}  // namespace

int evaluate_sentences(const OptionValues& values, StoredModel& stored) {
  if (values.list("text").size() != 2)
    fail_input(
        "[evaluate] {} gives embeddings, which are measured on pairs of sentences: --text names {}; name the two "
        "columns (--text A,B) and their score (--label), or measure pairs without a score with --task pairs; to make a "
        "classifier of it, use comera finetune {} --label COLUMN",
        stored.folder,
        values.list("text").empty() ? "no column" : fmt::format("'{}' alone", join(values.list("text"), ",")),
        stored.folder);
  if (!values.given("label"))
    fail_input(
        "[evaluate] {} gives embeddings, which are measured on pairs of sentences: name the column with their score "
        "with --label, or measure pairs without a score with --task pairs",
        stored.folder);
  std::vector<report::Requirement> requirements;
  for (const std::string& text : values.list("require"))
    requirements.push_back(report::parse_requirement(text, data::Task::embed));
  data::DataSpec spec = reading_spec(values, stored, values.list("data"));
  spec.label = values.text("label");
  const auto dataset = data::Dataset::open(spec, stored.tokenizer);
  std::vector<double> cosines;
  const engine::Similarity similarity = engine::evaluate_similarity(*stored.engine, *dataset, stored.tokenizer,
                                                                    embedding_options(values, stored), &cosines);
  if (values.has("predictions")) {
    std::string lines = "score\tcosine\n";
    for (std::size_t i = 0; i < cosines.size(); ++i)
      lines += fmt::format("{}\t{:.6f}\n",
                           dataset->labels()[static_cast<std::size_t>(dataset->label(static_cast<std::int64_t>(i)))],
                           cosines[i]);
    write_file_atomic(values.text("predictions"), lines);
  }
  if (values.flag("json")) {
    report::Json json = report::to_json(similarity);
    json["model"] = stored.folder;
    print_out(report::dump(json) + "\n");
  } else {
    print_out(report::render_for_stdout(report::to_table(similarity)));
  }
  for (const report::Requirement& requirement : requirements) report::require_metric(similarity, requirement);
  return 0;
}

std::string npy_bytes(std::span<const float> values, std::int64_t rows, std::int64_t columns) {
  std::string header = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, columns);
  // magic, version and header length; the data starts at a multiple of 64
  constexpr std::size_t before = 10, alignment = 64;
  header.append((alignment - (before + header.size() + 1) % alignment) % alignment, ' ');
  header += '\n';
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += static_cast<char>(header.size() & 0xff);
  bytes += static_cast<char>(header.size() >> 8);
  bytes += header;
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  return bytes;
}

int embed_lines(const OptionValues& values, StoredModel& stored) {
  const auto width = static_cast<std::size_t>(models::common(stored.spec).hidden);
  const std::size_t most =
      64 * static_cast<std::size_t>(values.integer("batch"));  // enough texts to form batches of equal length
  engine::EmbeddingOptions options = embedding_options(values, stored);
  options.task.clear();  // all texts belong to one task
  InputTexts input(values, true);
  Answers answers(values, "embeddings", "embedding");
  std::vector<float> all;
  std::int64_t rows = 0;
  for (std::vector<InputText> texts; input.next(texts, most);) {
    const std::vector<float> vectors = vectors_of(options, stored, texts, input.place());
    rows += std::ssize(texts);
    for (std::span<const float> left = vectors; const InputText& text : texts) {
      const std::span<const float> vector = left.first(text.empty() ? 0 : width);
      left = left.subspan(vector.size());
      if (!values.has("npy"))
        answer(answers, vector);
      else if (vector.empty())
        all.resize(all.size() + width, std::numeric_limits<float>::quiet_NaN());
      else
        all.insert(all.end(), vector.begin(), vector.end());
    }
    answers.flush();
  }
  if (values.has("npy"))
    write_file_atomic(values.text("npy"), npy_bytes(all, rows, static_cast<std::int64_t>(width)));
  else
    answers.finish();
  return 0;
}

}  // namespace comera::tools
