// Reads the pictures that the lines of stdin name, as a run and `predict` do: `read_images FOLDER SIZE CHANNELS`, where
// FOLDER may have a preprocessor_config.json. Writes a JSON object per line: width, height, channels and pixels of the
// picture, and the values that a model gets; or error.
#include <iostream>

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/data/images/image_dataset.h"
#include "lib/data/images/picture.h"
#include "lib/io/json.h"

using namespace comera::data;

namespace {

void read(const std::string& path, const ImageFrame& frame, comera::io::Json& answer) {
  const Image image = decode_picture(comera::MappedFile(path).bytes(), path);
  answer["width"] = image.width, answer["height"] = image.height, answer["channels"] = image.channels;
  answer["pixels"] = image.pixels;
  DataSpec spec;
  spec.task = Task::image;
  spec.files = {path};
  LoaderOptions options;
  options.batch = 1, options.shuffle = false;
  std::vector<Batch> parts(1);
  if (!Loader::open(ImageDataset::open(spec, frame), options)->next(parts)) comera::fail_run("no image came");
  const auto values = parts[0]["pixel_values"].as<float>();
  answer["values"] = std::vector<double>(values.begin(), values.end());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  ImageFrame frame = image_frame(std::stol(argv[2]), std::stol(argv[3]), 1);
  read_image_frame(argv[1], frame);
  for (std::string line; std::getline(std::cin, line);) {
    comera::io::Json answer = comera::io::Json::object();
    try {
      read(line, frame, answer);
    } catch (const comera::InputError& error) {
      answer["error"] = error.what();
    }
    std::cout << answer.dump() << "\n";
  }
}
