#!/usr/bin/env python3
"""Gives a tiny model what published ones have: numbers of half precision, or a pooler that embeddings do not use.

usage: weights.py half|pooler MODEL.safetensors
"""
import json
import math
import struct
import sys


def main():
    kind, path = sys.argv[1:]
    with open(path, "rb") as file:
        header, data = json.loads(file.read(struct.unpack("<Q", file.read(8))[0])), file.read()
    header.pop("__metadata__", None)
    tensors = {name: (entry["shape"], data[slice(*entry["data_offsets"])]) for name, entry in header.items()}
    if kind == "pooler":
        prefix = next(name for name in tensors if "embeddings.word" in name).split("embeddings")[0]
        width = tensors[prefix + "embeddings.word_embeddings.weight"][0][1]
        tensors[prefix + "pooler.dense.weight"] = ([width, width], bytes(4 * width * width))
        tensors[prefix + "pooler.dense.bias"] = ([width], bytes(4 * width))
    written, place, kind = {}, 0, "F16" if kind == "half" else "F32"
    for name, (shape, bits) in tensors.items():
        count = math.prod(shape)
        if kind == "F16":
            bits = struct.pack(f"<{count}e", *struct.unpack(f"<{count}f", bits))
            tensors[name] = (shape, bits)
        written[name] = {"dtype": kind, "shape": shape, "data_offsets": [place, place + len(bits)]}
        place += len(bits)
    text = json.dumps(written).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(bits for _, bits in tensors.values()))


if __name__ == "__main__":
    main()
