// Labelled images as a data set: IDX files, or folders with a folder of PNG and JPEG files per class.
#pragma once

#include <memory>

#include "lib/data/images/idx.h"
#include "lib/data/images/image.h"
#include "lib/data/images/image_frame.h"
#include "lib/data/loader.h"

namespace comera::data {

// IDX files are held in memory; of pictures, the paths. spec.files are
// - IDX files of images, whose labels are in the file that is named beside them, or else in the one whose name has
//   "labels" for "images" and "idx1" for "idx3". The number is the index of the label.
// - Folders. Their folders are the classes, and hold the pictures (hidden entries are skipped).
// - spec.label empty: no labels. Pictures, and folders of pictures at any depth, are read too.
class ImageDataset final : public Dataset {
 public:
  // `labels`: those of the training data or the model; empty: collected from these files, sorted as numbers if all are
  // whole numbers. The header of every picture is checked here.
  static std::shared_ptr<const ImageDataset> open(const DataSpec& spec, const ImageFrame& frame,
                                                  std::vector<std::string> labels = {});

  const DataSpec& spec() const override { return spec_; }
  const std::vector<std::string>& labels() const override { return labels_; }
  std::int64_t size() const override { return static_cast<std::int64_t>(rows_.size()); }
  const std::vector<std::string>& files() const override { return files_; }
  const std::string& hash() const override { return hash_; }
  void save(const Folder& folder) const override { save_image_frame(frame_, folder); }

  const ImageFrame& frame() const { return frame_; }
  std::int32_t label(std::int64_t row) const { return rows_[static_cast<std::size_t>(row)].label; }
  // Has the frame's size and channels.
  Image image(std::int64_t row) const;
  // "photo.png", or "images-idx3-ubyte: image 17".
  std::string name_of(std::int64_t row) const;

 private:
  struct Row {
    std::int32_t label = -1;
    std::int32_t idx = -1;   // of idx_; -1: a picture
    std::int64_t index = 0;  // in the IDX file, or of the picture in files_
  };

  ImageDataset(const DataSpec& spec, const ImageFrame& frame) : spec_(spec), frame_(frame) {}
  void read_paths();
  void read_images(const std::string& path, const std::string* next, bool& took_next);
  void read_labels(const std::string& path, std::size_t first_row, std::int64_t images);
  void read_classes(const std::string& folder);
  void read_pictures(const std::string& folder, int depth);
  void add_picture(const std::string& path, std::int32_t label);
  std::int32_t label_index(const std::string& name, const std::string& path);
  void settle_labels();
  void settle_hash();

  DataSpec spec_;
  ImageFrame frame_;
  std::vector<std::string> labels_;
  bool collects_ = false;
  std::int64_t largest_ = -1;  // number of a label in IDX files
  std::vector<std::string> files_;
  std::string hash_;
  std::vector<Idx> idx_;
  std::vector<std::string> idx_names_;
  std::vector<Row> rows_;
};

std::unique_ptr<Loader> open_image_loader(std::shared_ptr<const ImageDataset> dataset, const LoaderOptions& options,
                                          const LoaderState& state);

}  // namespace comera::data
