#!/usr/bin/env python3
"""Writes a seed corpus and a dictionary for every fuzz target into FOLDER/<target>/ and FOLDER/<target>.dict."""

import json
import pathlib
import struct
import sys


def safetensors(header, data=b""):
    text = json.dumps(header).encode() if isinstance(header, dict) else header
    return struct.pack("<Q", len(text)) + text + data


def tensor(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


CHAIN = {"kind": "tt", "shape": [6, 4], "orientation": "in_out", "in_modes": [2, 2], "out_modes": [3, 2],
         "ranks": [1, 2, 3, 2, 1], "initial_ranks": [1, 2, 4, 2, 1], "diagonals": "beside"}
TABLE = {"kind": "ttm", "shape": [7, 6], "row_modes": [4, 2], "column_modes": [3, 2], "ranks": [1, 3, 1],
         "initial_ranks": [1, 3, 1], "diagonals": "folded"}
SORTED = {"kind": "tt", "shape": [6, 8], "orientation": "in_out", "in_modes": [4, 2], "out_modes": [6], "ranks": [1, 3, 4, 1],
          "initial_ranks": [1, 3, 4, 1], "diagonals": "folded", "sorted": True, "gauge": True}
PAIR = {**SORTED, "shape": [8, 6], "in_modes": [8], "ranks": [1, 4, 1], "initial_ranks": [1, 4, 1], "sorted": False, "conv1d": True}
BLOCK = {"model_type": "bert", "hidden_size": 4,
         "comera": {"version": 1, "threshold": 0.01, "model": {}, "tensors": {"a.query": CHAIN, "words": TABLE, "b": SORTED, "c": PAIR}}}
EMPTIED = {"comera": {"version": 1, "tensors": {"a": {**CHAIN, "ranks": [1, 0, 0, 0, 1]}}}}

PLANS = [{"name": "up", "shape": [32, 16], "form": "tt", "in_modes": [4, 4], "out_modes": [4, 8], "ranks": [1, 4, 12, 8, 1], "gauge": False},
         {"name": "down", "form": "lowrank", "rank": 7, "gauge": True}, {"name": "conv", "form": "auto", "rank": 3},
         {"name": "words", "form": "ttm", "row_modes": [10, 10], "column_modes": [4, 4], "rank": 7},
         {"name": "wide", "form": "dense", "reason": "large"}]


def message(*fields):
    """Protobuf: a number as a varint, anything else with its length in front; all numbers here are below 128."""
    out = b""
    for number, value in fields:
        payload = value if isinstance(value, bytes) else value.encode() if isinstance(value, str) else None
        out += bytes([number << 3, value]) if payload is None else bytes([number << 3 | 2, len(payload)]) + payload
    return out


def onnx_node(op, inputs, output, *attributes):
    return message(*[(1, one) for one in inputs], (2, output), (4, op), *[(5, one) for one in attributes])


def onnx_model(dims, raw, nodes, *extra):
    """Nodes are made already, or the input and the output of a MatMul."""
    nodes = [one if isinstance(one, bytes) else onnx_node("MatMul", (one[0], "w"), one[1]) for one in nodes]
    tensor = message(*[(1, dim) for dim in dims], (2, 1), (8, "w"), (9, raw), *extra)
    graph = message(*[(1, one) for one in nodes], (5, tensor), (11, message((1, "x"))), (12, message((1, "y"))))
    return message((1, 8), (8, message((2, 17)))) + bytes([7 << 3 | 2, len(graph)]) + graph


BRANCH = message((1, "then_branch"), (6, message((1, onnx_node("MatMul", ("x", "t"), "r")), (12, message((1, "r"))))))
READERS = [onnx_node("Transpose", ("w",), "t"), onnx_node("If", ("x",), "y", BRANCH),
           onnx_node("Gather", ("w", "x"), "z", message((1, "axis"), (3, 1)))]
EXTERNAL = (13, message((1, "location"), (2, "../w")))
VOCAB = "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##b", "hello", "##ing", "é", "中", "!"]) + "\n"

SEEDS = {
    "fuzz_safetensors": [
        safetensors({}),
        safetensors({"__metadata__": {"format": "pt"}, "w": tensor("F32", [2], 0, 8), "b": tensor("BF16", [1, 2], 8, 12)}, bytes(12)),
        safetensors({"e": tensor("F64", [0, 3], 0, 0), "s": tensor("U8", [], 0, 1), "x.tt.0": tensor("F16", [1], 1, 3)}, bytes(3)),
        safetensors({"w": tensor("F32", [1 << 60, 16], 0, 0)}),
        safetensors(b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"w":{}}', bytes(4)),
    ],
    "fuzz_config": [json.dumps(BLOCK, indent=1).encode(), json.dumps(EMPTIED).encode(), b'{"a": [1.5e3, true, null, "\\u00e9"]}'],
    "fuzz_modules": [b'[{"type": "sentence_transformers.models.Transformer", "path": "0_Transformer"}, {"type": "x.Pooling", "path": "../y"}]'],
    "fuzz_index": [b'{"metadata": {"total_size": 8}, "weight_map": {"a": "model-00001-of-00001.safetensors", "b": "../x.safetensors"}}'],
    "fuzz_onnx": [onnx_model([1, 1], bytes(4), [("x", "y")]), onnx_model([1, 1], bytes(4), [("z", "y"), ("y", "z")]),
                  onnx_model([2, 2], b"", [("x", "y")], EXTERNAL, (14, 1)),
                  onnx_model([2, 2], bytes(16), READERS)],
    "fuzz_options": [b'verb = "pretrain"\nrank = 8\nlr = 1e-3\nform = "tt"\ndata = ["a.tsv", "b"]\ntarget_size = "1.5MB"\nsave-every = "20m"\n',
                     b"label = 'x'\nshuffle = true\nsave_every = 500\n[hashes]\n"],
    "fuzz_plan": [json.dumps({"comera_plan": 1, "ratio": 2.5, "layers": PLANS}, indent=1).encode(), b"*query=form:tt;modes:4x4|32;rank:8;gauge:off",
                  json.dumps({"comera_plan": 1, "layers": [{**PLANS[0], "ranks": [1, 5, 12, 8, 1]}, {**PLANS[1], "rank": 17}]}).encode()],
    "fuzz_rows": [b"premise\thypothesis\tlabel\na b\tc\tyes\nd\te\tno\n", b"label\tpremise\thypothesis\r\n1\tx\t\xc3\xa9\r\n",
                  b'{"premise": "a", "hypothesis": "b\\n", "label": "x"}\n{"hypothesis": 1, "label": 2, "premise": true}\n'],
    "fuzz_vocab": [VOCAB.encode() + b"\0hello, hElloing ab!", VOCAB.encode() + "\0été 中a".encode(), b"[UNK]\n[CLS]\n[CLS]\n"],
}
WORDS = {
    "fuzz_safetensors": ["dtype", "shape", "data_offsets", "__metadata__", "F32", "BF16", "F16", "F64", ".tt.0", ".rank.0", "1152921504606846976"],
    "fuzz_config": ["comera", "version", "threshold", "model", "tensors", "kind", "ttm", "tt", "shape", "orientation", "in_out", "in_modes", "out_modes",
                    "row_modes", "column_modes", "ranks", "initial_ranks", "diagonals", "beside", "folded", "sorted", "gauge", "conv1d", "true", "1099511627776"],
    "fuzz_modules": ["Transformer", "type", "path", "../", "./"],
    "fuzz_index": ["weight_map", ".safetensors", "../"],
    "fuzz_onnx": ["location", "offset", "length", "Gather", "Gemm", "Constant", "Identity", "Transpose", "Cast", "axis", "perm", "value", "\\x3a", "\\x2a", "\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\x7f"],
    "fuzz_options": ["verb", "rank", "lr", "form", "data", "target-size", "save-every", "label", "shuffle", "[hashes]", "1e308", "inf", "nan"],
    "fuzz_plan": ["comera_plan", "ratio", "layers", "name", "shape", "form", "dense", "auto", "tt", "ttm", "lowrank", "rank", "ranks", "in_modes",
                  "out_modes", "row_modes", "column_modes", "gauge", "reason", "up", "down", "conv", "words", "wide", "1099511627776", "true"],
    "fuzz_rows": ["premise", "hypothesis", "label", "\\x09", "\\x0d\\x0a", "\\xef\\xbb\\xbf"],
    "fuzz_vocab": ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]", "##", "\\xcc\\x81", "\\xe4\\xb8\\xad"],
}


def main():
    folder = pathlib.Path(sys.argv[1])
    for target, seeds in SEEDS.items():
        (folder / target).mkdir(parents=True, exist_ok=True)
        for number, seed in enumerate(seeds):
            (folder / target / f"seed{number}").write_bytes(seed)
        (folder / f"{target}.dict").write_text("".join(f'"{word}"\n' for word in WORDS[target]))


if __name__ == "__main__":
    main()
