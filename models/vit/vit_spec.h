// The description of a vision transformer (Dosovitskiy et al. 2020, arXiv 2010.11929): an image in patches of P x P
// pixels, one linear layer for all patches, a class token before them, learned positions, pre-LN encoder blocks, and a
// classifier on the class token. Names and values are those of Hugging Face's ViTForImageClassification.
#pragma once

#include "lib/data/images/image_frame.h"
#include "models/encoder/encoder_spec.h"

namespace comera::models {

// The blocks are those of an encoder.
struct VitSpec : EncoderSpec {
  VitSpec() {
    family = EncoderFamily::vit;
    pre_norm = true;
    task = Task::image;
    vocabulary = 1, types = 0;
    dropout = attention_dropout = 0;
    head_dropout = 0;
  }

  std::int64_t image = 224, patch = 16, channels = 3;

  std::int64_t patches() const { return (image / patch) * (image / patch); }
  std::int64_t patch_numbers() const { return channels * patch * patch; }
  std::int64_t tokens() const { return patches() + 1; }
};

// The size and channels of the images that a model of this spec takes.
data::ImageFrame frame_of(const VitSpec& spec);

// Names of the weights before the blocks. The class token is a vector of its own, without ".weight".
struct VitNames {
  static constexpr const char *class_token = "vit.embeddings.cls_token",
                              *positions = "vit.embeddings.position_embeddings",
                              *patches = "vit.embeddings.patch_embeddings.projection";
};

VitSpec with_head(const VitSpec& spec, Task task, const std::vector<std::string>& labels);
// Every weight that --form applies to: the linear layers of the blocks. The layer of the patches stays dense: files
// hold it as a convolution.
std::vector<WeightSite> weight_sites(const VitSpec& spec);
void check(const VitSpec& spec);

}  // namespace comera::models
