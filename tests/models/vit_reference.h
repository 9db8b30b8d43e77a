// Made by tests/models/interop/vit_reference.py with transformers.
#pragma once

// clang-format off
namespace vit_reference {

constexpr const char* config =
    R"({"image_size": 12, "patch_size": 4, "num_channels": 3, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 20, "layer_norm_eps": 1e-05, "id2label": {"0": "a", "1": "b", "2": "c"}, "label2id": {"a": 0, "b": 1, "c": 2}, "model_type": "vit", "architectures": ["ViTForImageClassification"]})";
constexpr double logits[] = {-0.270997996479, 0.952193719788, -0.963555184977, 0.288596004001, 0.925796029139, -1.06010892826};

}  // namespace vit_reference
