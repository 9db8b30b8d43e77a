#!/usr/bin/env python3
"""Logits of a small vision transformer in transformers: makes tests/models/vit_reference.h.

usage: vit_reference.py > tests/models/vit_reference.h
Weights as in families_reference.py, by the names and shapes of the saved file; pixel i of the two images is
sin(.3 i + .01 i^2). Needs torch, safetensors and transformers.
"""

import json
import os
import tempfile

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
import torch
from safetensors.torch import load_file, save_file
from transformers import ViTConfig, ViTForImageClassification

SIZES = {"image_size": 12, "patch_size": 4, "num_channels": 3, "hidden_size": 24, "num_hidden_layers": 2,
         "num_attention_heads": 3, "intermediate_size": 20, "layer_norm_eps": 1e-5,
         "id2label": {0: "a", 1: "b", 2: "c"}, "label2id": {"a": 0, "b": 1, "c": 2}}


def filled(tensors):
    result = {}
    for n, name in enumerate(sorted(tensors)):
        shape = tensors[name].shape
        i = torch.arange(1, tensors[name].numel() + 1, dtype=torch.float64)
        wave = torch.sin(0.37 * i + 0.11 * i * i + n).reshape(shape)
        norm = len(shape) == 1 and name.endswith(".weight")
        result[name] = (1 + 0.5 * wave if norm else (0.2 if len(shape) > 1 else 0.5) * wave).float().contiguous()
    return result


def main():
    with tempfile.TemporaryDirectory() as folder:
        ViTForImageClassification(ViTConfig(**SIZES)).save_pretrained(folder)
        file = os.path.join(folder, "model.safetensors")
        save_file(filled(load_file(file)), file, metadata={"format": "pt"})
        model = ViTForImageClassification.from_pretrained(folder, attn_implementation="eager").double().eval()
    i = torch.arange(2 * 3 * 12 * 12, dtype=torch.float64)
    pixels = torch.sin(0.3 * i + 0.01 * i * i).float().double().reshape(2, 3, 12, 12)
    with torch.no_grad():
        logits = model(pixel_values=pixels).logits.flatten().tolist()
    config = {**SIZES, "model_type": "vit", "architectures": ["ViTForImageClassification"]}
    print("// Made by tests/models/interop/vit_reference.py with transformers.\n#pragma once\n\n// clang-format off")
    print("namespace vit_reference {\n")
    print(f'constexpr const char* config =\n    R"({json.dumps(config)})";')
    print("constexpr double logits[] = {" + ", ".join(f"{x:.12g}" for x in logits) + "};\n")
    print("}  // namespace vit_reference")


main()
