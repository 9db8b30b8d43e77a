#!/usr/bin/env python3
"""Logits of small decoders of several families in transformers: makes tests/models/families_reference.h.

usage: families_reference.py > tests/models/families_reference.h
Weight number i of the tensor that is number n in the order of names is a * sin(.37 (i + 1) + n), a = .2 for matrices
and .5 for biases; norms are 1 + .5 sin(..). Needs torch and transformers.
"""

import json
import os

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
import torch
from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM, Qwen2Config, Qwen2ForCausalLM

SIZES = {"vocab_size": 29, "hidden_size": 24, "intermediate_size": 20, "num_hidden_layers": 2,
         "num_attention_heads": 3, "num_key_value_heads": 1, "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
         "hidden_act": "silu", "bos_token_id": 1, "eos_token_id": 2}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}
FAMILIES = {
    "qwen2": (Qwen2Config, Qwen2ForCausalLM, {"tie_word_embeddings": True, "rope_theta": 1000.0}),
    "llama with biases": (LlamaConfig, LlamaForCausalLM, {"attention_bias": True, "mlp_bias": True}),
    "mistral": (MistralConfig, MistralForCausalLM, {"sliding_window": None}),
    "llama3": (LlamaConfig, LlamaForCausalLM, {"rope_scaling": LLAMA3, "rope_theta": 100.0}),
    "linear": (LlamaConfig, LlamaForCausalLM, {"rope_scaling": {"rope_type": "linear", "factor": 4.0}}),
    "yarn": (LlamaConfig, LlamaForCausalLM,
             {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}}),
}
IDS = [(7 * i * i + 3 * i + 1) % 29 for i in range(40)]
ROWS = [0, 1, 17, 39]


def fill(model):
    for n, name in enumerate(sorted(name for name, _ in model.named_parameters())):
        parameter = model.get_parameter(name)
        wave = torch.sin(0.37 * torch.arange(1, parameter.numel() + 1, dtype=torch.float64) + n).reshape(parameter.shape)
        norm = parameter.dim() == 1 and "norm" in name
        value = 1 + 0.5 * wave if norm else (0.2 if parameter.dim() > 1 else 0.5) * wave
        parameter.data.copy_(value.float())


def main():
    print("// Made by tests/models/interop/families_reference.py with transformers.\n#pragma once\n")
    print("// clang-format off\nnamespace families {\n")
    print("constexpr int ids[] = {" + ", ".join(map(str, IDS)) + "};")
    print("constexpr int rows[] = {" + ", ".join(map(str, ROWS)) + "};\n")
    print("struct Family {\n  const char *name, *config;\n  double logits[%d][29];\n};" % len(ROWS))
    print("inline const Family all[] = {")
    for name, (make_config, make_model, extra) in FAMILIES.items():
        config = {**SIZES, **extra, "model_type": make_config.model_type, "architectures": [make_model.__name__]}
        # transformers 5 wants scaling and theta in one object; older files have them apart.
        asked = dict(extra)
        rope = {"rope_theta": asked.pop("rope_theta", 10000.0), "rope_type": "default", **asked.pop("rope_scaling", {})}
        model = make_model(make_config(**SIZES, **asked, rope_parameters=rope)).double().eval()
        fill(model)
        with torch.no_grad():
            logits = model(torch.tensor([IDS])).logits[0]
        print(f'  {{"{name}",\n   R"({json.dumps(config)})",\n   {{')
        for row in ROWS:
            print("    {" + ", ".join(f"{x:.12g}" for x in logits[row].tolist()) + "},")
        print("   }},")
    print("};\n\n}  // namespace families")


main()
