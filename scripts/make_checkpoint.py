#!/usr/bin/env python3
"""Writes a checkpoint with random weights and the shapes of a real one, for tests and for measurements at large sizes.

usage: make_checkpoint.py FOLDER [--architecture llama] [--layers 32] [--hidden 4096] [--intermediate 11008]
                          [--vocabulary 32000] [--heads 32] [--shards 3] [--type BF16] [--seed 1]
The defaults are those of Llama 7B, 13 GB in bf16. Needs only Python.
"""
import argparse
import json
import pathlib
import random
import struct

WIDTH = {"F32": 4, "F16": 2, "BF16": 2}


def llama(o):
    yield "model.embed_tokens.weight", [o.vocabulary, o.hidden]
    for i in range(o.layers):
        for name in "qkvo":
            yield f"model.layers.{i}.self_attn.{name}_proj.weight", [o.hidden, o.hidden]
        yield f"model.layers.{i}.mlp.gate_proj.weight", [o.intermediate, o.hidden]
        yield f"model.layers.{i}.mlp.up_proj.weight", [o.intermediate, o.hidden]
        yield f"model.layers.{i}.mlp.down_proj.weight", [o.hidden, o.intermediate]
        yield f"model.layers.{i}.input_layernorm.weight", [o.hidden]
        yield f"model.layers.{i}.post_attention_layernorm.weight", [o.hidden]
    yield "model.norm.weight", [o.hidden]
    yield "lm_head.weight", [o.vocabulary, o.hidden]


def qwen3(o):
    yield from llama(o)
    for i in range(o.layers):
        for name in "qk":
            yield f"model.layers.{i}.self_attn.{name}_norm.weight", [o.hidden // o.heads]


def bert(o, positions=64, types=2):
    yield "embeddings.word_embeddings.weight", [o.vocabulary, o.hidden]
    yield "embeddings.position_embeddings.weight", [positions, o.hidden]
    yield "embeddings.token_type_embeddings.weight", [types, o.hidden]
    norms = ["embeddings.LayerNorm"]
    for i in range(o.layers):
        block = f"encoder.layer.{i}"
        shapes = {"attention.self.query": [o.hidden, o.hidden], "attention.self.key": [o.hidden, o.hidden],
                  "attention.self.value": [o.hidden, o.hidden], "attention.output.dense": [o.hidden, o.hidden],
                  "intermediate.dense": [o.intermediate, o.hidden], "output.dense": [o.hidden, o.intermediate]}
        for name, shape in shapes.items():
            yield f"{block}.{name}.weight", shape
            yield f"{block}.{name}.bias", shape[:1]
        norms += [f"{block}.attention.output.LayerNorm", f"{block}.output.LayerNorm"]
    for norm in norms:
        yield f"{norm}.weight", [o.hidden]
        yield f"{norm}.bias", [o.hidden]


def roberta(o):
    yield from bert(o, 66, 1)


def distilbert(o):
    yield "embeddings.word_embeddings.weight", [o.vocabulary, o.hidden]
    yield "embeddings.position_embeddings.weight", [64, o.hidden]
    norms = ["embeddings.LayerNorm"]
    for i in range(o.layers):
        block = f"transformer.layer.{i}"
        shapes = {f"attention.{name}_lin": [o.hidden, o.hidden] for name in ("q", "k", "v", "out")}
        shapes |= {"ffn.lin1": [o.intermediate, o.hidden], "ffn.lin2": [o.hidden, o.intermediate]}
        for name, shape in shapes.items():
            yield f"{block}.{name}.weight", shape
            yield f"{block}.{name}.bias", shape[:1]
        norms += [f"{block}.sa_layer_norm", f"{block}.output_layer_norm"]
    for norm in norms:
        yield f"{norm}.weight", [o.hidden]
        yield f"{norm}.bias", [o.hidden]


def mpnet(o):
    yield "encoder.relative_attention_bias.weight", [32, o.heads]
    renamed = {"attention.self.query": "attention.attn.q", "attention.self.key": "attention.attn.k",
               "attention.self.value": "attention.attn.v", "attention.output.dense": "attention.attn.o",
               "attention.output.LayerNorm": "attention.LayerNorm"}
    for name, shape in bert(o, 66, 0):
        for before, after in renamed.items():
            name = name.replace(before, after)
        if "token_type" not in name:
            yield name, shape


def modernbert(o):
    yield "embeddings.tok_embeddings.weight", [o.vocabulary, o.hidden]
    yield "embeddings.norm.weight", [o.hidden]
    for i in range(o.layers):
        if i > 0:
            yield f"layers.{i}.attn_norm.weight", [o.hidden]
        yield f"layers.{i}.mlp_norm.weight", [o.hidden]
        for name, shape in (("attn.Wqkv", [3 * o.hidden, o.hidden]), ("attn.Wo", [o.hidden, o.hidden]),
                            ("mlp.Wi", [2 * o.intermediate, o.hidden]), ("mlp.Wo", [o.hidden, o.intermediate])):
            yield f"layers.{i}.{name}.weight", shape
    yield "final_norm.weight", [o.hidden]


def gpt2(o):
    yield "wte.weight", [o.vocabulary, o.hidden]
    yield "wpe.weight", [64, o.hidden]
    for i in range(o.layers):
        yield f"h.{i}.attn.c_attn.weight", [o.hidden, 3 * o.hidden]
        yield f"h.{i}.attn.c_proj.weight", [o.hidden, o.hidden]
        yield f"h.{i}.mlp.c_fc.weight", [o.hidden, o.intermediate]
        yield f"h.{i}.mlp.c_proj.weight", [o.intermediate, o.hidden]
        for name, size in (("attn.c_attn", 3 * o.hidden), ("attn.c_proj", o.hidden), ("mlp.c_fc", o.intermediate),
                           ("mlp.c_proj", o.hidden)):
            yield f"h.{i}.{name}.bias", [size]
        for name in ("ln_1", "ln_2"):
            yield f"h.{i}.{name}.weight", [o.hidden]
            yield f"h.{i}.{name}.bias", [o.hidden]
    yield "ln_f.weight", [o.hidden]
    yield "ln_f.bias", [o.hidden]


# Mistral has the shapes of llama.
ARCHITECTURES = {"llama": llama, "bert": bert, "gpt2": gpt2, "qwen3": qwen3, "roberta": roberta,
                 "distilbert": distilbert, "mistral": llama, "mpnet": mpnet, "modernbert": modernbert}


def config(o):
    llama_keys = {"rms_norm_eps": 1e-5, "hidden_act": "silu", "rope_theta": 10000.0, "num_key_value_heads": o.heads,
                  "tie_word_embeddings": False, "attention_bias": False, "max_position_embeddings": 64,
                  "bos_token_id": 1, "eos_token_id": 2}
    bert_keys = {"hidden_act": "gelu", "layer_norm_eps": 1e-12, "max_position_embeddings": 64, "type_vocab_size": 2,
                 "pad_token_id": 0}
    sizes = {"hidden_size": o.hidden, "intermediate_size": o.intermediate, "num_hidden_layers": o.layers,
             "num_attention_heads": o.heads, "vocab_size": o.vocabulary}
    gpt2_sizes = {"n_embd": o.hidden, "n_inner": o.intermediate, "n_layer": o.layers, "n_head": o.heads,
                  "vocab_size": o.vocabulary, "n_positions": 64, "bos_token_id": 1, "eos_token_id": 2}
    distilbert_sizes = {"dim": o.hidden, "hidden_dim": o.intermediate, "n_layers": o.layers, "n_heads": o.heads,
                        "vocab_size": o.vocabulary, "max_position_embeddings": 64, "pad_token_id": 0}
    name, keys = {"llama": ("LlamaForCausalLM", {**llama_keys, **sizes}),
                  "mistral": ("MistralForCausalLM", {**llama_keys, **sizes, "sliding_window": 6}),
                  "qwen3": ("Qwen3ForCausalLM", {**llama_keys, **sizes, "head_dim": o.hidden // o.heads}),
                  "bert": ("BertModel", {**bert_keys, **sizes}),
                  "roberta": ("RobertaModel", {**bert_keys, **sizes, "max_position_embeddings": 66,
                                               "type_vocab_size": 1, "pad_token_id": 1}),
                  "distilbert": ("DistilBertModel", distilbert_sizes),
                  "mpnet": ("MPNetModel", {**sizes, "hidden_act": "gelu", "layer_norm_eps": 1e-12,
                                           "max_position_embeddings": 66, "pad_token_id": 1}),
                  "modernbert": ("ModernBertModel", {**sizes, "max_position_embeddings": 64, "local_attention": 12,
                                                     "global_attn_every_n_layers": 2, "pad_token_id": 1,
                                                     "bos_token_id": 0, "eos_token_id": 2, "cls_token_id": 0,
                                                     "sep_token_id": 2}),
                  "gpt2": ("GPT2LMHeadModel", gpt2_sizes)}[o.architecture]
    return {"model_type": o.architecture, "architectures": [name], **keys}


# High bytes: sign and mantissa stay random, the exponent has two values. Magnitudes are between 2^-7 and 2^-5.
HIGH = {"BF16": bytes(0x3C | i & 0x80 for i in range(256)), "F32": bytes(0x3C | i & 0x80 for i in range(256)),
        "F16": bytes(0x20 | i & 0x83 for i in range(256))}


def numbers(source, count, kind):
    width = WIDTH[kind]
    data = bytearray(source.randbytes(count * width))
    data[width - 1::width] = bytes(data[width - 1::width]).translate(HIGH[kind])
    return data


def write_shard(path, tensors, kind, source):
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in tensors:
        size = WIDTH[kind]
        for length in shape:
            size *= length
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    piece = 1 << 24
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, shape in tensors:
            left = 1
            for length in shape:
                left *= length
            while left:
                count = min(left, piece)
                file.write(numbers(source, count, kind))
                left -= count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--architecture", choices=sorted(ARCHITECTURES), default="llama")
    parser.add_argument("--type", choices=sorted(WIDTH), default="BF16")
    sizes = {"layers": 32, "hidden": 4096, "intermediate": 11008, "vocabulary": 32000, "heads": 32, "shards": 3,
             "seed": 1}
    for name, value in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    o = parser.parse_args()
    tensors = list(ARCHITECTURES[o.architecture](o))
    o.folder.mkdir(parents=True, exist_ok=True)
    (o.folder / "config.json").write_text(json.dumps(config(o), indent=2) + "\n")
    source = random.Random(o.seed)
    if o.shards == 1:
        return write_shard(o.folder / "model.safetensors", tensors, o.type, source)
    weight_map, share = {}, -(-len(tensors) // o.shards)
    for i in range(o.shards):
        name = f"model-{i + 1:05}-of-{o.shards:05}.safetensors"
        part = tensors[i * share:(i + 1) * share]
        weight_map.update({tensor: name for tensor, _ in part})
        write_shard(o.folder / name, part, o.type, source)
    index = json.dumps({"metadata": {}, "weight_map": weight_map}, indent=2)
    (o.folder / "model.safetensors.index.json").write_text(index + "\n")


if __name__ == "__main__":
    main()
