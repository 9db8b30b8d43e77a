#include "lib/export/export.h"

#include <algorithm>

#include "lib/core/error.h"
#include "lib/core/reals.h"
#include "lib/core/terminal/stop.h"
#include "lib/core/terminal/task_progress.h"
#include "lib/engine/weights_file.h"
#include "lib/export/answers.h"
#include "lib/export/compare.h"
#include "lib/export/decoder_graph.h"
#include "lib/export/dense_folder.h"
#include "lib/export/encoder_graph.h"
#include "lib/io/onnx_files.h"

namespace comera::exporting {
namespace {

void build_model(GraphBuild& build, const models::EncoderSpec& spec, const ExportOptions& options) {
  if (options.with_past) fail_input("[export] --with-past: an encoder has no past; only decoders do");
  build_encoder(build, spec);
}
void build_model(GraphBuild& build, const models::DecoderSpec& spec, const ExportOptions& options) {
  build_decoder(build, spec, options.with_past);
}

void build_model(GraphBuild& build, const models::VitSpec& spec, const ExportOptions& options) {
  if (options.with_past) fail_input("[export] --with-past: a vision transformer has no past; only decoders do");
  build_vit(build, spec);
}

void build_model(GraphBuild&, const models::DlrmSpec&, const ExportOptions&) {
  fail_input("[export] a model of clicks is not written as ONNX; use --to safetensors");
}

std::int64_t types_of(const models::ModelSpec& spec) {
  const auto* encoder = std::get_if<models::EncoderSpec>(&spec);
  return encoder ? encoder->types : 0;
}

void fail_difference(const char* what, const Difference& difference, const std::string& path) {
  fail_run(
      "[export] {}: the {} differs from the model by {}, and {} is the most that rounding explains; nothing was left, "
      "please report this",
      path, what, format_digits(difference.largest, 3), format_digits(difference.bound, 3));
}

onnx::ModelProto build_graph(const WeightReader& weights, const models::ModelSpec& spec, const ExportOptions& options) {
  Graph graph(options.opset, options.dtype);
  GraphBuild build{graph, weights, options.form, options.grids};
  std::visit([&](const auto& one) { build_model(build, one, options); }, spec);
  graph.note("comera.form", name_of(options.form));
  graph.note("comera.dtype", name_of(options.dtype));
  graph.note("comera.chains", std::to_string(weights.block().chains.size()));
  return std::move(graph.model());
}

onnx::ModelProto counted_graph(const io::ModelFolder& folder, const models::ModelSpec& spec,
                               const ExportOptions& options, OtherForms& others) {
  std::uint64_t bytes = 0;
  for (const io::ModelFolder::Entry& entry : folder.entries()) bytes += entry.tensor.bytes();
  TaskProgress task("building the graph", static_cast<std::int64_t>(bytes), TaskUnit::bytes);
  return build_graph(WeightReader(folder, &task, &others), spec, options);
}

// Random inputs for a model and its export.
std::vector<RandomTokens> sample_tokens(const models::ModelSpec& spec) {
  const models::Spec& common = models::common(spec);
  std::vector<RandomTokens> samples;
  for (const auto& [sequences, length] : {std::pair<std::int64_t, std::int64_t>{3, 16}, {1, 8}})
    samples.push_back(random_tokens(sequences, std::min(length, common.positions),
                                    std::max<std::int64_t>(common.vocabulary, 1), types_of(spec), samples.size() + 1));
  return samples;
}

Difference compare(io::OnnxFile& file, const models::ModelSpec& spec, WeightType type, engine::Engine& engine,
                   std::uint64_t float_runs = 1) {
  Difference difference;
  const std::vector<RandomTokens> samples = sample_tokens(spec);
  TaskProgress task("checking the graph on samples", std::ssize(samples));
  for (const RandomTokens& tokens : samples) {
    add_batch(difference, ask(file, spec, engine, tokens, float_runs));
    task.advance();
  }
  finish(difference, file.model(), type);
  return difference.fine() || float_runs > 1 ? difference : compare(file, spec, type, engine, 4);
}

// Ratio of the rounding of the chains' weights to that of float: 24 binary digits against 11 and 8.
double coarseness(const io::ModelFolder& folder, const io::ComeraBlock& block) {
  double coarser = 1;
  for (const io::ChainSpec& chain : block.chains) {
    const io::StoredType type = io::dense_type_of(folder, chain);
    coarser = std::max(coarser, type == io::StoredType::BF16 ? 0x1p16 : type == io::StoredType::F16 ? 0x1p13 : 1.0);
  }
  return coarser;
}

std::unique_ptr<engine::Engine> open_dense(const std::string& folder, const std::string& adapter,
                                           const models::ModelSpec& spec, const plan::Machine& machine) {
  auto engine = std::make_unique<engine::Engine>(machine, models::factory_of(spec, machine.dtype),
                                                 engine::EngineOptions{.fetch_hidden = true});
  engine->allocate();
  engine::load_weights(folder, engine->weights(), {.fresh = {}, .may_miss = {}, .adapter = adapter});
  engine->weights_changed();
  return engine;
}

// Writes the graph to `place` and compares it with the model.
Exported write_and_compare(const std::string& place, const io::ModelFolder& folder, const models::ModelSpec& spec,
                           const ExportOptions& options, engine::Engine& engine) {
  Exported exported;
  {
    onnx::ModelProto model = counted_graph(folder, spec, options, exported.others);
    exported.nodes = static_cast<std::uint64_t>(model.graph().node_size());
    const io::OnnxWritten written = io::write_onnx(place, model);
    exported.bytes = written.bytes;
    for (const std::string& file : written.files) exported.files.push_back(base_name(file));
  }
  exported.bytes_source = folder.bytes();
  io::OnnxFile file(place);
  exported.difference = compare(file, spec, options.dtype, engine);
  return exported;
}

}  // namespace

Difference check_dense_folder(const std::string& dense, const std::string& output, const io::ModelFolder& source,
                              const models::ModelSpec& spec, engine::Engine& engine, const std::string& adapter) {
  const models::ModelSpec dense_spec = models::spec_from_folder(dense);
  const models::Spec& common = models::common(dense_spec);
  const plan::Machine exact{&kernels::reference_backend(), DType::f64, nullptr};
  Difference difference;
  std::int64_t products = 0;
  const std::vector<RandomTokens> samples = sample_tokens(spec);
  TaskProgress task("checking the folder on samples", 3 * std::ssize(samples));
  const auto answers = [&](const plan::Machine& machine) {
    const auto opened = open_dense(dense, adapter, dense_spec, machine);
    products = std::ranges::count_if(opened->model().parameters().all(),
                                     [](const auto& parameter) { return parameter.shape.dims() == 2; });
    std::vector<std::vector<double>> all;
    for (const RandomTokens& tokens : samples) {
      all.push_back(model_answers(common, *opened, tokens));
      task.advance();
    }
    return all;
  };
  const std::vector<std::vector<double>> doubled = answers(exact), single = answers(engine.machine());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    add_batch(difference, {model_answers(models::common(spec), engine, samples[i]), doubled[i], {single[i]}});
    task.advance();
  }
  finish(difference, products,
         coarseness(source, io::parse_comera_block(source.config(), source.config_path()).value_or(io::ComeraBlock{})));
  if (!difference.fine()) fail_difference("folder", difference, output);
  return difference;
}

bool plans_by_shapes(const ExportOptions& options) {
  return options.grids == GridForm::dense && options.form != GraphForm::factors;
}

Exported plan_onnx(const io::ModelFolder& folder, const models::ModelSpec& spec, const ExportOptions& options) {
  engine::check_weights(folder.path(), *models::make_model(spec, DType::f32),
                        {.fresh = {}, .may_miss = {}, .adapter = folder.adapter()});
  Exported planned;
  onnx::ModelProto model;
  if (plans_by_shapes(options)) {
    model = build_graph(WeightReader(folder, std::vector<io::ChainSpec>(), &planned.others), spec, options);
    planned.nodes = static_cast<std::uint64_t>(model.graph().node_size());
    planned.bytes = io::planned_onnx_bytes(std::move(model));
  } else {
    model = counted_graph(folder, spec, options, planned.others);
    planned.nodes = static_cast<std::uint64_t>(model.graph().node_size());
    planned.bytes = io::onnx_bytes(model);
  }
  planned.bytes_source = folder.bytes();
  return planned;
}

std::uint64_t planned_onnx_bytes(const io::ModelFolder& folder, const models::ModelSpec& spec,
                                 const ExportOptions& options, const std::vector<io::ChainSpec>& chains) {
  return io::planned_onnx_bytes(build_graph(WeightReader(folder, chains), spec, options));
}

Exported export_onnx(const io::ModelFolder& folder, const models::ModelSpec& spec, const ExportOptions& options,
                     const Target& target, engine::Engine& engine) {
  check_target(target, folder.path());
  // A single file is first written in a separate folder. Its data file must have its final name, and neither file may
  // remain if the comparison fails.
  AtomicFolder making(target.path);
  const std::string name = target.is_file() ? base_name(target.path) : "model.onnx";
  Exported exported = write_and_compare(join_path(making.temporary(), name), folder, spec, options, engine);
  if (!exported.difference->fine()) fail_difference("graph", *exported.difference, target.path);
  if (target.is_file()) {
    check_stop();
    std::vector<std::string> made;
    for (const std::string& file : exported.files) made.push_back(join_path(making.temporary(), file));
    io::move_onnx(made, target.path, target.force);
    return exported;
  }
  const io::CopiedFiles copied = io::copy_side_files(folder.path(), making.temporary(), io::CopyLayout::on_top);
  write_file_atomic(join_path(making.temporary(), "config.json"), dense_config(folder));
  exported.files.emplace_back("config.json");
  exported.files.insert(exported.files.end(), copied.copied.begin(), copied.copied.end());
  exported.left_out = copied.left_out;
  finish(making, target);
  return exported;
}

}  // namespace comera::exporting
