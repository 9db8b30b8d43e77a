#include "tools/sentences.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>

#include "lib/core/error.h"
#include "lib/core/file.h"
#include "lib/data/byte_stream.h"
#include "lib/report/similarity.h"
#include "tools/program.h"

namespace comera::tools {
namespace {

train::EmbeddingOptions embedding_options(const OptionValues& values) {
  return {.batch = values.integer("batch"), .max_length = values.integer("seq")};
}

std::vector<std::string> read_lines() {
  std::vector<std::string> lines;
  for (std::string line; std::getline(std::cin, line);) {
    if (line.ends_with('\r')) line.pop_back();
    data::require_utf8(line, "stdin", static_cast<std::int64_t>(lines.size()) + 1);
    lines.push_back(line);
  }
  if (std::ferror(stdin)) fail_input("[predict] stdin cannot be read: {}; give a file or a pipe", std::strerror(errno));
  return lines;
}

void print_lines(std::span<const float> vectors, std::size_t width) {
  std::string out;
  for (std::size_t i = 0; i < vectors.size(); ++i) out += fmt::format("{:.6g}{}", vectors[i], (i + 1) % width == 0 ? '\n' : '\t');
  print_out(out);
}

// One line per embedding, which indentation would make one per number.
void print_json(std::span<const float> vectors, std::size_t width) {
  std::string out = report::dump(report::document("predict"));
  out.resize(out.rfind("\n}"));
  out += ",\n  \"embeddings\": [";
  for (std::size_t row = 0; width > 0 && row < vectors.size() / width; ++row) {
    const std::span<const float> vector = vectors.subspan(row * width, width);
    const report::Json numbers = std::vector<float>(vector.begin(), vector.end());
    out += fmt::format("{}\n    {}", row == 0 ? "" : ",", report::dump(numbers, -1));
  }
  print_out(out + "\n  ]\n}\n");
}

}  // namespace

int evaluate_sentences(const OptionValues& values, StoredModel& stored) {
  if (values.list("text").size() != 2) fail_input("[evaluate] --text is missing: name the two columns with the sentences of a pair");
  if (!values.given("label")) fail_input("[evaluate] --label is missing: name the column with the score of a pair");
  std::vector<report::Requirement> requirements;
  for (const std::string& text : values.list("require")) requirements.push_back(report::parse_requirement(text, data::Task::embed));
  data::DataSpec spec = reading_spec(values, stored, values.list("data"));
  spec.label = values.text("label");
  const auto dataset = data::Dataset::open(spec, stored.tokenizer);
  std::vector<double> cosines;
  const train::Similarity similarity = train::evaluate_similarity(*stored.engine, *dataset, stored.tokenizer, embedding_options(values), &cosines);
  if (values.has("predictions")) {
    std::string lines = "score\tcosine\n";
    for (std::size_t i = 0; i < cosines.size(); ++i)
      lines += fmt::format("{}\t{:.6f}\n", dataset->labels()[static_cast<std::size_t>(dataset->label(static_cast<std::int64_t>(i)))], cosines[i]);
    write_file_atomic(values.text("predictions"), lines);
  }
  if (values.flag("json")) {
    report::Json json = report::to_json(similarity);
    json["model"] = stored.folder;
    print_out(report::dump(json) + "\n");
  } else {
    print_out(report::render(report::to_table(similarity), report::Format::table));
  }
  for (const report::Requirement& requirement : requirements) report::require_metric(similarity, requirement);
  return 0;
}

std::string npy_bytes(std::span<const float> values, std::int64_t rows, std::int64_t columns) {
  std::string header = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, columns);
  constexpr std::size_t before = 10, alignment = 64;  // magic, version and length; the data begins on a multiple of 64
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
  const std::vector<std::string> lines = read_lines();
  const std::vector<float> vectors = train::embed(*stored.engine, stored.tokenizer, lines, embedding_options(values));
  const std::size_t width = static_cast<std::size_t>(models::common(stored.spec).hidden);
  if (values.has("npy"))
    write_file_atomic(values.text("npy"), npy_bytes(vectors, static_cast<std::int64_t>(lines.size()), static_cast<std::int64_t>(width)));
  else if (values.flag("json"))
    print_json(vectors, width);
  else
    print_lines(vectors, width);
  return 0;
}

}  // namespace comera::tools
