#!/usr/bin/env python3
"""Writes the seed corpus of every fuzz target.

FOLDER/<target>/ gets the seeds and FOLDER/<target>.dict the dictionary. FOLDER/large/<target>/ gets inputs of
megabytes, which are run once each.
"""

import gzip
import json
import pathlib
import struct
import sys
import zlib

import template_seeds
import tokenizer_json_seeds


def text(value):
    return struct.pack("<Q", len(value)) + value


def key(name, kind, value):
    return text(name) + struct.pack("<I", kind) + value


def gguf(keys, tensors, data=b""):
    """Tensors are (name, sizes, type, offset)."""
    header = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)) + b"".join(keys)
    for name, sizes, kind, offset in tensors:
        header += text(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, kind, offset)
    return header + bytes(-len(header) % 64) + data


def png(colours, depth, lines, *chunks):
    """2 x 2 pixels; chunks are names and contents."""
    chunks = [b"IHDR", struct.pack(">IIBBBBB", 2, 2, depth, colours, 0, 0, 0), *chunks, b"IDAT", zlib.compress(lines),
              b"IEND", b""]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
        for name, content in zip(chunks[::2], chunks[1::2]))


EXIF = b"MM\0*" + struct.pack(">IHHHIHH", 8, 1, 0x112, 3, 1, 6, 0) + bytes(4)


def gguf_model(architecture, changes=None):
    """A model of one layer with four bytes as its tokens."""
    name = architecture.encode()
    numbers = {b"block_count": 1, b"context_length": 16, b"embedding_length": 4, b"feed_forward_length": 4,
               b"attention.head_count": 2, b"attention.head_count_kv": 1, b"rope.dimension_count": 2, b"vocab_size": 4}
    numbers = {name + b"." + k: v for k, v in numbers.items()} | (changes or {})
    keys = [key(b"general.architecture", 8, text(name))]
    keys += [key(k, 4, struct.pack("<I", v)) for k, v in numbers.items()]
    keys += [key(name + b".attention.layer_norm_rms_epsilon", 6, struct.pack("<f", 1e-5)),
             key(name + b".rope.freq_base", 6, struct.pack("<f", 1e4))]
    pieces = [b"a", b"b", b"ab", b"<end>"]
    keys += [key(b"tokenizer.ggml.model", 8, text(b"gpt2")), key(b"tokenizer.ggml.pre", 8, text(b"gpt-2")),
             key(b"tokenizer.ggml.tokens", 9, struct.pack("<IQ", 8, 4) + b"".join(text(p) for p in pieces)),
             key(b"tokenizer.ggml.token_type", 9, struct.pack("<IQ4i", 5, 4, 1, 1, 1, 3)),
             key(b"tokenizer.ggml.merges", 9, struct.pack("<IQ", 8, 1) + text(b"a b")),
             key(b"tokenizer.ggml.eos_token_id", 4, struct.pack("<I", 3)),
             key(b"tokenizer.chat_template", 8, text(b"{{ messages[0].content }}"))]
    shapes = {b"token_embd.weight": [4, 4], b"output_norm.weight": [4], b"blk.0.attn_norm.weight": [4],
              b"blk.0.ffn_norm.weight": [4], b"blk.0.attn_q.weight": [4, 4], b"blk.0.attn_k.weight": [4, 2],
              b"blk.0.attn_v.weight": [4, 2], b"blk.0.attn_output.weight": [4, 4], b"blk.0.ffn_gate.weight": [4, 4],
              b"blk.0.ffn_up.weight": [4, 4], b"blk.0.ffn_down.weight": [4, 4]}
    if architecture == "qwen3":
        shapes |= {b"blk.0.attn_q_norm.weight": [2], b"blk.0.attn_k_norm.weight": [2]}
    tensors = [(tensor_name, sizes, 0, 64 * i) for i, (tensor_name, sizes) in enumerate(shapes.items())]
    return gguf(keys, tensors, bytes(64 * len(tensors)))


ADAPTER = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "use_rslora": False, "use_dora": False, "fan_in_fan_out": False,
           "bias": "none", "target_modules": ["q_proj"], "rank_pattern": {"layers.1.mlp.down_proj": 2},
           "alpha_pattern": {"q_proj": 16}, "modules_to_save": None, "base_model_name_or_path": "base"}


def safetensors(header, data=b""):
    text = json.dumps(header).encode() if isinstance(header, dict) else header
    return struct.pack("<Q", len(text)) + text + data


def tensor(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


CHAIN = {"kind": "tt", "shape": [6, 4], "orientation": "in_out", "in_modes": [2, 2], "out_modes": [3, 2],
         "ranks": [1, 2, 3, 2, 1], "initial_ranks": [1, 2, 4, 2, 1], "diagonals": "beside"}
TABLE = {"kind": "ttm", "shape": [7, 6], "row_modes": [4, 2], "column_modes": [3, 2], "ranks": [1, 3, 1],
         "initial_ranks": [1, 3, 1], "diagonals": "folded"}
SORTED = {"kind": "tt", "shape": [6, 8], "orientation": "in_out", "in_modes": [4, 2], "out_modes": [6],
          "ranks": [1, 3, 4, 1], "initial_ranks": [1, 3, 4, 1], "diagonals": "folded", "sorted": True, "gauge": True}
PAIR = {**SORTED, "shape": [8, 6], "in_modes": [8], "ranks": [1, 4, 1], "initial_ranks": [1, 4, 1], "sorted": False,
        "conv1d": True}
BLOCK = {"model_type": "bert", "hidden_size": 4,
         "comera": {"version": 1, "threshold": 0.01, "model": {},
                    "tensors": {"a.query": CHAIN, "words": TABLE, "b": SORTED, "c": PAIR}}}
EMPTIED = {"comera": {"version": 1, "tensors": {"a": {**CHAIN, "ranks": [1, 0, 0, 0, 1]}}}}

PLANS = [{"name": "up", "shape": [32, 16], "form": "tt", "in_modes": [4, 4], "out_modes": [4, 8],
          "ranks": [1, 4, 12, 8, 1], "gauge": False},
         {"name": "down", "form": "lowrank", "rank": 7, "gauge": True}, {"name": "conv", "form": "auto", "rank": 3},
         {"name": "words", "form": "ttm", "row_modes": [10, 10], "column_modes": [4, 4], "rank": 7},
         {"name": "wide", "form": "dense", "reason": "large"}]


def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def message(*fields):
    """Protobuf: a number is a varint; any other value follows its length."""
    out = []
    for number, value in fields:
        payload = value if isinstance(value, bytes) else value.encode() if isinstance(value, str) else None
        out += ([varint(number << 3), varint(value)] if payload is None else
                [varint(number << 3 | 2), varint(len(payload)), payload])
    return b"".join(out)


def onnx_node(op, inputs, output, *attributes):
    return message(*[(1, one) for one in inputs], (2, output), (4, op), *[(5, one) for one in attributes])


def onnx_model(dims, raw, nodes, *extra):
    """`nodes` has finished nodes, or the input and the output of a MatMul."""
    nodes = [one if isinstance(one, bytes) else onnx_node("MatMul", (one[0], "w"), one[1]) for one in nodes]
    tensor = message(*[(1, dim) for dim in dims], (2, 1), (8, "w"), (9, raw), *extra)
    graph = message(*[(1, one) for one in nodes], (5, tensor), (11, message((1, "x"))), (12, message((1, "y"))))
    return message((1, 8), (8, message((2, 17)))) + message((7, graph))


BRANCH = message((1, "then_branch"), (6, message((1, onnx_node("MatMul", ("x", "t"), "r")), (12, message((1, "r"))))))
READERS = [onnx_node("Transpose", ("w",), "t"), onnx_node("If", ("x",), "y", BRANCH),
           onnx_node("Gather", ("w", "x"), "z", message((1, "axis"), (3, 1)))]
EXTERNAL = (13, message((1, "location"), (2, "../w")))
VOCAB = "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##b", "hello", "##ing", "é", "中", "!"]) + "\n"



def varint(value):
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def field(number, payload):
    """A protobuf field of any length."""
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def charsmap(blocks=3, texts=b"x\0y\0"):
    """A double array that maps "a" to "x" and "b" to "y".

    Unit 0 is the root, whose children begin at 256; units 600 and 601 are leaves.
    """
    units = [0x80000000] * (256 * blocks)
    units[0] = 256 << 10
    for letter, leaf, value in (("a", 600, 0), ("b", 601, 2)):
        index = 256 ^ ord(letter)
        units[index] = ord(letter) | 0x100 | (index ^ leaf) << 10
        units[leaf] = 0x80000000 | value
    return struct.pack("<I", 4 * len(units)) + struct.pack(f"<{len(units)}I", *units) + texts


def piece(text, score=0.0, kind=1):
    return field(1, field(1, text.encode()) + b"\x15" + struct.pack("<f", score) + bytes([3 << 3, kind]))


def sentencepiece(table, pieces=("x", "y", "\u2581", "\u2581x", "xy"), kind=1):
    """The first byte is the length of the text before the model."""
    body = piece("<unk>", 0, 2) + b"".join(piece(text, -i, kind) for i, text in enumerate(pieces))
    model = body + field(2, bytes([3 << 3, 1])) + field(3, field(1, b"nfkc") + field(2, table))
    return b"\x05ab xy" + model


BERT = {"model_type": "bert", "architectures": ["BertForSequenceClassification"], "vocab_size": 30, "hidden_size": 8,
        "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16, "max_position_embeddings": 8,
        "layer_norm_eps": 1e-12,
        "hidden_dropout_prob": 0.1, "id2label": {"0": "a", "1": "b"}}
LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 30, "hidden_size": 8,
         "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 16,
         "rms_norm_eps": 1e-6,
         "rope_theta": 10000.0, "eos_token_id": [2]}

POSITION = {"epoch": 0, "step": 6, "window": 0, "samples": 24, "file": 0, "offset": 120, "line": 7, "token": 0,
            "inside": 0}
RANKS = {"late": True, "reached": False, "target_loss": 1.1, "target_size": 90.0, "surrogate_start": 1.0,
         "late_step": 4, "late_size": 120.0, "recent": [1.1, 1.0], "fallen": 2, "cut": 3}
OLD_STATE = {"schema_version": 1, "step": 6, "data": json.dumps(POSITION),
             "rank_table": {"bert.encoder.layer.0.attention.self.query": [1, 3, 4, 2, 1]}, "ranks": json.dumps(RANKS),
             "seconds": 0.5, "metrics_bytes": 1200, "tokens": 96, "best_step": 3, "best_loss": 1.0,
             "best_accuracy": 0.5,
             "evaluations_without_gain": 1, "evaluation_due": False, "recent_losses": [1.1, 1.0], "first_loss": 0.0}
SCORES = ["scored", "mse", "pearson", "spearman"]
CLICKS = {"count": 7, "clicks": 3, "auc": 0.7, "nce": None, "calibration": 1.1,
          "bins": [{"count": 4, "predicted": 0.1, "observed": 0.25}, {"count": 3, "predicted": 0.5, "observed": None}]}
LATER = {f"{group}_{name}": 1 for group, names in {"best": SCORES,
         "evaluation": ["step", "loss", "accuracy", "seconds", "counted", *SCORES],
         "stretch": ["loss", "correct", "seconds", "steps", "tokens", "counted"],
         "means": ["loss", "accuracy", "step_ms", "tokens_per_second"]}.items() for name in names}
STATE = {**OLD_STATE, **LATER, "best_clicks": CLICKS, "evaluation_clicks": {}, "schema_version": 2,
         "files": {"model.safetensors": "00"},
         "best_files": {"model.safetensors": "00"}}

SEEDS = {
    "fuzz_tokenizer_json": tokenizer_json_seeds.TOKENIZERS,
    "fuzz_expression": tokenizer_json_seeds.EXPRESSIONS,
    "fuzz_state": [json.dumps(OLD_STATE).encode(), json.dumps(STATE).encode(),
                   json.dumps({**STATE, "rank_table": {}, "ranks": "{}"}).encode()],
    "fuzz_sentencepiece": [sentencepiece(charsmap()), sentencepiece(b""),
                           sentencepiece(charsmap(), ("a", "aa", "aaa"), 4), b"\x03abc" + charsmap()],
    "fuzz_model_config": [json.dumps(BERT).encode(), json.dumps(LLAMA).encode(),
                          json.dumps({**BERT, **BLOCK, "model_type": "bert"}).encode()],
    "fuzz_byte_stream": [b"plain text\n", gzip.compress(b"a line\n" * 50),
                         bytes.fromhex("28b52ffd2005290000") + b"hello", b"PAR1"],
    "fuzz_tokenizer_config": [b'{"do_lower_case": true, "strip_accents": null, "tokenize_chinese_chars": false}',
                              b"[]"],
    "fuzz_gguf": [
        gguf([], []),
        gguf([key(b"general.alignment", 4, struct.pack("<I", 64)), key(b"general.name", 8, text(b"x")),
              key(b"words", 9, struct.pack("<IQ", 8, 2) + text(b"a") + text(b"b")),
              key(b"types", 9, struct.pack("<IQ", 5, 2) + bytes(8))], []),
        gguf([], [(b"a", [2, 3], 0, 0), (b"b", [32], 2, 32)], bytes(64)),
        gguf([], [(b"k", [256], 12, 0), (b"l", [256], 14, 160)], bytes(384)),
    ],
    "fuzz_safetensors": [
        safetensors({}),
        safetensors({"__metadata__": {"format": "pt"}, "w": tensor("F32", [2], 0, 8),
                     "b": tensor("BF16", [1, 2], 8, 12)}, bytes(12)),
        safetensors({"e": tensor("F64", [0, 3], 0, 0), "s": tensor("U8", [], 0, 1), "x.tt.0": tensor("F16", [1], 1, 3)},
                    bytes(3)),
        safetensors({"w": tensor("F32", [1 << 60, 16], 0, 0)}),
        safetensors(b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"w":{}}', bytes(4)),
    ],
    "fuzz_config": [json.dumps(BLOCK, indent=1).encode(), json.dumps(EMPTIED).encode(),
                    b'{"a": [1.5e3, true, null, "\\u00e9"]}'],
    "fuzz_modules": [b'[{"type": "sentence_transformers.models.Transformer", "path": "0_Transformer"}, '
                     b'{"type": "x.Pooling", "path": "../y"}]'],
    "fuzz_index": [b'{"metadata": {"total_size": 8}, '
                   b'"weight_map": {"a": "model-00001-of-00001.safetensors", "b": "../x.safetensors"}}'],
    "fuzz_onnx": [onnx_model([1, 1], bytes(4), [("x", "y")]), onnx_model([1, 1], bytes(4), [("z", "y"), ("y", "z")]),
                  onnx_model([2, 2], b"", [("x", "y")], EXTERNAL, (14, 1)),
                  onnx_model([2, 2], bytes(16), READERS)],
    "fuzz_options": [b'verb = "pretrain"\nrank = 8\nlr = 1e-3\nform = "tt"\ndata = ["a.tsv", "b"]\n'
                     b'target_size = "1.5MB"\nsave-every = "20m"\n',
                     b"label = 'x'\nshuffle = true\nsave_every = 500\n[hashes]\n"],
    "fuzz_plan": [json.dumps({"comera_plan": 1, "ratio": 2.5, "layers": PLANS}, indent=1).encode(),
                  b"*query=form:tt;modes:4x4|32;rank:8;gauge:off",
                  json.dumps({"comera_plan": 1, "layers": [{**PLANS[0], "ranks": [1, 5, 12, 8, 1]},
                                                           {**PLANS[1], "rank": 17}]}).encode()],
    "fuzz_idx": [b"\0\0\x08\x03" + struct.pack(">3I", 2, 2, 3) + bytes(range(12)),
                 b"\0\0\x08\x01" + struct.pack(">I", 3) + b"\1\2\0",
                 b"\0\0\x0d\x02" + struct.pack(">2I", 1, 1) + bytes(4),
                 b"\0\0\x08\x04" + struct.pack(">4I", 1, 2, 2, 3) + bytes(12),
                 b"\0\0\x08\x02" + struct.pack(">2I", 2**32 - 1, 2**32 - 1)],
    "fuzz_picture": [png(0, 8, bytes(6)), png(2, 8, bytes(14)), png(3, 8, bytes(6), b"PLTE", bytes(6)),
                     png(6, 16, bytes(34)), png(0, 8, bytes(6), b"eXIf", EXIF), png(0, 8, bytes(6), b"gAMA", bytes(4)),
                     b"\xff\xd8\xff\xe1" + struct.pack(">H", 8 + len(EXIF)) + b"Exif\0\0" + EXIF + b"\xff\xd9"],
    "fuzz_clicks": [b"y,x,c,t,i\n1,0.5,red,a|b,3\n0,,blue,,8\n", b"1 3:1 7:1 9:1\n-1 4:0.5 8:1 9:1\n",
                    b"0\t" + b"1\t" * 13 + b"68fd1e64\t" * 25 + b"80e26c9b\n",
                    b'{"format": "tsv", "header": false, "columns": ["y", "c"], "label": "y", "categories": ["c"]}',
                    b'{"label": "y", "dense": [{"column": "x", "transform": "standard", "mean": 1.5}], "categories": '
                    b'[{"column": "c", "encoding": "hash", "rows": 9, "pooling": "mean", "separator": "|"}]}'],
    "fuzz_rows": [b"premise\thypothesis\tlabel\na b\tc\tyes\nd\te\tno\n",
                  b"label\tpremise\thypothesis\r\n1\tx\t\xc3\xa9\r\n",
                  b'{"premise": "a", "hypothesis": "b\\n", "label": "x"}\n'
                  b'{"hypothesis": 1, "label": 2, "premise": true}\n'],
    "fuzz_vocab": [VOCAB.encode() + b"\0hello, hElloing ab!", VOCAB.encode() + "\0été 中a".encode(),
                   b"[UNK]\n[CLS]\n[CLS]\n"],
}
SEEDS.update({
    "fuzz_template": template_seeds.TEMPLATES,
    "fuzz_gguf_model": [gguf_model("llama"), gguf_model("qwen3"), gguf_model("llama", {b"llama.attention.head_count": 0}),
                        gguf_model("gpt2")],
    "fuzz_adapter_config": [json.dumps(ADAPTER).encode(), json.dumps({**ADAPTER, "use_rslora": True}).encode(),
                            json.dumps({**ADAPTER, "peft_type": "IA3", "use_dora": True}).encode(), b"[]"],
})
# Enough for a reader whose time grows faster than its input to reach the time limit.
MANY = 50_000
NESTED = b"[" * 5_000_000
LARGE = {
    "fuzz_tokenizer_json": tokenizer_json_seeds.LARGE_TOKENIZERS,
    "fuzz_template": template_seeds.LARGE_TEMPLATES,
    "fuzz_gguf_model": [gguf([key(b"key.%d" % i, 4, struct.pack("<I", i)) for i in range(MANY)],
                             [(b"blk.%d.attn_q.weight" % i, [4, 4], 0, 64 * i) for i in range(10_000)],
                             bytes(640_000))],
    "fuzz_adapter_config": [json.dumps({**ADAPTER, "rank_pattern": {f"layers.{i}.q_proj": 4
                                                                    for i in range(MANY)}}).encode(), NESTED],
    "fuzz_expression": tokenizer_json_seeds.LARGE_EXPRESSIONS,
    "fuzz_gguf": [gguf([key(b"key.%d" % i, 4, struct.pack("<I", i)) for i in range(MANY)], []),
                  gguf([], [(b"layers.%d.weight" % i, [1], 0, 32 * i) for i in range(MANY)], bytes(32 * MANY)),
                  gguf([key(b"general.name", 8, text(b"x" * 10_000_000))], [])],
    "fuzz_onnx": [onnx_model([1, 1], bytes(4), [(f"n{i}", f"n{i + 1}") for i in range(MANY)]),
                  onnx_model([1, 1], bytes(4), [("x", f"n{i}") for i in range(MANY)]),
                  onnx_model([1, 2_500_000], bytes(10_000_000), [("x", "y")])],
    "fuzz_state": [json.dumps({**OLD_STATE, "rank_table": {f"layer {i}": [1, 2, 1] for i in range(MANY)}}).encode(),
                   json.dumps({**STATE, "ranks": json.dumps({**RANKS, "recent": [0.5] * 1_000_000})}).encode(),
                   json.dumps({**STATE, "data": "[" * 5_000_000}).encode(), NESTED],
    "fuzz_safetensors": [safetensors({f"layers.{i}.weight": tensor("F32", [1], 4 * i, 4 * i + 4) for i in range(MANY)},
                                     bytes(4 * MANY)),
                         safetensors(b'{"w":{"dtype":"F32","data_offsets":[0,4],"shape":[' + b"1," * 5_000_000 +
                                     b"1]}}", bytes(4)), safetensors(NESTED)],
    "fuzz_config": [json.dumps({"comera": {"version": 1,
                                           "tensors": {f"layer.{i}": CHAIN for i in range(8_000)}}}).encode(), NESTED],
    "fuzz_modules": [json.dumps([{"type": "Transformer", "path": str(i)} for i in range(MANY)]).encode(), NESTED],
    "fuzz_index": [json.dumps({"weight_map": {f"layers.{i}.weight": "model.safetensors"
                                              for i in range(MANY)}}).encode(), NESTED],
    "fuzz_model_config": [json.dumps({**BERT, "id2label": {str(i): f"label {i}" for i in range(MANY)}}).encode(),
                          json.dumps({**LLAMA, "num_hidden_layers": 4096}).encode(),
                          json.dumps({**LLAMA, "eos_token_id": list(range(MANY))}).encode(), NESTED],
    "fuzz_options": [b".".join([b"a"] * 1_000_000) + b" = 1\n", b"data = [" + b'"x",' * 200_000 + b"]\n",
                     b"x = " + NESTED],
    "fuzz_plan": [json.dumps({"comera_plan": 1,
                              "layers": [{"name": f"layer {i}", "form": "auto", "rank": 1}
                                         for i in range(MANY)]}).encode(), NESTED],
    "fuzz_rows": [b"premise\thypothesis\tlabel\n" + b"a b\tc\tyes\n" * MANY,
                  b"premise\thypothesis\tlabel\n" + b"x" * 10_000_000 + b"\ty\tz\n"],
    "fuzz_vocab": [VOCAB.encode() + b"".join(b"word%d\n" % i for i in range(MANY)) + b"\0" + b"hello " * MANY,
                   VOCAB.encode() + b"\0" + b"x" * 5_000_000],
    "fuzz_tokenizer_config": [NESTED, b'{"added": {' + b",".join(b'"%d": 1' % i for i in range(MANY)) + b"}}"],
    "fuzz_byte_stream": [gzip.compress(bytes(100_000_000)), b"x" * 10_000_000],
    "fuzz_sentencepiece": [sentencepiece(charsmap(4000)),
                           sentencepiece(charsmap(), [f"piece {i}" for i in range(MANY)]),
                           sentencepiece(charsmap(), ["a" * i for i in range(1, 1000)], 4)],
}
WORDS = {
    "fuzz_tokenizer_json": tokenizer_json_seeds.WORDS,
    "fuzz_expression": tokenizer_json_seeds.EXPRESSION_WORDS,
    "fuzz_gguf": ["GGUF", "general.alignment"],
    "fuzz_template": template_seeds.WORDS,
    "fuzz_gguf_model": ["llama", "qwen3", "general.architecture", "attention.head_count", "blk.0.attn_q.weight",
                        "rope.freq_base", "rope_freqs.weight", "tokenizer.ggml.model", "gpt2", "output.weight"],
    "fuzz_adapter_config": [*ADAPTER, "1e308", "-1", "0", "null", "true", "9223372036854775807"],
    "fuzz_state": [*STATE, *POSITION, *RANKS, *CLICKS, *CLICKS["bins"][0], "1e300", "-1", "9223372036854775808", "null", "checksum"],
    "fuzz_sentencepiece": ["\\x12", "\\x1a", "\\x00\\x00\\x04\\x00", "\\xff\\xff\\xff\\x7f"],
    "fuzz_model_config": ["model_type", "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
                          "pad_token_id", "layer_norm_eps", "rope_theta", "rope_scaling", "head_dim", "id2label",
                          "1e308", "-1", "9223372036854775807", "comera"],
    "fuzz_byte_stream": ["\\x1f\\x8b\\x08", "\\x28\\xb5\\x2f\\xfd", "PAR1"],
    "fuzz_tokenizer_config": ["do_lower_case", "strip_accents", "tokenize_chinese_chars", "true", "null"],
    "fuzz_safetensors": ["dtype", "shape", "data_offsets", "__metadata__", "F32", "BF16", "F16", "F64", ".tt.0",
                         ".rank.0", "1152921504606846976"],
    "fuzz_config": ["comera", "version", "threshold", "model", "tensors", "kind", "ttm", "tt", "shape", "orientation",
                    "in_out", "in_modes", "out_modes", "row_modes", "column_modes", "ranks", "initial_ranks",
                    "diagonals", "beside", "folded", "sorted",
                    "gauge", "conv1d", "true", "1099511627776"],
    "fuzz_modules": ["Transformer", "type", "path", "../", "./"],
    "fuzz_index": ["weight_map", ".safetensors", "../"],
    "fuzz_onnx": ["location", "offset", "length", "Gather", "Gemm", "Constant", "Identity", "Transpose", "Cast", "axis",
                  "perm", "value", "\\x3a", "\\x2a", "\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\x7f"],
    "fuzz_options": ["verb", "rank", "lr", "form", "data", "target-size", "save-every", "label", "shuffle", "[hashes]",
                     "1e308", "inf", "nan"],
    "fuzz_plan": ["comera_plan", "ratio", "layers", "name", "shape", "form", "dense", "auto", "tt", "ttm", "lowrank",
                  "rank", "ranks", "in_modes", "out_modes", "row_modes", "column_modes", "gauge", "reason", "up",
                  "down", "conv", "words", "wide",
                  "1099511627776", "true"],
    "fuzz_idx": ["\\x00\\x00\\x08\\x01", "\\x00\\x00\\x08\\x03", "\\x00\\x00\\x08\\x04", "\\x00\\x00\\x00\\x01"],
    "fuzz_picture": ["IHDR", "PLTE", "tRNS", "gAMA", "eXIf", "IDAT", "IEND", "Exif\\x00\\x00", "II*\\x00", "MM\\x00*",
                     "\\x01\\x12\\x00\\x03", "\\x12\\x01\\x03\\x00", "\\xff\\xd8\\xff", "\\xff\\xe1", "\\xff\\xd9"],
    "fuzz_clicks": ["label", "dense", "categories", "columns", "header", "column", "encoding", "vocabulary", "hash",
                    "separator", "pooling", "weighted", "y,x,c,t,i", ":1", "-1 ", "\\x09", "|", ","],
    "fuzz_rows": ["premise", "hypothesis", "label", "premise,hypothesis,label", ",", "\\x22", "\\x09", "\\x0d\\x0a",
                  "\\xef\\xbb\\xbf"],
    "fuzz_vocab": ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]", "##", "\\xcc\\x81", "\\xe4\\xb8\\xad"],
}


def main():
    folder = pathlib.Path(sys.argv[1])
    for target, seeds in SEEDS.items():
        (folder / target).mkdir(parents=True, exist_ok=True)
        for number, seed in enumerate(seeds):
            (folder / target / f"seed{number}").write_bytes(seed)
        (folder / "large" / target).mkdir(parents=True, exist_ok=True)
        for number, seed in enumerate(LARGE.get(target, [])):
            (folder / "large" / target / f"large{number}").write_bytes(seed)
        (folder / f"{target}.dict").write_text("".join(f'"{word}"\n' for word in WORDS[target]))


if __name__ == "__main__":
    main()
