"""Writes a GGUF file of every number format with PyPI's gguf, lets comera make a folder of it, and compares the tensors
with those that gguf finds. Usage: gguf_against_pypi.py COMERA
"""

import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf import GGUFReader, GGUFWriter, quants
from safetensors.numpy import load_file

WIDTH, INNER, HEADS, KEY_HEADS, WORDS = 256, 512, 4, 2, 60
random = np.random.default_rng(3)


def blocks(shape, kind):
    """Random blocks; PyPI's gguf quantises to some formats only."""
    size, block_bytes = {Type.Q4_K: (256, 144), Type.Q6_K: (256, 210)}[kind]
    data = random.integers(0, 256, (shape[0], shape[1] // size, block_bytes), dtype=np.uint8)
    halves = [0, 2] if kind == Type.Q4_K else [208]
    for at in halves:
        data[:, :, at:at + 2] = np.frombuffer(np.float16(0.03).tobytes(), np.uint8)
    return data.reshape(shape[0], -1)


def write(path):
    writer = GGUFWriter(path, "llama")
    writer.add_context_length(128)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(INNER)
    writer.add_block_count(1)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEY_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    kinds = {"token_embd": (WORDS, WIDTH, Type.Q8_0), "output": (WORDS, WIDTH, Type.F16),
             "blk.0.attn_q": (WIDTH, WIDTH, Type.Q4_0), "blk.0.attn_k": (WIDTH // 2, WIDTH, Type.Q4_1),
             "blk.0.attn_v": (WIDTH // 2, WIDTH, Type.Q5_0), "blk.0.attn_output": (WIDTH, WIDTH, Type.Q5_1),
             "blk.0.ffn_gate": (INNER, WIDTH, Type.Q4_K), "blk.0.ffn_up": (INNER, WIDTH, Type.Q6_K),
             "blk.0.ffn_down": (WIDTH, INNER, Type.BF16)}
    for name, (rows, columns, kind) in kinds.items():
        values = random.standard_normal((rows, columns), dtype=np.float32)
        if kind in (Type.Q4_K, Type.Q6_K):
            writer.add_tensor(f"{name}.weight", blocks((rows, columns), kind), raw_dtype=kind)
        elif kind == Type.F16:
            writer.add_tensor(f"{name}.weight", values.astype(np.float16))
        else:
            writer.add_tensor(f"{name}.weight", quants.quantize(values, kind), raw_dtype=kind)
    for name in ("blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"):
        writer.add_tensor(f"{name}.weight", random.standard_normal(WIDTH, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


NAMES = {"token_embd": "model.embed_tokens", "output": "lm_head", "output_norm": "model.norm",
         "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj",
         "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
         "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "m.gguf"
        write(path)
        subprocess.run([sys.argv[1], "export", path, "-o", path.parent / "out", "--to", "safetensors"], check=True)
        made = {}
        try:
            made = load_file(path.parent / "out" / "model.safetensors")
        except (TypeError, AttributeError):  # NumPy has no bf16
            from safetensors import deserialize
            for name, entry in deserialize((path.parent / "out" / "model.safetensors").read_bytes()):
                kind = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16}[entry["dtype"]]
                value = np.frombuffer(entry["data"], kind).reshape(entry["shape"])
                made[name] = (value.astype(np.uint32) << 16).view(np.float32) if entry["dtype"] == "BF16" else value
        compared = 0
        for tensor in GGUFReader(path).tensors:
            part = tensor.name.removesuffix(".weight").removeprefix("blk.0.")
            name = ("model.layers.0." if tensor.name.startswith("blk") else "") + NAMES[part] + ".weight"
            wanted = quants.dequantize(tensor.data, tensor.tensor_type).reshape(tuple(int(n) for n in tensor.shape[::-1]))
            heads = {"attn_q": HEADS, "attn_k": KEY_HEADS}.get(part)
            if heads:
                rows = wanted.reshape(heads, -1, 2, WIDTH).swapaxes(1, 2)
                wanted = rows.reshape(-1, WIDTH)
            found = made.pop(name).astype(np.float32)
            assert found.shape == wanted.shape and (found == wanted).all(), name
            compared += 1
        assert not made, made.keys()
        print(f"{compared} tensors are equal")


main()
