// The form that a model wants its images in.
#pragma once

#include <string>
#include <vector>

#include "lib/core/files/folder.h"
#include "lib/data/batch.h"
#include "lib/data/images/image.h"

namespace comera::data {

struct ImageFrame {
  std::int64_t size = 0;     // S: the model reads S x S pixels
  std::int64_t resized = 0;  // images get this width and height, and lose their border if that is more than S
  std::int64_t channels = 0;
  std::int64_t tokens = 0;  // T, the positions that the model makes of an image
  // x = (number - mean) / deviation per channel, for numbers from 0 to 1.
  std::vector<double> mean, deviation;
  Resampling resampling = Resampling::bilinear;  // of images of another size

  bool operator==(const ImageFrame&) const = default;
};

// The mean and deviation that Hugging Face's ViTImageProcessor has, .5 each.
ImageFrame image_frame(std::int64_t size, std::int64_t channels, std::int64_t tokens);

// preprocessor_config.json of transformers, of ViTImageProcessor or DeiTImageProcessor. Reading takes mean, deviation,
// the filter of resizing and a crop of the centre (DeiT) from the folder's file, if it has one, or from
// "image_processor" in its processor_config.json. Other steps than resizing, this crop, dividing by 255 and normalising
// (each key do_... that is true) are input errors, and so are the class of another image processor, a size with a
// shortest edge, one that does not become the model's and another filter.
constexpr const char* image_frame_file = "preprocessor_config.json";
void save_image_frame(const ImageFrame& frame, const Folder& folder);
void read_image_frame(const std::string& folder, ImageFrame& frame);

// Adds tensors for B images: pixel_values f32 [B, channels, S, S], labels i32 [B], lengths i32 [B] (all T), samples
// i64 [B]. The contents of the first and last two are unspecified.
void shape_image_batch(const ImageFrame& frame, std::int64_t images, Batch& batch);

}  // namespace comera::data
