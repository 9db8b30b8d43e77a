#include "lib/data/images/image_dataset.h"

#include <algorithm>
#include <numeric>

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/core/glob.h"
#include "lib/core/hash.h"
#include "lib/core/join.h"
#include "lib/core/options/suggest.h"
#include "lib/core/terminal/stop.h"
#include "lib/core/terminal/task_progress.h"
#include "lib/core/units.h"
#include "lib/data/files/files.h"
#include "lib/data/images/picture.h"
#include "lib/data/label_kind.h"

namespace comera::data {
namespace {

constexpr int deepest = 16;  // folders in folders

// The name with the last `what` replaced; "" if there is none.
std::string replaced(const std::string& name, const std::string& what, const std::string& by) {
  const std::size_t at = name.rfind(what);
  return at == std::string::npos ? "" : name.substr(0, at) + by + name.substr(at + what.size());
}

std::string labels_beside(const std::string& path) {
  const std::string base = base_name(path), renamed = replaced(base, "images", "labels");
  if (renamed.empty()) return "";
  const std::string numbered = replaced(renamed, "idx3", "idx1");
  return join_path(parent_path(path), numbered.empty() ? renamed : numbered);
}

Idx open_idx(const std::string& path) { return read_idx(*ByteStream::open(path), path); }

// The visible entries of a folder.
std::vector<std::string> entries_of(const std::string& folder) {
  std::vector<std::string> names = list_folder(folder);
  std::erase_if(names, [](const std::string& name) { return name.starts_with("."); });
  return names;
}

}  // namespace

std::shared_ptr<const ImageDataset> ImageDataset::open(const DataSpec& spec, const ImageFrame& frame,
                                                       std::vector<std::string> labels) {
  auto dataset = std::shared_ptr<ImageDataset>(new ImageDataset(spec, frame));
  dataset->labels_ = std::move(labels);
  dataset->collects_ = dataset->labels_.empty() && !spec.label.empty();
  dataset->read_paths();
  if (dataset->rows_.empty()) fail_input("[data] {}: holds no images", join(spec.files, ", "));
  if (dataset->collects_) dataset->settle_labels();
  dataset->settle_hash();
  return dataset;
}

void ImageDataset::read_paths() {
  std::vector<std::string> paths;
  for (const std::string& pattern : spec_.files)
    if (is_folder(pattern)) {
      paths.push_back(pattern);
    } else {
      const std::vector<std::string> found = resolve_files({pattern});
      paths.insert(paths.end(), found.begin(), found.end());
    }
  if (paths.empty()) fail_input("[data] no images are named; use --data FOLDER, or --data FILE for an IDX file");
  TaskProgress task("reading images", std::ssize(paths));
  for (std::size_t i = 0; i < paths.size(); ++i, task.advance()) {
    const std::string& path = paths[i];
    if (is_folder(path) && !spec_.label.empty()) {
      read_classes(path);
    } else if (is_folder(path)) {
      read_pictures(path, 1);
    } else if (is_idx(path)) {
      bool took_next = false;
      read_images(path, i + 1 < paths.size() ? &paths[i + 1] : nullptr, took_next);
      i += took_next;
    } else if (spec_.label.empty()) {
      add_picture(path, -1);
    } else {
      fail_input("[data] {}: is no IDX file and no folder; labelled pictures are in a folder with a folder per class",
                 path);
    }
  }
}

// `next`: the path that is named behind this one.
void ImageDataset::read_images(const std::string& path, const std::string* next, bool& took_next) {
  Idx idx = open_idx(path);
  const auto dims = idx.sizes.size();
  if (dims != 3 && dims != 4)
    fail_input("[data] {}: has {} sizes; images have 3 (number, rows, columns) or 4 (and channels)", path, dims);
  if (dims == 4 && idx.sizes[3] != 1 && idx.sizes[3] != 3)
    fail_input("[data] {}: has {} channels; 1 or 3 are wanted", path, idx.sizes[3]);
  const std::int64_t images = idx.sizes[0];
  const std::size_t first = rows_.size();
  for (std::int64_t i = 0; i < images; ++i) rows_.push_back({-1, static_cast<std::int32_t>(idx_.size()), i});
  files_.push_back(path);
  idx_.push_back(std::move(idx));
  idx_names_.push_back(path);
  if (spec_.label.empty()) return;
  took_next = next && !is_folder(*next) && is_idx(*next) && base_name(*next).find("images") == std::string::npos;
  const std::string labels = took_next ? *next : labels_beside(path);
  if (labels.empty() || !path_exists(labels))
    fail_input("[data] {}: its labels are not found{}; name their IDX file behind it, as in --data IMAGES,LABELS", path,
               labels.empty() ? "" : fmt::format(" at {}", labels));
  read_labels(labels, first, images);
}

void ImageDataset::read_labels(const std::string& path, std::size_t first_row, std::int64_t images) {
  const Idx idx = open_idx(path);
  if (idx.sizes.size() != 1) fail_input("[data] {}: has {} sizes; labels have 1", path, idx.sizes.size());
  if (idx.sizes[0] != images)
    fail_input("[data] {}: has {} labels for {} images; both files must be of one set", path, idx.sizes[0], images);
  for (std::size_t i = 0; i < idx.bytes.size(); ++i) {
    const std::int32_t label = idx.bytes[i];
    if (!collects_ && label >= std::ssize(labels_))
      fail_input("[data] {}: label {} of image {} is out of range; the model has {} labels", path, label, i,
                 labels_.size());
    rows_[first_row + i].label = label;
    largest_ = std::max<std::int64_t>(largest_, label);
  }
  files_.push_back(path);
}

void ImageDataset::read_classes(const std::string& folder) {
  bool any = false;
  for (const std::string& name : entries_of(folder)) {
    const std::string path = join_path(folder, name);
    if (!is_folder(path))
      fail_input("[data] {}: lies beside the folders of the classes; move it into one of them", path);
    const std::int32_t label = label_index(name, path);
    const std::size_t before = rows_.size();
    for (const std::string& entry : entries_of(path)) add_picture(join_path(path, entry), label);
    if (rows_.size() == before) fail_input("[data] {}: holds no images; add some, or remove the folder", path);
    any = true;
  }
  if (!any) fail_input("[data] {}: has no folders; one per class is wanted, with its PNG and JPEG files", folder);
}

void ImageDataset::read_pictures(const std::string& folder, int depth) {
  if (depth > deepest) fail_input("[data] {}: lies more than {} folders deep", folder, deepest);
  for (const std::string& name : entries_of(folder)) {
    const std::string path = join_path(folder, name);
    is_folder(path) ? read_pictures(path, depth + 1) : add_picture(path, -1);
  }
}

void ImageDataset::add_picture(const std::string& path, std::int32_t label) {
  check_stop();
  if (is_folder(path)) fail_input("[data] {}: is a folder; a class holds its images without folders", path);
  resolve_files({path});  // it must be readable
  picture_header(MappedFile(path).bytes(), path);
  rows_.push_back({label, -1, std::ssize(files_)});
  files_.push_back(path);
}

std::int32_t ImageDataset::label_index(const std::string& name, const std::string& path) {
  const auto found = std::find(labels_.begin(), labels_.end(), name);
  if (found == labels_.end() && !collects_)
    fail_input("[data] {}: unknown label '{}'; the labels are {}{}", path, name, join(labels_, ", "),
               did_you_mean(name, labels_));
  const auto index = static_cast<std::int32_t>(found - labels_.begin());
  if (found == labels_.end()) labels_.push_back(name);
  return index;
}

// Labels of IDX files are 0, 1, ...; names of folders are sorted.
void ImageDataset::settle_labels() {
  if (largest_ >= 0 && !labels_.empty())
    fail_input("[data] {}: IDX files and folders of classes do not go together; use one kind", join(spec_.files, ", "));
  for (std::int64_t i = 0; i <= largest_; ++i) labels_.push_back(std::to_string(i));
  if (largest_ >= 0) return;
  const bool numbers = std::all_of(labels_.begin(), labels_.end(), is_whole_number);
  std::vector<std::int32_t> order(labels_.size()), rank(labels_.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    const std::string &first = labels_[static_cast<std::size_t>(a)], &second = labels_[static_cast<std::size_t>(b)];
    return numbers ? *score_of(first) < *score_of(second) : first < second;
  });
  std::vector<std::string> sorted;
  for (const std::int32_t from : order) {
    rank[static_cast<std::size_t>(from)] = static_cast<std::int32_t>(sorted.size());
    sorted.push_back(labels_[static_cast<std::size_t>(from)]);
  }
  for (Row& row : rows_) row.label = rank[static_cast<std::size_t>(row.label)];
  labels_ = std::move(sorted);
}

// The bytes of the files, and the labels that folders give them.
void ImageDataset::settle_hash() {
  Hasher hasher;
  hasher.update(hash_files(files_));
  for (const Row& row : rows_) hasher.update(&row.label, sizeof(row.label));
  hash_ = hasher.hex();
}

Image ImageDataset::image(std::int64_t row) const {
  const Row& found = rows_[static_cast<std::size_t>(row)];
  Image image;
  if (found.idx < 0) {
    const std::string& path = files_[static_cast<std::size_t>(found.index)];
    image = decode_picture(MappedFile(path).bytes(), path);
  } else {
    const Idx& idx = idx_[static_cast<std::size_t>(found.idx)];
    image = {idx.sizes[2], idx.sizes[1], idx.sizes.size() == 4 ? idx.sizes[3] : 1, {}};
    const std::int64_t bytes = image.width * image.height * image.channels;
    image.pixels.assign(idx.bytes.begin() + found.index * bytes, idx.bytes.begin() + (found.index + 1) * bytes);
  }
  if (frame_.channels == 1) image = with_channels(std::move(image), 1);  // as users convert before they resize
  image = resized(std::move(image), frame_.resized, frame_.resized, frame_.resampling);
  if (frame_.size != frame_.resized) image = centre_of(image, frame_.size);
  return with_channels(std::move(image), frame_.channels);
}

std::string ImageDataset::name_of(std::int64_t row) const {
  const Row& found = rows_[static_cast<std::size_t>(row)];
  if (found.idx < 0) return files_[static_cast<std::size_t>(found.index)];
  return fmt::format("{}: image {}", idx_names_[static_cast<std::size_t>(found.idx)], found.index);
}

}  // namespace comera::data
