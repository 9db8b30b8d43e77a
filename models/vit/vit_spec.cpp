#include "models/vit/vit_spec.h"

#include "lib/core/error.h"

namespace comera::models {

data::ImageFrame frame_of(const VitSpec& spec) { return data::image_frame(spec.image, spec.channels, spec.tokens()); }

VitSpec with_head(const VitSpec& spec, Task task, const std::vector<std::string>& labels) {
  if (task != Task::image) fail_input("[model] a vision transformer names the class of an image; use --task image");
  VitSpec out = spec;
  out.labels = labels;
  return out;
}

std::vector<WeightSite> weight_sites(const VitSpec& spec) { return block_sites(spec); }

void check(const VitSpec& spec) {
  if (spec.task != Task::image)
    fail_input("[model] a vision transformer names the class of an image; use --task image");
  check_blocks(spec);
  check_size("image_size", spec.image, 1 << 12);
  check_size("patch_size", spec.patch, spec.image);
  if (spec.image % spec.patch != 0)
    fail_input("[model] image_size {} is not a multiple of patch_size {}; change one of them", spec.image, spec.patch);
  if (spec.channels != 1 && spec.channels != 3)
    fail_input("[model] num_channels is {}; images have 1 (gray) or 3 (red, green, blue)", spec.channels);
  check_heads(spec);
  check_labels(spec);
}

}  // namespace comera::models
