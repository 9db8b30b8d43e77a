#!/usr/bin/env python3
"""Results of transformers for a LlamaForCausalLM folder: makes tests/models/stories15m_reference.h.

usage: llama_reference.py CHECKPOINT            prints the header
       llama_reference.py CHECKPOINT TEXT SEQ STRIDE   prints the strided perplexity of a text file, float32 and
                                                       float64
Needs torch, transformers and sentencepiece.
"""

import math
import os
import sys

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
import sentencepiece
import torch
from transformers import LlamaForCausalLM

PROMPT = "Once upon a time, there was a little girl named Lily. One day she found a big red ball in the park and"
COLUMNS = [0, 1, 2, 13, 259, 263, 278, 310, 372, 471, 1023, 4203, 15043, 29889, 31995, 31999]
GREEDY = 60


def model_of(folder, dtype):
    return LlamaForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="eager").eval()


def header(folder):
    pieces = sentencepiece.SentencePieceProcessor(model_file=os.path.join(folder, "tokenizer.model"))
    ids = [1] + pieces.encode(PROMPT)
    with torch.no_grad():
        logits = {dtype: model_of(folder, dtype)(torch.tensor([ids])).logits[0]
                  for dtype in (torch.float64, torch.float32)}
        exact = logits[torch.float64][:, COLUMNS]
        error = (logits[torch.float32].double() - logits[torch.float64])[:, COLUMNS]
        tokens = model_of(folder, torch.float32).generate(torch.tensor([ids]), max_new_tokens=GREEDY, do_sample=False,
                                                          pad_token_id=0)[0]
    print("// Made by tests/models/interop/llama_reference.py with transformers: stories15M on one prompt.")
    print("#pragma once\n")
    print("// clang-format off")
    print("namespace stories15m {\n")
    print(f'constexpr const char* prompt = "{PROMPT}";')
    print("constexpr int ids[] = {" + ", ".join(map(str, ids)) + "};")
    print("constexpr int columns[] = {" + ", ".join(map(str, COLUMNS)) + "};")
    print("// Errors of torch's float32 in these entries: root of the mean square, and the largest.")
    rms, largest = error.pow(2).mean().sqrt().item(), error.abs().max().item()
    print(f"constexpr double float32_rms = {rms:.3e}, float32_largest = {largest:.3e};")
    print("// Greedy continuation.")
    print("constexpr int greedy[] = {" + ", ".join(str(t) for t in tokens[len(ids):].tolist()) + "};")
    print("// Logits in float64, a row per position.")
    print("constexpr double logits[][%d] = {" % len(COLUMNS))
    for row in exact.tolist():
        print("  {" + ", ".join(f"{x:.12g}" for x in row) + "},")
    print("};\n\n}  // namespace stories15m")


def perplexity(folder, text, length, stride, dtype, model=None):
    """Strided perplexity as in transformers' guide: windows of `length` every `stride`, each token counted once."""
    pieces = sentencepiece.SentencePieceProcessor(model_file=os.path.join(folder, "tokenizer.model"))
    model, total, counted, before = model or model_of(folder, dtype), 0.0, 0, 0
    with open(text, encoding="utf-8") as file:
        ids = [model.config.bos_token_id] + pieces.encode(file.read().removesuffix("\n"))  # drops the last line end
    for begin in range(0, len(ids), stride):
        end = min(begin + length, len(ids))
        window = torch.tensor([ids[begin:end]])
        with torch.no_grad():
            logits = model(window).logits[0, :-1].double()
            losses = torch.nn.functional.cross_entropy(logits, window[0, 1:], reduction="none")
        first = max(before - begin - 1, 0)
        total += losses[first:].sum().item()
        counted += losses[first:].numel()
        before = end
        if end == len(ids):
            break
    return math.exp(total / counted), total / counted, counted


if __name__ == "__main__":
    torch.set_num_threads(2)
    if len(sys.argv) == 2:
        header(sys.argv[1])
    else:
        for kind in (torch.float32, torch.float64):
            value, loss, count = perplexity(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), kind)
            print(f"{kind}: perplexity {value:.6f}  loss {loss:.8f}  tokens {count}")
