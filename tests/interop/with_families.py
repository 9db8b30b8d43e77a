#!/usr/bin/env python3
"""Small models of several families, compressed by comera, in transformers and ONNX Runtime.

For each family a folder with random weights is compressed and exported twice: to a dense folder, which transformers
must load without a missing or unknown weight, and to ONNX. ONNX Runtime's outputs agree with those of transformers in
double within four times the error of transformers in float, or of one rounding per product.

usage: with_families.py PROGRAM WORK
"""
import os
import subprocess
import sys

import numpy as np
import onnxruntime
import torch
from transformers import AutoModel, AutoModelForCausalLM

PROGRAM, WORK = sys.argv[1:]
MAKE = os.path.join(os.path.dirname(__file__), "../../scripts/make_checkpoint.py")
SIZES = ["--layers", "2", "--hidden", "32", "--intermediate", "48", "--vocabulary", "300", "--heads", "4", "--shards",
         "1", "--type", "F32"]
DECODERS = ("mistral", "qwen3", "gpt2")
PAD = {"roberta": 1, "distilbert": 0, "mpnet": 1, "modernbert": 1}
# The poolers that transformers adds to bodies; no output here reads them.
POOLER = {"pooler.dense.weight", "pooler.dense.bias"}


def call(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"failed: {' '.join(words)}\n{done.stderr}")


def exports(family):
    source, small, dense, graph = (os.path.join(WORK, f"{family}-{name}") for name in ("made", "tt", "dense", "onnx"))
    call(sys.executable, MAKE, source, "--architecture", family, *SIZES)
    call(PROGRAM, "tensorize", source, "-o", small, "--ratio", "1.5")
    call(PROGRAM, "export", small, "-o", dense, "--to", "safetensors", "--form", "dense")
    call(PROGRAM, "export", small, "-o", graph)
    return dense, os.path.join(graph, "model.onnx")


def outputs(model, ids, mask):
    with torch.no_grad():
        out = model(input_ids=ids, attention_mask=mask)
    return (out.logits if hasattr(out, "logits") else out.last_hidden_state).double().numpy()


def compare(family):
    dense, graph = exports(family)
    kind = AutoModelForCausalLM if family in DECODERS else AutoModel
    model, loading = kind.from_pretrained(dense, dtype=torch.float32, output_loading_info=True)
    wrong = {key for keys in loading.values() for key in keys} - POOLER
    if wrong:
        sys.exit(f"failed: {family}: transformers says {loading}")
    torch.manual_seed(1)
    ids, mask = torch.randint(3, 300, (2, 30)), torch.ones(2, 30, dtype=torch.long)
    mask[1, 17:] = 0
    ids[1, 17:] = PAD.get(family, 0)
    counts = mask.numpy().astype(bool)
    single = outputs(model.eval(), ids, mask)[counts]
    wanted = outputs(model.double(), ids, mask)[counts]
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    inputs = {"input_ids": ids.numpy(), "attention_mask": mask.numpy(), "position_ids": np.tile(np.arange(30), (2, 1))}
    found = session.run(None, {one.name: inputs[one.name] for one in session.get_inputs()})[0][counts]
    products = sum(parameter.dim() == 2 for parameter in model.parameters())
    bound = 4 * max(np.abs(single - wanted).max(), 2**-24 * np.sqrt(products) * np.abs(wanted).max())
    error = np.abs(found - wanted).max()
    print(f"{family}: {error:.3g} of at most {bound:.3g}, outputs up to {np.abs(wanted).max():.3g}")
    if not error <= bound:
        sys.exit(f"failed: {family} in ONNX Runtime")


for name in (*DECODERS, *PAD):
    compare(name)
