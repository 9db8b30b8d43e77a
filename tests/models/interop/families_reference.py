#!/usr/bin/env python3
"""Answers of small models of several families in transformers: makes tests/models/families_reference.h.

usage: families_reference.py > tests/models/families_reference.h
Weight number i of the tensor that is number n in the order of names is a * sin(.37 (i + 1) + .11 (i + 1)^2 + n), a = .2
for matrices and .5 for biases; gains of norms are 1 + .5 sin(..). Needs torch and transformers.
"""

import json
import os

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
import torch
from transformers import (DistilBertConfig, DistilBertForMaskedLM, DistilBertForSequenceClassification,
                          DistilBertModel, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, MistralConfig,
                          MistralForCausalLM, ModernBertConfig, ModernBertForMaskedLM,
                          ModernBertForSequenceClassification, ModernBertModel, MPNetConfig, MPNetForMaskedLM,
                          MPNetForSequenceClassification, MPNetModel, Qwen2Config, Qwen2ForCausalLM, Qwen3Config,
                          Qwen3ForCausalLM, RobertaConfig, RobertaForMaskedLM, RobertaForSequenceClassification,
                          RobertaModel)

SIZES = {"vocab_size": 29, "hidden_size": 24, "intermediate_size": 20, "num_hidden_layers": 2,
         "num_attention_heads": 3, "num_key_value_heads": 1, "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
         "hidden_act": "silu", "bos_token_id": 1, "eos_token_id": 2}
GPT2 = {"vocab_size": 29, "n_embd": 24, "n_layer": 2, "n_head": 3, "n_inner": 20, "n_positions": 64,
        "bos_token_id": 1, "eos_token_id": 2}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}
FAMILIES = {
    "qwen2": (Qwen2Config, Qwen2ForCausalLM, {"tie_word_embeddings": True, "rope_theta": 1000.0}),
    "llama with biases": (LlamaConfig, LlamaForCausalLM, {"attention_bias": True, "mlp_bias": True}),
    "mistral": (MistralConfig, MistralForCausalLM, {"sliding_window": None}),
    "llama3": (LlamaConfig, LlamaForCausalLM, {"rope_scaling": LLAMA3, "rope_theta": 100.0}),
    "linear": (LlamaConfig, LlamaForCausalLM, {"rope_scaling": {"rope_type": "linear", "factor": 4.0}}),
    "mistral with a window": (MistralConfig, MistralForCausalLM, {"sliding_window": 7}),
    "qwen2 with a window": (Qwen2Config, Qwen2ForCausalLM,
                            {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1}),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM, {"head_dim": 12, "tie_word_embeddings": True}),
    "qwen3 with biases and a window": (Qwen3Config, Qwen3ForCausalLM, {
        "head_dim": 6, "attention_bias": True, "use_sliding_window": True, "sliding_window": 6,
        "layer_types": ["sliding_attention", "full_attention"]}),
    "gpt2": (GPT2Config, GPT2LMHeadModel, GPT2),
    "gpt2 with its own head": (GPT2Config, GPT2LMHeadModel, {**GPT2, "tie_word_embeddings": False}),
    "yarn": (LlamaConfig, LlamaForCausalLM,
             {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}}),
}
ROBERTA = {"vocab_size": 29, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3,
           "intermediate_size": 20, "max_position_embeddings": 43, "type_vocab_size": 1, "pad_token_id": 2,
           "layer_norm_eps": 1e-5}
DISTILBERT = {"vocab_size": 29, "dim": 24, "n_layers": 2, "n_heads": 3, "hidden_dim": 20,
              "max_position_embeddings": 40, "pad_token_id": 2}
MPNET = {"vocab_size": 29, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 20,
         "max_position_embeddings": 42, "pad_token_id": 1, "layer_norm_eps": 1e-5}
# A window of 4 keys on each side; blocks without a window, with one, without.
MODERNBERT = {"vocab_size": 29, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 3,
              "intermediate_size": 20, "max_position_embeddings": 64, "pad_token_id": 2, "bos_token_id": 1,
              "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2, "local_attention": 8,
              "global_attn_every_n_layers": 2, "global_rope_theta": 1000.0, "local_rope_theta": 50.0}
BIASES = {key: True for key in ("attention_bias", "mlp_bias", "norm_bias", "classifier_bias")}
ENCODERS = {
    "roberta": (RobertaConfig, RobertaModel, ROBERTA),
    "roberta for words": (RobertaConfig, RobertaForMaskedLM, ROBERTA),
    "roberta for labels": (RobertaConfig, RobertaForSequenceClassification, ROBERTA),
    "distilbert": (DistilBertConfig, DistilBertModel, DISTILBERT),
    "distilbert for words": (DistilBertConfig, DistilBertForMaskedLM, DISTILBERT),
    "distilbert for labels": (DistilBertConfig, DistilBertForSequenceClassification, DISTILBERT),
    "mpnet": (MPNetConfig, MPNetModel, MPNET),
    "mpnet for words": (MPNetConfig, MPNetForMaskedLM, MPNET),
    "mpnet for labels": (MPNetConfig, MPNetForSequenceClassification, MPNET),
    "modernbert": (ModernBertConfig, ModernBertModel, MODERNBERT),
    "modernbert for words": (ModernBertConfig, ModernBertForMaskedLM, MODERNBERT),
    "modernbert for labels": (ModernBertConfig, ModernBertForSequenceClassification, MODERNBERT),
    "modernbert with biases": (ModernBertConfig, ModernBertForSequenceClassification, {
        **MODERNBERT, **BIASES, "classifier_pooling": "mean",
        "layer_types": ["sliding_attention", "sliding_attention", "full_attention"]}),
}
LABELS = {"id2label": {0: "a", 1: "b", 2: "c"}, "label2id": {"a": 0, "b": 1, "c": 2}}
IDS = [(7 * i * i + 3 * i + 1) % 29 for i in range(40)]
ROWS = [0, 1, 17, 39]
# Encoders read these ids, and the first SHORT of them backwards with padding (id 2) behind them. If the padding has
# another id, the two ids change places.
SHORT, PAD = 13, 2
# Rows of both sequences whose hidden states are written, or whose own id is predicted.
ENCODER_ROWS = [0, 17, 39, 40, 52]


def fill(model):
    for n, name in enumerate(sorted(name for name, _ in model.named_parameters())):
        parameter = model.get_parameter(name)
        i = torch.arange(1, parameter.numel() + 1, dtype=torch.float64)
        wave = torch.sin(0.37 * i + 0.11 * i * i + n).reshape(parameter.shape)
        norm = parameter.dim() == 1 and name.endswith(".weight")
        value = 1 + 0.5 * wave if norm else (0.2 if parameter.dim() > 1 else 0.5) * wave
        parameter.data.copy_(value.float())


def answers_of_encoder(model):
    """Logits of both texts, the log probability of each row's id, or the hidden states of the rows."""
    pad = model.config.pad_token_id
    exchanged = [{PAD: pad, pad: PAD}.get(id, id) for id in IDS]
    ids = torch.tensor([exchanged, exchanged[SHORT - 1::-1] + [pad] * (len(IDS) - SHORT)])
    with torch.no_grad():
        outputs = model(input_ids=ids, attention_mask=(ids != pad).long())
    if not hasattr(outputs, "logits"):
        return outputs.last_hidden_state.flatten(0, 1)[ENCODER_ROWS].flatten().tolist()
    if outputs.logits.dim() == 2:
        return outputs.logits.flatten().tolist()
    rows = outputs.logits.flatten(0, 1).log_softmax(-1)[ENCODER_ROWS]
    return [row[id].item() for row, id in zip(rows, ids.flatten()[ENCODER_ROWS])]


def print_encoders():
    print("struct EncoderFamily {\n  const char *name, *config;\n  std::vector<double> answers;\n};")
    print("inline const EncoderFamily encoders[] = {")
    for name, (make_config, make_model, sizes) in ENCODERS.items():
        labels = LABELS if make_model.__name__.endswith("ForSequenceClassification") else {}
        config = {**sizes, **labels, "model_type": make_config.model_type, "architectures": [make_model.__name__]}
        model = make_model(make_config(**sizes, **labels)).double().eval()
        fill(model)
        print(f'  {{"{name}",\n   R"({json.dumps(config)})",')
        print("   {" + ", ".join(f"{x:.12g}" for x in answers_of_encoder(model)) + "}},")
    print("};\n")


def main():
    print("// Made by tests/models/interop/families_reference.py with transformers.\n#pragma once\n")
    print("#include <vector>\n\n// clang-format off\nnamespace families {\n")
    print("constexpr int ids[] = {" + ", ".join(map(str, IDS)) + "};")
    print("constexpr int rows[] = {" + ", ".join(map(str, ROWS)) + "};")
    print("constexpr int encoder_rows[] = {" + ", ".join(map(str, ENCODER_ROWS)) + "};")
    print(f"constexpr int short_length = {SHORT}, pad = {PAD};\n")
    print("struct Family {\n  const char *name, *config;\n  double logits[%d][29];\n};" % len(ROWS))
    print("inline const Family all[] = {")
    for name, (make_config, make_model, extra) in FAMILIES.items():
        config = {**extra, "model_type": make_config.model_type, "architectures": [make_model.__name__]}
        # transformers 5 wants scaling and theta in one object; older files have them apart.
        asked = dict(extra)
        rope = {"rope_theta": asked.pop("rope_theta", 10000.0), "rope_type": "default", **asked.pop("rope_scaling", {})}
        if make_config is not GPT2Config:
            config = {**SIZES, **config}
            asked = {**SIZES, **asked, "rope_parameters": rope}
        model = make_model(make_config(**asked)).double().eval()
        fill(model)
        with torch.no_grad():
            logits = model(torch.tensor([IDS])).logits[0]
        print(f'  {{"{name}",\n   R"({json.dumps(config)})",\n   {{')
        for row in ROWS:
            print("    {" + ", ".join(f"{x:.12g}" for x in logits[row].tolist()) + "},")
        print("   }},")
    print("};\n")
    print_encoders()
    print("}  // namespace families")


main()
