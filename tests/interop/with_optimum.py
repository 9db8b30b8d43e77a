#!/usr/bin/env python3
"""optimum's ONNX Runtime models load the exported folders; their outputs equal those of transformers, read from WORK.

usage: with_optimum.py CHECKPOINTS WORK
"""
import sys

import numpy as np
import torch
from optimum.onnxruntime import ORTModelForCausalLM, ORTModelForFeatureExtraction

CHECKPOINTS, WORK = sys.argv[1:]


def expect(condition, what):
    if not condition:
        sys.exit(f"failed: {what}")


def check_features():
    kept = np.load(f"{WORK}/minilm.npz")
    inputs = {name: torch.tensor(kept[name]) for name in ("input_ids", "attention_mask", "token_type_ids")}
    answer = ORTModelForFeatureExtraction.from_pretrained(f"{WORK}/minilm-onnx")(**inputs).last_hidden_state.numpy()
    mask = kept["attention_mask"].astype(bool)
    apart = np.abs(answer - kept["hidden"])[mask].max()
    # Six layers of post-LN: hidden states of up to about 3. Each of the two runtimes is within a few units in the last
    # place per layer.
    expect(apart < 2e-5, f"hidden states are {apart} from transformers'")
    print(f"MiniLM in ORTModelForFeatureExtraction: hidden states within {apart:.1e}")


def check_chains(name):
    """Means of the tokens, of about length 6; graphs of chains with sorted inputs and gauge, weights in float."""
    kept = np.load(f"{WORK}/minilm.npz")
    inputs = {name: torch.tensor(kept[name]) for name in ("input_ids", "attention_mask", "token_type_ids")}
    mask = kept["attention_mask"][:, :, None]
    ours = np.load(f"{WORK}/minilm-{name}.npy")
    for form in ("tt", "factors", "dense"):
        model = ORTModelForFeatureExtraction.from_pretrained(f"{WORK}/minilm-{name}-onnx-{form}")
        hidden = model(**inputs).last_hidden_state.numpy()
        mean = (hidden * mask).sum(1) / mask.sum(1)
        apart = np.abs(mean - ours).max()
        expect(apart < 2e-5, f"minilm-{name}, form {form}: embeddings are {apart} from comera's")
        print(f"MiniLM, {name}, form {form} in ORTModelForFeatureExtraction: embeddings within {apart:.1e} of comera's")


def check_generation(folder, use_cache):
    kept = np.load(f"{WORK}/stories.npz")
    tokens = torch.tensor(kept["tokens"])
    model = ORTModelForCausalLM.from_pretrained(folder, use_cache=use_cache, use_io_binding=False)
    ids = tokens[:, :5]
    made = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=40, do_sample=False)
    expect(torch.equal(made, tokens), f"{folder}: greedy tokens {made.tolist()} instead of {tokens.tolist()}")
    print(f"stories15M in ORTModelForCausalLM, {'with' if use_cache else 'without'} past: transformers' "
          f"{made.shape[1] - 5} greedy tokens")


if __name__ == "__main__":
    check_features()
    check_chains("tt")
    check_chains("healed")
    check_generation(f"{WORK}/stories-onnx", True)
    check_generation(f"{WORK}/stories-plain", False)
