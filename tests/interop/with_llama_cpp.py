"""Compares the logits of llama.cpp with those of comera's ONNX graph of the same model, on 20 prompts.

Usage: with_llama_cpp.py PLAIN.gguf BASE.gguf ADAPTER.gguf FLOAT.onnx QDQ.onnx TEXT

PLAIN has dense weights in half precision. BASE has weights on grids, with which llama.cpp multiplies inputs that it
rounds to 8 bits in blocks of 32. ONNX Runtime rounds alike in its fused products of QDQ, which measures what this
rounding does to the logits.
"""

import sys

import numpy as np
import onnxruntime
from llama_cpp import Llama

PROMPTS = 20


def expect(condition, what):
    if not condition:
        sys.exit(f"failed: {what}")


def of_llama(prompts, path, adapter=None):
    model = Llama(path, n_ctx=256, logits_all=True, verbose=False, lora_path=adapter)
    ids, logits = [], []
    for text in prompts:
        model.reset()
        ids.append(model.tokenize(text.encode()))
        model.eval(ids[-1])
        logits.append(np.array(model.scores[:len(ids[-1])], dtype=np.float64))
    return ids, logits


def of_onnx(ids, path):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    logits = []
    for one in ids:
        row = np.array([one], dtype=np.int64)
        given = {"input_ids": row, "attention_mask": np.ones_like(row), "position_ids": np.arange(len(one))[None]}
        names = [put.name for put in session.get_inputs()]
        logits.append(session.run(["logits"], {name: given[name] for name in names})[0][0].astype(np.float64))
    return logits


def rms(all_a, all_b):
    return np.sqrt(np.mean(np.concatenate([((a - b) ** 2).ravel() for a, b in zip(all_a, all_b)])))


def main():
    plain, base, adapter, graph, qdq, text = sys.argv[1:]
    lines = [line.strip() for line in open(text, encoding="utf-8") if len(line) > 40]
    prompts = [line[:120] for line in lines[:PROMPTS]]
    expect(len(prompts) == PROMPTS, f"{text} has {PROMPTS} lines")
    ids, dense = of_llama(prompts, plain)
    wanted = of_onnx(ids, graph)
    worst = max(np.abs(a - b).max() for a, b in zip(dense, wanted))
    largest = max(np.abs(a).max() for a in wanted)
    # Inputs of some 43 products are rounded to half precision, each with a relative error of at most 2^-11.
    bound = 4 * 2.0 ** -11 * np.sqrt(43) * largest
    expect(worst <= bound, f"{plain}: logits differ by {worst:.3g}, {bound:.3g} is allowed")
    ids_again, on_grids = of_llama(prompts, base, adapter)
    expect(ids_again == ids, "both files have the same tokenizer")
    found, same_rounding = rms(on_grids, wanted), rms(of_onnx(ids, qdq), wanted)
    expect(found <= 2 * same_rounding,
           f"{base}: logits differ by {found:.3g} (root mean square), 8-bit inputs alone by {same_rounding:.3g}")
    agree = np.mean([(a.argmax(-1) == b.argmax(-1)).mean() for a, b in zip(on_grids, wanted)])
    print(f"llama.cpp: dense within {worst:.2g} of logits up to {largest:.3g}; on grids with the adapter "
          f"{found:.2g} (root mean square), 8-bit inputs in ONNX Runtime {same_rounding:.2g}; "
          f"the likeliest word is the same in {100 * agree:.1f} %")


main()
