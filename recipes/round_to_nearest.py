#!/usr/bin/env python3
"""Rounds the linear weights of a Hugging Face folder to the nearest of 2^bits - 1 symmetric levels.

usage: round_to_nearest.py MODEL OUT --bits 8|4 [--group 32] [--exclude embed]

A scale (half precision, counted) belongs to one output's row, or to `--group` neighbours of a row. The output is a
float32 folder that any reader opens: it shows the loss of rounding, not its bytes. OUT/cut is the ratio of the linear
layers, OUT/bytes the size of the compressed file.
"""
import argparse
import array
import json
import os
import shutil
import struct
import sys


def halves(values):
    return struct.unpack(f"<{len(values)}e", struct.pack(f"<{len(values)}e", *values))


def rounded(row, top, group):
    out = array.array("f")
    for start in range(0, len(row), group):
        part = row[start:start + group]
        scale = halves([max(map(abs, part)) / top])[0]
        out.extend(scale * max(-top, min(top, round(x / scale))) if scale else 0.0 for x in part)
    return out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("out")
    parser.add_argument("--bits", type=int, required=True)
    parser.add_argument("--group", type=int, default=0)
    parser.add_argument("--exclude", default="embed")
    args = parser.parse_args()
    data = open(os.path.join(args.model, "model.safetensors"), "rb").read()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    if {entry["dtype"] for entry in header.values()} != {"F16"}:
        sys.exit("round_to_nearest.py: weights must have half precision (F16)")
    dense = small = 0
    tensors, written, offset = {}, [], 0
    for name, entry in sorted(header.items()):
        begin, end = (8 + length + x for x in entry["data_offsets"])
        values = array.array("f", struct.unpack(f"<{(end - begin) // 2}e", data[begin:end]))
        shape = entry["shape"]
        if len(shape) == 2 and args.exclude not in name:
            group = args.group or shape[1]
            count = shape[0] * shape[1]
            dense += 2 * count
            small += count * args.bits // 8 + 2 * shape[0] * -(-shape[1] // group)
            whole = array.array("f")
            for i in range(shape[0]):
                whole.extend(rounded(values[i * shape[1]:(i + 1) * shape[1]], 2 ** (args.bits - 1) - 1, group))
            values = whole
        tensors[name] = {"dtype": "F32", "shape": shape, "data_offsets": [offset, offset + 4 * len(values)]}
        offset += 4 * len(values)
        written.append(values)
    os.makedirs(args.out)
    for name in os.listdir(args.model):
        if name != "model.safetensors":
            shutil.copy(os.path.join(args.model, name), args.out)
    head = json.dumps(tensors).encode()
    with open(os.path.join(args.out, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(head)) + head)
        for values in written:
            values.tofile(file)
    for name, text in (("cut", f"{dense / small:.4f}"), ("bytes", str(len(data) - dense + small))):
        with open(os.path.join(args.out, name), "w", encoding="utf-8") as file:
            file.write(text + "\n")


if __name__ == "__main__":
    main()
