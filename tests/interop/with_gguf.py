#!/usr/bin/env python3
"""Compares a llama GGUF file that comera reads with `transformers`, which reads and dequantises it with `gguf`: ids of
texts, logits of comera's ONNX graph of the file, and losses of `comera evaluate` on the file itself.

A logit may lie 4 times as far from the one in double as PyTorch's float32 does; a loss moves by at most twice the
largest move of its logits.

usage: with_gguf.py PROGRAM FILE.gguf WORK
"""
import functools
import os
import sys

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
import numpy
import onnxruntime
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from checks import expect, run

PROGRAM, FILE, WORK = sys.argv[1:]
TEXTS = ["Once upon a time, there was a little girl named Lily. One day she found a big red ball in the park and",
         "The capital of France is", "def add(a, b):\n    return a + b", "In 1969 3 people flew to the moon; 2 walked on it.",
         "<|im_start|>user\nWhat is a tensor?<|im_end|>\n<|im_start|>assistant\n"]
program = functools.partial(run, PROGRAM)


def of_graph(session, ids):
    row = numpy.array([ids], dtype=numpy.int64)
    given = {"input_ids": row, "attention_mask": numpy.ones_like(row), "position_ids": numpy.arange(len(ids))[None]}
    return torch.tensor(session.run(["logits"], {put.name: given[put.name] for put in session.get_inputs()})[0][0])


def main():
    place, name = os.path.split(FILE)
    tokenizer = AutoTokenizer.from_pretrained(place, gguf_file=name)
    models = [AutoModelForCausalLM.from_pretrained(place, gguf_file=name, dtype=torch.float32,
                                                   attn_implementation="eager").to(dtype).eval()
              for dtype in (torch.float64, torch.float32)]
    graph = f"{WORK}/read-gguf.onnx"
    program("export", FILE, "-o", graph, "--form", "dense")
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    worst = lost = largest = 0.0
    for text in TEXTS:
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        with torch.no_grad():
            exact, single = (model(input_ids=torch.tensor([ids])).logits[0].double() for model in models)
        error = (single - exact).abs().max().item()
        apart = (of_graph(session, ids).double() - exact).abs().max().item()
        expect(apart <= 4 * error, f"{text!r}: logits differ by {apart:.3g}, {4 * error:.3g} is allowed")
        worst, largest = max(worst, apart / (4 * error)), max(largest, exact.abs().max().item())
        if "\n" in text:  # a line is a text
            continue
        with open(f"{WORK}/one.txt", "w") as file:
            file.write(text + "\n")
        ours = program("evaluate", FILE, "--data", f"{WORK}/one.txt", "--seq", "64", "--no-document-end")
        expect(ours["examples"] == len(ids) - 1, f"{text!r}: comera counts {ours['examples']} tokens, not {len(ids) - 1}")
        theirs = torch.nn.functional.cross_entropy(exact[:-1], torch.tensor(ids[1:])).item()
        apart = abs(ours["loss"] - theirs)
        expect(apart <= 8 * error, f"{text!r}: losses differ by {apart:.3g}, {8 * error:.3g} is allowed")
        lost = max(lost, apart / (8 * error))
    os.remove(graph)
    print(f"GGUF: logits up to {largest:.3g} of {len(TEXTS)} texts within {worst:.2f} of the bound, losses within "
          f"{lost:.2f}", flush=True)


main()
