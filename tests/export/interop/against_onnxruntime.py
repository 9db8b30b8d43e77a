#!/usr/bin/env python3
"""Runs ONNX's checker and ONNX Runtime on graphs that comera exports.

usage: against_onnxruntime.py check PROGRAM FOLDER...      every form, type and a few opsets, against `comera predict`
       against_onnxruntime.py time BATCH LENGTH FILE...    milliseconds of each file at one thread (processor time of
                                                           that thread, so other load hardly matters)
       against_onnxruntime.py faster BATCH LENGTH DENSE FILE...   the same; fails unless every file is faster than DENSE
"""
import itertools
import json
import os
import statistics
import subprocess
import sys
import time

import numpy as np
import onnx
import onnxruntime as ort

WORDS = ["red", "green", "blue", "round", "square", "and"]
VARIANTS = [*itertools.product(["tt", "factors", "dense"], ["fp32", "fp16"], [17], ["none"]),
            ("tt", "fp32", 13, "none"), ("factors", "fp32", 20, "none"), ("tt", "fp32", 21, "none")]
ON_GRIDS = [("tt", "fp32", 17, "none"), ("tt", "fp32", 21, "qdq"), ("factors", "fp16", 21, "qdq"),
            ("tt", "fp32", 21, "nbits"), ("tt", "fp16", 18, "nbits")]


def expect(condition, what):
    if not condition:
        sys.exit(f"failed: {what}")


def comera(program, *words, text=None):
    result = subprocess.run([program, *words], input=text, capture_output=True, text=True)
    expect(result.returncode == 0, f"{' '.join(words)}: {result.stderr}")
    return result.stdout


def session(path):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    # Without it, products with weights on grids round their other factor to 8 bits.
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def feeds(running, ids, mask):
    positions = np.broadcast_to(np.arange(ids.shape[1], dtype=np.int64), ids.shape)
    given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids), "position_ids": positions}
    return {one.name: given[one.name] for one in running.get_inputs()}


def padded(rows):
    length = max(map(len, rows))
    ids = np.array([row + [0] * (length - len(row)) for row in rows], dtype=np.int64)
    mask = np.array([[1] * len(row) + [0] * (length - len(row)) for row in rows], dtype=np.int64)
    return ids, mask


def tokens(text):
    vocabulary = [line.rstrip("\n") for line in open("vocab.txt")]
    return [2] + [vocabulary.index(word) for word in text.split()] + [3]


def texts(count, random):
    return [" ".join(random.choice(WORDS, size=random.integers(1, 7))) for _ in range(count)]


def softmax(logits):
    shares = np.exp(logits.astype(np.float64) - logits.max(-1, keepdims=True))
    return shares / shares.sum(-1, keepdims=True)


def check_predictions(program, folder, running, bound):
    """Compares probabilities. Both float forwards are within the bound of the same reference, and a probability changes
    by at most half as much as its logits.
    """
    random = np.random.default_rng(5)
    labels = json.load(open(f"{folder}/config.json"))["id2label"]
    worst = 0
    for count in (1, 7):
        lines = texts(count, random)
        predicted = json.loads(comera(program, "predict", folder, "--json",
                                      text="".join(line + "\n" for line in lines)))["predictions"]
        shares = softmax(running.run(["logits"], feeds(running, *padded([tokens(line) for line in lines])))[0])
        expect(shares.shape == (count, len(labels)), f"{folder}: logits of shape {shares.shape}")
        for one, share in zip(predicted, shares):
            found = [share[int(index)] for index, label in labels.items() if label == one["label"]]
            worst = max(worst, abs(found[0] - one["probability"]))
    expect(worst <= bound, f"{folder}: probabilities differ by {worst}, {bound} is allowed")
    return worst


def random_outputs(running, vocabulary):
    random = np.random.default_rng(6)
    outputs = []
    for batch, length in ((1, 5), (7, 13), (1, 1)):
        rows = [list(random.integers(0, vocabulary, size=max(1, length - 2 * b))) for b in range(batch)]
        ids, mask = padded(rows)
        result = running.run(None, feeds(running, ids, mask))[0]
        outputs.append(result[mask.astype(bool)] if result.ndim == 3 and result.shape[1] == length else result)
    return outputs


def check(program, folders):
    for folder in folders:
        config = json.load(open(f"{folder}/config.json"))
        reference = None
        on_grids = any("base" in chain for chain in config.get("comera", {}).get("tensors", {}).values())
        for form, dtype, opset, grids in ON_GRIDS if on_grids else VARIANTS:
            path = f"{folder}.{form}.{dtype}.{opset}.{grids}.onnx"
            how = ("--form", form, "--dtype", dtype, "--opset", str(opset), "--quantized", grids)
            report = json.loads(comera(program, "export", folder, "-o", path, *how, "--json"))
            onnx.checker.check_model(path, full_check=True)
            expect(os.path.getsize(path) == report["bytes"], f"{path}: says {report['bytes']} bytes")
            comera(program, "export", folder, "-o", "again.onnx", "--force", *how)
            expect(open(path, "rb").read() == open("again.onnx", "rb").read(), f"{path}: exported twice, other bytes")
            running = session(path)
            outputs = random_outputs(running, config["vocab_size"])
            reference = outputs if reference is None else reference
            apart = max(np.abs(a.astype(np.float64) - b).max() for a, b in zip(outputs, reference))
            expect(apart <= 2 * report["bound"] + 1e-12,
                   f"{path}: {apart} from the first variant, bound {report['bound']}")
            classifies = config["architectures"][0].endswith("Classification")
            worst = check_predictions(program, folder, running, report["bound"]) if classifies else 0
            print(f"{path}: {report['bytes']} bytes, "
                  f"evaluator {report['largest_difference']:.2e} of {report['bound']:.2e}, "
                  f"variants {apart:.2e}, probabilities {worst:.2e}")
        if config["model_type"] == "llama":
            check_past(program, folder)


def check_past(program, folder):
    """Ten tokens of three texts: one at a time with the past gives the same logits as all at once."""
    config = json.load(open(f"{folder}/config.json"))
    report = json.loads(comera(program, "export", folder, "-o", "past.onnx", "--force", "--with-past", "--json"))
    comera(program, "export", folder, "-o", "plain.onnx", "--force")
    onnx.checker.check_model("past.onnx", full_check=True)
    with_past, plain = session("past.onnx"), session("plain.onnx")
    ids = np.random.default_rng(7).integers(0, config["vocab_size"], size=(3, 10))
    expected = plain.run(["logits"], feeds(plain, ids, np.ones_like(ids)))[0]
    size = [3, config["num_key_value_heads"], 0, config["head_dim"]]
    past = {one.name: np.zeros(size, dtype=np.float32)
            for one in with_past.get_inputs() if one.name.startswith("past_key_values.")}
    expect(len(past) == 2 * config["num_hidden_layers"], "two inputs per layer hold the past")
    names, worst = [one.name for one in with_past.get_outputs()], 0
    for at in range(ids.shape[1]):
        given = {"input_ids": ids[:, at:at + 1], "attention_mask": np.ones((3, at + 1), dtype=np.int64),
                 "position_ids": np.full((3, 1), at)}
        answer = dict(zip(names, with_past.run(None, {**given, **past})))
        past = {name: answer[name.replace("past_key_values", "present")] for name in past}
        worst = max(worst, np.abs(answer["logits"][:, 0] - expected[:, at]).max())
    expect(worst <= 2 * report["bound"], f"{folder}: with a past logits differ by {worst}, bound {report['bound']}")
    print(f"{folder}: with a past {worst:.2e} from all at once")


def measure(batch, length, paths):
    """Median seconds of each file at one thread. The files run in turn, so that disturbances affect all of them."""
    running = {path: session(path) for path in paths}
    ids = np.random.default_rng(1).integers(5, 1000, size=(batch, length))
    seconds = {path: [] for path in paths}
    for _ in range(9):
        for path, one in running.items():
            start = time.process_time()
            one.run(None, feeds(one, ids, np.ones_like(ids)))
            seconds[path].append(time.process_time() - start)
    medians = {path: statistics.median(seconds[path][1:]) for path in paths}
    for path in paths:
        print(f"{path}  {os.path.getsize(path)} bytes  {1000 * medians[path]:.1f} ms  "
              f"{medians[paths[0]] / medians[path]:.2f}x the first")
    return medians


def faster(batch, length, paths):
    medians = measure(batch, length, paths)
    for path in paths[1:]:
        expect(medians[path] < medians[paths[0]], f"{path} is slower than {paths[0]}")


if __name__ == "__main__":
    if sys.argv[1] == "time":
        measure(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
    elif sys.argv[1] == "faster":
        faster(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
    else:
        check(sys.argv[2], sys.argv[3:])
