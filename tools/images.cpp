#include "tools/images.h"

#include <fmt/core.h>

#include "lib/core/error.h"
#include "lib/core/terminal/log.h"
#include "lib/data/files/line_reader.h"
#include "lib/data/images/image_dataset.h"
#include "lib/engine/evaluate.h"
#include "models/model_options.h"
#include "models/presets.h"
#include "tools/input_texts.h"

namespace comera::tools {
namespace {

bool is_vit(const models::ModelSpec& spec) { return std::holds_alternative<models::VitSpec>(spec); }

// True for pretrain and bench, whose --model is a preset.
bool names_preset(const OptionValues& values) { return values.table().find("image-size") != nullptr; }

data::DataSpec image_spec(const OptionValues& values, const std::vector<std::string>& files) {
  data::DataSpec spec;
  spec.files = files;
  spec.task = data::Task::image;
  spec.label = "label";  // that of the file or folder
  if (values.table().find("crop")) spec.crop = values.integer("crop"), spec.flip = values.flag("flip");
  return spec;
}

data::ImageFrame frame_of_run(const OptionValues& values) {
  const bool preset = names_preset(values);
  const models::ModelSpec spec = preset ? models::sized_spec(values) : models::spec_from_folder(values.text("model"));
  models::check(spec);
  const auto* vit = std::get_if<models::VitSpec>(&spec);
  if (!vit && preset)
    fail_input("[{}] --task image: {} reads no images; use --model vit-mini or vit-tiny", values.table().verb(),
               values.text("model"));
  if (!vit)
    fail_input(
        "[{}] --task image: {} reads no images; name the folder of a vision transformer, which `comera pretrain "
        "--model vit-mini --data IMAGES` makes",
        values.table().verb(), values.text("model"));
  return preset ? models::frame_of(*vit) : frame_of_folder(*vit, values.text("model"));
}

// Answers for the images of these files.
void answer_images(const std::vector<std::string>& files, const OptionValues& values, StoredModel& stored,
                   Answers& answers) {
  data::DataSpec spec = image_spec(values, files);
  spec.label.clear();
  const std::vector<std::string>& labels = models::common(stored.spec).labels;
  const auto images = data::ImageDataset::open(spec, *stored.frame, labels);
  engine::evaluate(
      *stored.engine, images, {.batch = values.integer("batch"), .task = ""}, [&](const engine::Prediction& one) {
        const std::string& label = labels[static_cast<std::size_t>(one.predicted)];
        if (answers.plain())
          answers.line(fmt::format("{}\t{:.6f}", printable(label), one.probability));
        else
          answers.value({{"image", images->name_of(one.row)}, {"label", label}, {"probability", one.probability}});
      });
  answers.flush();
}

// Answers a blank line.
void answer_nothing(Answers& answers) {
  if (answers.plain())
    answers.line("");
  else
    answers.value({{"image", nullptr}, {"label", nullptr}, {"probability", nullptr}});
  answers.flush();
}

}  // namespace

bool learns_images(const OptionValues& values) {
  return values.text("task") == data::name_of(data::Task::image) ||
         (names_preset(values) && values.given("model") && is_vit(models::find_preset(values.text("model")).spec));
}

void settle_images(OptionValues& values) {
  if (!learns_images(values)) return;
  if (!values.given("task")) values.set("task", data::name_of(data::Task::image), OptionSource::fallback);
  if (!values.given("model")) values.set("model", "vit-mini", OptionSource::fallback);
  const models::ModelSpec spec = models::sized_spec(values);
  const auto* vit = std::get_if<models::VitSpec>(&spec);
  if (!vit) return;  // the model itself refuses the task
  settle_image_tokens(values, *vit);
}

void settle_image_tokens(OptionValues& values, const models::VitSpec& spec) {
  const std::int64_t tokens = spec.tokens();
  if (values.given("seq") && values.integer("seq") != tokens)
    fail_input("[{}] --seq {}: an image has {} tokens in this model; leave it out, or change --patch",
               values.table().verb(), values.integer("seq"), tokens);
  if (tokens == 2)
    fail_input(
        "[{}] --patch {}: the whole image of {} x {} pixels is one patch; use {} or less, so that there are more",
        values.table().verb(), spec.patch, spec.image, spec.image, spec.image / 2);
  values.set("seq", std::to_string(tokens), OptionSource::fallback);
  if (values.table().find("crop") && values.integer("crop") >= spec.image)
    fail_input("[{}] --crop {}: such a shift leaves nothing of an image of {} x {} pixels; use at most {}",
               values.table().verb(), values.integer("crop"), spec.image, spec.image, spec.image - 1);
}

data::ImageFrame frame_of_folder(const models::VitSpec& spec, const std::string& folder) {
  data::ImageFrame frame = models::frame_of(spec);
  data::read_image_frame(folder, frame);
  return frame;
}

void open_images(const OptionValues& values, RunSetup& setup, const std::vector<std::string>& labels) {
  const data::ImageFrame frame = frame_of_run(values);
  const auto data = data::ImageDataset::open(image_spec(values, values.list("data")), frame, labels);
  setup.data = data;
  if (!values.list("dev").empty())
    setup.dev = data::ImageDataset::open(image_spec(values, values.list("dev")), frame, data->labels());
}

std::shared_ptr<const data::Dataset> image_data(const OptionValues& values, const StoredModel& stored) {
  return data::ImageDataset::open(image_spec(values, values.list("data")), *stored.frame,
                                  models::common(stored.spec).labels);
}

int predict_images(const OptionValues& values, StoredModel& stored) {
  Answers answers(values, "predictions", "prediction");
  if (!values.list("data").empty()) {
    answer_images(values.list("data"), values, stored, answers);
  } else {
    data::LineReader lines(data::ByteStream::standard_input(), "standard input");
    for (std::string_view line; lines.next(line);)
      data::is_blank(line) ? answer_nothing(answers) : answer_images({std::string(line)}, values, stored, answers);
  }
  answers.finish();
  return 0;
}

}  // namespace comera::tools
