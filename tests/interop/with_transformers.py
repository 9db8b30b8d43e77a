#!/usr/bin/env python3
"""Compares comera's results with transformers and sentence-transformers.

The dense folder of MiniLM gives the outputs of the original, and comera's embeddings are close to them; the same for
the dense folders of a tensorized and of a healed MiniLM. A regression gives the numbers of transformers. The strided
perplexity of stories15M is the same in transformers and comera.

usage: with_transformers.py PROGRAM CHECKPOINTS WORK; writes into WORK the reference outputs for with_optimum.py.
"""
import json
import os
import subprocess
import sys

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer, LlamaForCausalLM

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../models/interop"))
from llama_reference import perplexity

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


def ours(folder):
    text = "".join(sentence + "\n" for sentence in SENTENCES)
    answer = subprocess.run([PROGRAM, "predict", folder, "--json"], input=text, capture_output=True, text=True,
                            check=True).stdout
    return np.array(json.loads(answer)["embeddings"])


def check_minilm():
    original, dense = f"{CHECKPOINTS}/all-MiniLM-L6-v2", f"{WORK}/minilm-dense"
    (before, inputs), (after, _) = hidden(original), hidden(dense)
    expect(np.array_equal(before, after), "transformers gives other hidden states for the dense folder")
    np.savez(f"{WORK}/minilm.npz", hidden=before, **{name: value.numpy() for name, value in inputs.items()})
    vectors = embeddings(dense)
    expect(np.array_equal(vectors, embeddings(original)), "sentence-transformers gives other embeddings")
    apart = np.abs(ours(original) - vectors).max()
    expect(apart < 1e-5, f"comera's embeddings are {apart} from sentence-transformers'")
    print(f"MiniLM: dense folder equal bit by bit, embeddings within {apart:.1e} of comera's", flush=True)


def check_chains(name, before):
    """comera computes with the chains. The dense folder has them multiplied out, rounded to the source's fp16."""
    folder = f"{WORK}/minilm-{name}"
    chains = json.load(open(f"{folder}/config.json"))["comera"]["tensors"].values()
    for what in ("sorted", "gauge"):
        expect(any(chain.get(what) for chain in chains), f"{folder}: no chain has {what}")
    vectors = ours(folder)
    np.save(f"{WORK}/minilm-{name}.npy", vectors)
    lengths = np.linalg.norm(vectors, axis=1)
    alike = (vectors * before).sum(1) / lengths / np.linalg.norm(before, axis=1)
    expect(0 < alike.min() < 1 - 1e-6, f"{folder}: cosines to what it was made from are {alike}")
    apart = (np.linalg.norm(vectors - embeddings(f"{folder}-dense"), axis=1) / lengths).max()
    expect(apart < 2e-3, f"{folder}: sentence-transformers' embeddings of the dense folder are {apart} of their length "
                         "from comera's")
    print(f"MiniLM, {name}: cosines of {alike.min():.4f} and more; embeddings of its dense folder within {apart:.1e} "
          "of comera's on the chains", flush=True)
    return vectors


def check_deep():
    """The transformer is in 0_Transformer. The exported folder has that layout, and the original's embeddings."""
    folder = f"{WORK}/minilm-deep"
    vectors = embeddings(f"{folder}-dense")
    expect(os.path.exists(f"{folder}-dense/0_Transformer/model.safetensors"), "the layout of minilm-deep is gone")
    expect(np.array_equal(vectors, embeddings(folder)),
           "sentence-transformers gives other embeddings for the dense folder of minilm-deep")
    apart = np.abs(ours(folder) - vectors).max()
    expect(apart < 1e-5, f"comera's embeddings of minilm-deep are {apart} from sentence-transformers'")
    small = np.abs(ours(f"{folder}-small") - embeddings(f"{folder}-small-dense")).max()
    expect(small < 2e-3, "tensorized minilm-deep: sentence-transformers' embeddings of the dense folder are "
                         f"{small} from comera's on the chains")
    print(f"MiniLM below 0_Transformer: dense folder equal bit by bit, embeddings within {apart:.1e} of comera's, "
          f"tensorized {small:.1e}", flush=True)


def check_regression():
    """comera's numbers of pairs are the logits of transformers, whose loss on them is the mean squared error."""
    folder = f"{WORK}/minilm-scores"
    pairs = list(zip(SENTENCES, SENTENCES[1:] + SENTENCES[:1]))
    model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32).eval()
    expect(model.config.num_labels == 1 and model.config.problem_type == "regression",
           f"{folder} is no regression for transformers")
    inputs = AutoTokenizer.from_pretrained(folder)(*map(list, zip(*pairs)), padding=True, return_tensors="pt")
    known = torch.tensor([0.0, 1.25, 2.5, 5.0])
    with torch.no_grad():
        output = model(**inputs, labels=known)
    text = "".join("\t".join(pair) + "\n" for pair in pairs)
    answer = subprocess.run([PROGRAM, "predict", folder, "--json"], input=text, capture_output=True, text=True,
                            check=True).stdout
    scores = np.array([one["score"] for one in json.loads(answer)["predictions"]])
    apart = np.abs(scores - output.logits.numpy()[:, 0]).max()
    # Numbers of about 3, of weights and vectors of a few units: each runtime is within some 1e-6 of the truth.
    expect(apart < 2e-5, f"comera's numbers are {apart} from transformers'")
    with open(f"{WORK}/few.tsv", "w") as file:
        file.write("a\tb\tscore\n" + "".join(f"{a}\t{b}\t{score}\n" for (a, b), score in zip(pairs, known.tolist())))
    loss = json.loads(subprocess.run([PROGRAM, "evaluate", folder, "--data", f"{WORK}/few.tsv", "--text", "a,b",
                                      "--json"], capture_output=True, text=True,
                                     check=True).stdout)["loss"]
    expect(abs(loss - output.loss.item()) < 1e-4, f"comera's loss is {loss}, transformers' {output.loss.item()}")
    print(f"MiniLM, regression: numbers within {apart:.1e} of transformers', loss {loss:.5f} on both sides", flush=True)


def check_perplexity():
    """Every token's loss is right to a few times 1e-6 on both sides; the mean over 43,618 of them to less than 1e-6."""
    comera = json.load(open(f"{WORK}/perplexity.json"))
    value, loss, count = perplexity(f"{CHECKPOINTS}/stories15M", f"{WORK}/last_fifth.txt", 256, 128, torch.float32)
    expect(comera["examples"] == count, f"comera counts {comera['examples']} tokens, transformers' windows {count}")
    expect(abs(comera["loss"] - loss) < 1e-6, f"comera's loss is {comera['loss']}, transformers' {loss}")
    print(f"stories15M: perplexity {value:.6f} over {count} tokens; the mean losses differ by "
          f"{abs(comera['loss'] - loss):.1e}", flush=True)


def check_stories():
    model = LlamaForCausalLM.from_pretrained(f"{CHECKPOINTS}/stories15M", dtype=torch.float32).eval()
    ids = torch.tensor([PROMPT])
    with torch.no_grad():
        tokens = model.generate(ids, max_new_tokens=40, do_sample=False)
        np.savez(f"{WORK}/stories.npz", tokens=tokens.numpy(), logits=model(tokens).logits.numpy())
    print("stories15M: greedy tokens and logits kept for optimum")


if __name__ == "__main__":
    check_minilm()
    check_chains("healed", check_chains("tt", ours(f"{CHECKPOINTS}/all-MiniLM-L6-v2")))
    check_deep()
    check_regression()
    check_stories()
    check_perplexity()
