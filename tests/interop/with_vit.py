#!/usr/bin/env python3
"""A vision transformer of transformers with random weights, compressed by comera, in transformers and ONNX Runtime.

The folder is compressed and exported twice: to a dense folder, which transformers must load without a missing or
unknown weight, and to ONNX. ONNX Runtime's logits agree with those of transformers in double within four times the
error of transformers in float, or of one rounding per product.

usage: with_vit.py PROGRAM WORK
"""
import os
import subprocess
import sys

import numpy as np
import onnxruntime
import torch
from transformers import ViTConfig, ViTForImageClassification

PROGRAM, WORK = sys.argv[1:]
SIZES = {"image_size": 24, "patch_size": 8, "num_channels": 3, "hidden_size": 32, "num_hidden_layers": 2,
         "num_attention_heads": 4, "intermediate_size": 48, "initializer_range": 0.3,
         "id2label": {0: "a", 1: "b", 2: "c"}, "label2id": {"a": 0, "b": 1, "c": 2}}


def call(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"failed: {' '.join(words)}\n{done.stderr}")


def logits(model, pixels):
    with torch.no_grad():
        return model(pixel_values=pixels).logits.double().numpy()


def main():
    source, small, dense, graph = (os.path.join(WORK, f"vit-{name}") for name in ("made", "tt", "dense", "onnx"))
    torch.manual_seed(1)
    ViTForImageClassification(ViTConfig(**SIZES)).save_pretrained(source)
    call(PROGRAM, "tensorize", source, "-o", small, "--ratio", "1.3")
    call(PROGRAM, "export", small, "-o", dense, "--to", "safetensors", "--form", "dense")
    call(PROGRAM, "export", small, "-o", graph)
    model, loading = ViTForImageClassification.from_pretrained(dense, dtype=torch.float32, output_loading_info=True)
    if any(loading.values()):
        sys.exit(f"failed: transformers says {loading}")
    pixels = torch.randn(5, 3, 24, 24)
    single = logits(model.eval(), pixels)
    wanted = logits(model.double(), pixels.double())
    session = onnxruntime.InferenceSession(os.path.join(graph, "model.onnx"), providers=["CPUExecutionProvider"])
    found = session.run(["logits"], {"pixel_values": pixels.numpy()})[0]
    products = sum(parameter.dim() >= 2 for parameter in model.parameters())
    bound = 4 * max(np.abs(single - wanted).max(), 2**-24 * np.sqrt(products) * np.abs(wanted).max())
    error = np.abs(found - wanted).max()
    print(f"vit: {error:.3g} of at most {bound:.3g}, outputs up to {np.abs(wanted).max():.3g}")
    if not error <= bound:
        sys.exit("failed: vit in ONNX Runtime")


main()
