#!/usr/bin/env python3
"""transformers and sentence-transformers load the dense folder of MiniLM and answer as on the original, and as comera does.

usage: with_transformers.py PROGRAM CHECKPOINTS WORK; WORK is left with what with_optimum.py compares with.
"""
import json
import subprocess
import sys

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, AutoTokenizer, LlamaForCausalLM

PROGRAM, CHECKPOINTS, WORK = sys.argv[1:]
SENTENCES = ["The cat sits outside.", "A man is playing guitar, loudly!", "I love pasta", "x"]
PROMPT = [1, 9038, 2501, 263, 931]  # "Once upon a time"


def expect(condition, what):
    if not condition:
        sys.exit(f"failed: {what}")


def hidden(folder):
    model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    inputs = AutoTokenizer.from_pretrained(folder)(SENTENCES, padding=True, return_tensors="pt")
    with torch.no_grad():
        return model(**inputs).last_hidden_state.numpy(), inputs


def embeddings(folder):
    return SentenceTransformer(folder, device="cpu", model_kwargs={"dtype": torch.float32}).encode(SENTENCES)


def check_minilm():
    original, dense = f"{CHECKPOINTS}/all-MiniLM-L6-v2", f"{WORK}/minilm-dense"
    (before, inputs), (after, _) = hidden(original), hidden(dense)
    expect(np.array_equal(before, after), "transformers gives other hidden states for the dense folder")
    np.savez(f"{WORK}/minilm.npz", hidden=before, **{name: value.numpy() for name, value in inputs.items()})
    vectors = embeddings(dense)
    expect(np.array_equal(vectors, embeddings(original)), "sentence-transformers gives other embeddings")
    text = "".join(sentence + "\n" for sentence in SENTENCES)
    ours = json.loads(subprocess.run([PROGRAM, "predict", original, "--json"], input=text, capture_output=True, text=True, check=True).stdout)
    ours = np.array(ours["embeddings"])
    apart = np.abs(ours - vectors).max()
    expect(apart < 1e-5, f"comera's embeddings are {apart} from sentence-transformers'")
    print(f"MiniLM: dense folder equal bit by bit, embeddings within {apart:.1e} of comera's")


def check_stories():
    model = LlamaForCausalLM.from_pretrained(f"{CHECKPOINTS}/stories15M", dtype=torch.float32).eval()
    ids = torch.tensor([PROMPT])
    with torch.no_grad():
        tokens = model.generate(ids, max_new_tokens=40, do_sample=False)
        np.savez(f"{WORK}/stories.npz", tokens=tokens.numpy(), logits=model(tokens).logits.numpy())
    print("stories15M: greedy tokens and logits kept for optimum")


if __name__ == "__main__":
    check_minilm()
    check_stories()
