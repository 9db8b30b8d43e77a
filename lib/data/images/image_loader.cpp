// The loader of images: whole steps, decoded, shifted and mirrored on a thread of their own.
#include <algorithm>
#include <atomic>
#include <chrono>

#include "lib/core/error.h"
#include "lib/data/images/image_dataset.h"
#include "lib/data/prefetch.h"
#include "lib/data/random.h"

namespace comera::data {
namespace {

struct ImageStep {
  std::vector<float> pixels;  // [images, channels, S, S]
  std::vector<std::int32_t> labels;
  std::vector<std::int64_t> samples;
  LoaderState start, next;
};

// Maps a pixel of the result to its source.
struct Placing {
  std::int64_t right = 0, down = 0;
  bool mirrored = false;
};

class ImageSource {
 public:
  ImageSource(std::shared_ptr<const ImageDataset> dataset, const LoaderOptions& options)
      : dataset_(std::move(dataset)), options_(options) {}

  void cancel() { cancelled_ = true; }

  ImageStep build(const LoaderState& start) {
    const std::int64_t step_images = options_.batch * options_.accumulate, size = dataset_->size();
    const std::int64_t first = start.step * step_images, last = std::min(size, first + step_images);
    if (first >= size)
      fail_input("[data] the checkpoint's position lies behind the end of the data; the data has changed");
    const auto epoch = static_cast<std::uint64_t>(start.epoch);
    const Permutation order(size, Random(options_.seed, epoch, Purpose::rows));
    ImageStep step;
    step.start = step.next = start;
    for (std::int64_t i = first; i < last; ++i) {
      if (cancelled_) throw Cancelled();
      add(options_.shuffle ? order(i) : i, start.epoch, step);
    }
    const bool ended = last == size;
    step.next.epoch += ended;
    step.next.step = ended ? 0 : start.step + 1;
    step.next.samples = step.next.epoch * size + step.next.step * step_images;
    return step;
  }

 private:
  struct Cancelled {};

  void add(std::int64_t row, std::int64_t epoch, ImageStep& step) const {
    const ImageFrame& frame = dataset_->frame();
    const Image image = dataset_->image(row);
    const Placing placing = options_.shuffle ? draw(row, epoch) : Placing{};
    for (std::int64_t c = 0; c < frame.channels; ++c) {
      const double mean = frame.mean[static_cast<std::size_t>(c)],
                   scale = 1 / frame.deviation[static_cast<std::size_t>(c)];
      for (std::int64_t y = 0; y < frame.size; ++y)
        for (std::int64_t x = 0; x < frame.size; ++x) {
          const std::int64_t column = (placing.mirrored ? frame.size - 1 - x : x) + placing.right,
                             line = y + placing.down;
          const bool inside = column >= 0 && column < frame.size && line >= 0 && line < frame.size;
          const std::uint8_t byte =
              inside ? image.pixels[static_cast<std::size_t>((line * frame.size + column) * frame.channels + c)] : 0;
          step.pixels.push_back(static_cast<float>((byte / 255.0 - mean) * scale));
        }
    }
    step.labels.push_back(dataset_->label(row));
    step.samples.push_back(epoch * dataset_->size() + row);
  }

  // A crop of the image with `crop` black pixels on each side, and a mirror for half of the images.
  Placing draw(std::int64_t row, std::int64_t epoch) const {
    const Random random(options_.seed, static_cast<std::uint64_t>(epoch), Purpose::augment);
    const kernels::PhiloxBlock block = random.draw(static_cast<std::uint64_t>(row));
    const std::int64_t crop = dataset_->spec().crop, places = 2 * crop + 1;
    const auto shift = [&](std::uint32_t word) {
      return static_cast<std::int64_t>((std::uint64_t{word} * static_cast<std::uint64_t>(places)) >> 32) - crop;
    };
    return {shift(block.word[0]), shift(block.word[1]), dataset_->spec().flip && (block.word[2] & 1) != 0};
  }

  std::shared_ptr<const ImageDataset> dataset_;
  LoaderOptions options_;
  std::atomic<bool> cancelled_ = false;
};

class ImageLoader final : public Loader {
 public:
  ImageLoader(std::shared_ptr<const ImageDataset> dataset, const LoaderOptions& options, const LoaderState& state)
      : dataset_(dataset),
        options_(options),
        position_(state),
        prefetch_(std::make_unique<ImageSource>(std::move(dataset), options), state, !options.shuffle, options.stops) {}

  bool next(std::span<Batch> parts) override {
    COMERA_CHECK(static_cast<std::int64_t>(parts.size()) == options_.accumulate);
    if (options_.stops) check_stop();
    const auto start = std::chrono::steady_clock::now();
    const bool any = prefetch_.take(step_);
    waited_ms_ += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    if (!any) return false;
    const auto batch = static_cast<std::size_t>(options_.batch);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::size_t first = std::min(step_.labels.size(), i * batch);
      fill(parts[i], first, std::min(step_.labels.size(), first + batch));
    }
    returned_ = step_.start.step * options_.batch * options_.accumulate + std::ssize(step_.labels);
    position_ = step_.next;
    epoch_ended_ = step_.next.epoch != step_.start.epoch;
    return true;
  }

  LoaderState state() const override { return position_; }
  Reach reach() const override { return {returned_, dataset_->size()}; }
  bool epoch_ended() const override { return epoch_ended_; }
  std::int64_t steps_per_epoch() const override {
    const std::int64_t step_images = options_.batch * options_.accumulate;
    return (dataset_->size() + step_images - 1) / step_images;
  }
  double waited_ms() const override { return waited_ms_; }
  std::int64_t longest() const override { return dataset_->frame().tokens; }

 private:
  void fill(Batch& batch, std::size_t first, std::size_t last) const {
    const auto begin = static_cast<std::ptrdiff_t>(first), count = static_cast<std::ptrdiff_t>(last - first);
    shape_image_batch(dataset_->frame(), count, batch);
    const auto pixels = batch["pixel_values"].as<float>();
    const std::ptrdiff_t each = count > 0 ? std::ssize(pixels) / count : 0;
    std::copy_n(step_.pixels.begin() + begin * each, count * each, pixels.begin());
    std::copy_n(step_.labels.begin() + begin, count, batch["labels"].as<std::int32_t>().begin());
    std::copy_n(step_.samples.begin() + begin, count, batch["samples"].as<std::int64_t>().begin());
    batch.counted = std::count_if(step_.labels.begin() + begin, step_.labels.begin() + begin + count,
                                  [](std::int32_t label) { return label >= 0; });
  }

  std::shared_ptr<const ImageDataset> dataset_;
  LoaderOptions options_;
  LoaderState position_;
  ImageStep step_;
  std::int64_t returned_ = 0;  // images of the epoch
  bool epoch_ended_ = false;
  double waited_ms_ = 0;
  Prefetch<ImageSource, ImageStep> prefetch_;
};

}  // namespace

std::unique_ptr<Loader> open_image_loader(std::shared_ptr<const ImageDataset> dataset, const LoaderOptions& options,
                                          const LoaderState& state) {
  return std::make_unique<ImageLoader>(std::move(dataset), options, state);
}

}  // namespace comera::data
