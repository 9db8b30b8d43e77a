#!/usr/bin/env python3
"""Stacks the encoder layers of a BERT folder several times: a deeper model of the same width with real weights.

usage: recipes/stack_layers.py IN OUT --times 2
"""

import argparse
import json
import os
import re
import shutil
import struct


def read_safetensors(path):
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        return header, file.read()


def stacked(header, layers, times):
    """(name, description of the source tensor), sorted by name."""
    rows = []
    for name, tensor in header.items():
        if name == "__metadata__":
            continue
        match = re.search(r"(?<=\.layer\.)\d+(?=\.)", name)
        if not match:
            rows.append((name, tensor))
            continue
        for copy in range(times):
            number = int(match.group()) + copy * layers
            rows.append((name[: match.start()] + str(number) + name[match.end() :], tensor))
    return sorted(rows, key=lambda row: row[0])


def write_safetensors(path, rows, data):
    header, place = {}, 0
    for name, tensor in rows:
        begin, end = tensor["data_offsets"]
        header[name] = {**tensor, "data_offsets": [place, place + end - begin]}
        place += end - begin
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, tensor in rows:
            begin, end = tensor["data_offsets"]
            file.write(data[begin:end])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source")
    parser.add_argument("out")
    parser.add_argument("--times", type=int, default=2)
    options = parser.parse_args()
    with open(os.path.join(options.source, "config.json")) as file:
        config = json.load(file)
    header, data = read_safetensors(os.path.join(options.source, "model.safetensors"))
    os.makedirs(options.out)
    for name in os.listdir(options.source):
        path = os.path.join(options.source, name)
        if os.path.isfile(path) and name.endswith((".txt", ".json")):
            shutil.copy(path, options.out)
    rows = stacked(header, config["num_hidden_layers"], options.times)
    write_safetensors(os.path.join(options.out, "model.safetensors"), rows, data)
    config["num_hidden_layers"] *= options.times
    with open(os.path.join(options.out, "config.json"), "w") as file:
        json.dump(config, file, indent=2)


if __name__ == "__main__":
    main()
