#!/usr/bin/env python3
"""Exchanges files with the official `safetensors` package in both directions and compares all values and refusals.

usage: against_pypi.py PROGRAM      PROGRAM: the test binary rewrite_safetensors
"""
import json
import os
import struct
import subprocess
import sys
import tempfile

import numpy as np
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

PROGRAM = sys.argv[1]
TYPES = ["float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8",
         "bool"]


def rewrite(source, target, *words):
    return subprocess.run([PROGRAM, source, target, *words], stderr=subprocess.PIPE, text=True)


def expect(condition, what):
    if not condition:
        sys.exit(f"failed: {what}")


def tensors():
    random = np.random.default_rng(7)
    values = {f"{name}.{i}": np.asarray(random.normal(size=shape) * 100).astype(name)
              for name in TYPES for i, shape in enumerate([(3, 5), (7,), (), (0, 4), (2, 1, 3)])}
    values["strange \"name\" ☃"] = np.arange(4, dtype="float32")
    edges = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-8, 6e-8, 65504, 65520, 1e38, 2.0**-25, 1 + 2.0**-11]
    values["edges"] = np.array(edges, dtype="float32")
    return values


def check_there_and_back(folder):
    values, metadata = tensors(), {"format": "pt", "note": "ü\n\"quoted\""}
    theirs, ours = f"{folder}/theirs.safetensors", f"{folder}/ours.safetensors"
    save_file(values, theirs, metadata)
    result = rewrite(theirs, ours)
    expect(result.returncode == 0, result.stderr)
    back = load_file(ours)
    expect(set(back) == set(values), "names differ")
    for name, value in values.items():
        found = back[name]
        same = found.dtype == value.dtype and found.shape == value.shape and found.tobytes() == value.tobytes()
        expect(same, f"{name} differs")
    with safe_open(ours, "np") as file:
        expect(file.metadata() == metadata, "metadata differs")
    print(f"{len(values)} tensors there and back")


def check_rounding(folder):
    random = np.random.default_rng(8)
    bits = random.integers(0, 1 << 32, 200_000, dtype=np.uint64).astype(np.uint32)
    values = {"w": bits.view(np.float32)}
    save_file(values, f"{folder}/w.safetensors")
    expect(rewrite(f"{folder}/w.safetensors", f"{folder}/half.safetensors", "F16").returncode == 0, "F16")
    with np.errstate(over="ignore"):
        half = load_file(f"{folder}/half.safetensors")["w"]
        same = np.array_equal(half, values["w"].astype(np.float16), equal_nan=True)
        expect(same, "F16 rounding differs from numpy's")
    print("200000 values rounded to F16 as numpy does")


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


BROKEN = {
    "overlap": ({"a": entry("F32", [2], 0, 8), "b": entry("F32", [2], 4, 12)}, 12),
    "gap": ({"a": entry("F32", [1], 0, 4), "b": entry("F32", [1], 8, 12)}, 12),
    "out of range": ({"a": entry("F32", [4], 0, 16)}, 8),
    "too long": ({"a": entry("F32", [1], 0, 4)}, 8),
    "wrong size": ({"a": entry("F32", [3], 0, 8)}, 8),
    "unknown dtype": ({"a": entry("F31", [1], 0, 4)}, 4),
    "huge": ({"a": entry("F32", [1 << 60, 1 << 60], 0, 4)}, 4),
    "metadata": ({"__metadata__": {"a": 1}}, 0),
    "negative": ({"a": entry("F32", [-1], 0, 4)}, 4),
}


def check_refusals(folder):
    path = f"{folder}/broken.safetensors"
    for what, (header, size) in BROKEN.items():
        text = json.dumps(header).encode()
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + bytes(size))
        result = rewrite(path, f"{folder}/never.safetensors")
        refused = result.returncode == 2 and "broken.safetensors" in result.stderr
        expect(refused, f"{what} was not refused by us: {result.stderr}")
        expect(not os.path.exists(f"{folder}/never.safetensors"), f"{what} left a file")
        try:
            load_file(path)
        except Exception:
            continue
        sys.exit(f"{what} is accepted by the official reader; the case proves nothing")
    print(f"{len(BROKEN)} broken files refused by both")


def check_checkpoints(folder):
    data = os.environ.get("COMERA_DATA")
    if not data:
        print("COMERA_DATA is not set: real checkpoints are not compared")
        return
    for name in ("all-MiniLM-L6-v2", "stories260K"):
        path = f"{data}/checkpoints/{name}/model.safetensors"
        expect(rewrite(path, f"{folder}/copy.safetensors").returncode == 0, name)
        theirs, ours = load_file(path), load_file(f"{folder}/copy.safetensors")
        same = set(theirs) == set(ours) and all(np.array_equal(theirs[key], ours[key]) for key in theirs)
        expect(same, f"{name} differs")
        print(f"{name}: {len(theirs)} tensors equal")


def main():
    with tempfile.TemporaryDirectory() as folder:
        for check in (check_there_and_back, check_rounding, check_refusals, check_checkpoints):
            check(folder)


if __name__ == "__main__":
    main()
