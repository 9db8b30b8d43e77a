#!/usr/bin/env python3
"""Rotates the residual stream of a llama folder: the same function, with weights that lie on no grid.

usage: rotate.py MODEL OUT [--seed 0]

The gains of the norms are folded into the weights that read the normed stream, the head is untied, and every weight
that reads or writes the stream is multiplied by a random orthogonal matrix (QuaRot, arXiv 2404.00456, section 4). RMS
norms without gains commute with it. OUT holds float32. Prints, for the linear layers before and after, the share of
weights that lie within 5 % of a step of a point of Q4_1's grid in their group of 32; a continuous distribution has
about 10 %, and the two ends of a group, which lie on it always, add 6 %. Needs numpy.
"""
import argparse
import json
import os
import shutil
import struct

import numpy

TYPES = {"F32": numpy.float32, "F16": numpy.float16}
SIDE_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json")


def read_tensors(path):
    with open(path, "rb") as file:
        length = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(length))
        data = file.read()
    header.pop("__metadata__", None)
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        yield name, numpy.frombuffer(data[begin:end], TYPES[entry["dtype"]]).reshape(entry["shape"]).astype(float)


def write_tensors(path, tensors):
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, tensor in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [offset, offset + 4 * tensor.size]}
        offset += 4 * tensor.size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors.values():
            file.write(tensor.astype("<f4").tobytes())


def share_on_grid(tensors):
    near = count = 0
    for name, tensor in tensors.items():
        if not name.endswith("_proj.weight"):
            continue
        groups = tensor.reshape(-1, 32)
        least = groups.min(1, keepdims=True)
        step = (groups.max(1, keepdims=True) - least) / 15
        place = (groups - least) / numpy.where(step > 0, step, 1)
        near += numpy.count_nonzero(abs(place - place.round()) < 0.05)
        count += groups.size
    return near / count


def rotated(tensors, layers, turn):
    """Weights [out, in]: those that read the stream take (gains, turn) on the right, those that write it on the left."""
    new = {"model.embed_tokens.weight": tensors["model.embed_tokens.weight"] @ turn}
    ones = numpy.ones(len(turn))
    for i in range(layers):
        layer = f"model.layers.{i}."
        readers = {"input_layernorm": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
                   "post_attention_layernorm": ("mlp.gate_proj", "mlp.up_proj")}
        for norm, names in readers.items():
            gains = tensors[f"{layer}{norm}.weight"]
            new[f"{layer}{norm}.weight"] = ones
            for name in names:
                new[f"{layer}{name}.weight"] = tensors[f"{layer}{name}.weight"] * gains @ turn
        for name in ("self_attn.o_proj", "mlp.down_proj"):
            new[f"{layer}{name}.weight"] = turn.T @ tensors[f"{layer}{name}.weight"]
    head = tensors.get("lm_head.weight", tensors["model.embed_tokens.weight"])
    new["lm_head.weight"] = head * tensors["model.norm.weight"] @ turn
    new["model.norm.weight"] = ones
    missing = set(tensors) - set(new)
    if missing:
        raise SystemExit(f"rotate.py: {sorted(missing)[0]}: not a weight of a llama model without biases")
    return new


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("out")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    config = json.load(open(os.path.join(args.model, "config.json"), encoding="utf-8"))
    tensors = dict(read_tensors(os.path.join(args.model, "model.safetensors")))
    width = config["hidden_size"]
    turn, upper = numpy.linalg.qr(numpy.random.default_rng(args.seed).standard_normal((width, width)))
    turn *= numpy.sign(numpy.diag(upper))  # uniform over the orthogonal matrices
    new = rotated(tensors, config["num_hidden_layers"], turn)
    os.makedirs(args.out, exist_ok=True)
    write_tensors(os.path.join(args.out, "model.safetensors"), new)
    config["tie_word_embeddings"] = False
    with open(os.path.join(args.out, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file, indent=2)
    for name in SIDE_FILES:
        if os.path.exists(os.path.join(args.model, name)):
            shutil.copy(os.path.join(args.model, name), args.out)
    print(f"weights on the 4-bit grid of their group: {share_on_grid(tensors):.1%} before, {share_on_grid(new):.1%} after")


if __name__ == "__main__":
    main()
