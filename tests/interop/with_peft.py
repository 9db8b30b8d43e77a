#!/usr/bin/env python3
"""Compares LoRA adapters that comera writes and merges with PEFT, on stories15M.

`export --to peft`: base and adapter give PEFT the losses that comera has on the grids. `--adapter`: comera merges adapters of PEFT to the weights of merge_and_unload(). `extract`: PEFT loads the
adapter, and base and adapter merge to comera's numbers.

usage: with_peft.py PROGRAM STORIES BITS WORK; BITS is a tensorized STORIES with corrections.
"""
import functools
import json
import os
import sys

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
import sentencepiece
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file
from transformers import LlamaForCausalLM

from checks import expect, run

PROGRAM, STORIES, BITS, WORK = sys.argv[1:]
EPS = 2.0 ** -24  # of one rounding to float32
# The error of one rounding to a type: relative to the number, and the smallest one.
ROUNDING = {torch.float32: (EPS, 2.0 ** -150), torch.float16: (2.0 ** -11, 2.0 ** -25),
            torch.bfloat16: (2.0 ** -8, 2.0 ** -134)}
TEXTS = ["Once upon a time, there was a little girl named Lily. One day she found a big red ball in the park and",
         "Tom and Ben liked to play in the rain.", "The cat", "She said, \"Thank you, mom! I love this cake!\"",
         "One night, the moon was very big and the stars were bright. A small owl sat on a tree and looked at them."]
program = functools.partial(run, PROGRAM)


def base_of(folder, dtype):
    return LlamaForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="eager").eval()


def with_adapter(folder, adapter, dtype):
    return PeftModel.from_pretrained(base_of(folder, dtype), adapter).to(dtype).eval()


def logits(model, ids):
    with torch.no_grad():
        return model(input_ids=torch.tensor([ids])).logits[0].double()


def loss_of(scores, ids):
    return torch.nn.functional.cross_entropy(scores[:-1], torch.tensor(ids[1:])).item()


def merged_difference(base, adapter, merged):
    """The largest ratio of |W - (B + s B A)| to its bound. comera rounds the scaled B to float32 (one rounding of each
    product's size), sums products in double, and rounds the sum to float32 and to the stored type."""
    weights, known = load_file(f"{merged}/model.safetensors"), load_file(f"{base}/model.safetensors")
    model = with_adapter(base, adapter, torch.float64)
    worst, changed = 0.0, 0
    for name, module in model.base_model.model.named_modules():
        if not hasattr(module, "lora_A"):
            continue
        a, b = module.lora_A["default"].weight.detach(), module.lora_B["default"].weight.detach()
        scale = module.scaling["default"]
        weight = known[f"{name}.weight"].double()
        wanted = weight + scale * (b @ a)
        last, least = ROUNDING[weights[f"{name}.weight"].dtype]
        bound = last * wanted.abs() + 2 * EPS * abs(scale) * (b.abs() @ a.abs()) + EPS * wanted.abs() + least
        found = weights[f"{name}.weight"].double()
        worst = max(worst, ((found - wanted).abs() / bound).max().item())
        changed += 1
        known.pop(f"{name}.weight")
    for name, weight in known.items():
        expect(torch.equal(weight, weights[name]), f"{name} is no module of the adapter, and it changes")
    expect(changed > 0, "the adapter has no modules")
    return worst, changed


def check_export(texts):
    """comera has compared logits when the folder was written. Here its mean losses of texts are compared with PEFT's in
    float64: a logit may lie 4 times as far from the double one as PyTorch's float32 does, and a loss moves by at most
    twice the largest move of its logits."""
    folder = f"{WORK}/stories-peft"
    made = program("export", BITS, "-o", folder, "--to", "peft")
    expect(made["largest_difference"] <= made["bound"], "comera's logits of base and adapter are not the model's")
    config = json.load(open(f"{folder}/adapter/adapter_config.json"))
    expect(len(config["target_modules"]) == made["corrections"], "the adapter does not hold every correction")
    models = {dtype: with_adapter(folder, f"{folder}/adapter", dtype) for dtype in (torch.float64, torch.float32)}
    base = base_of(folder, torch.float64)
    worst, changed = 0.0, 0.0
    for text, ids in texts:
        exact, single = (logits(model, ids) for model in models.values())
        error = (single - exact).abs().max().item()
        changed = max(changed, (logits(base, ids) - exact).abs().max().item() / error)
        with open(f"{WORK}/one.txt", "w") as file:
            file.write(text + "\n")
        ours = program("evaluate", BITS, "--data", f"{WORK}/one.txt", "--seq", "64")
        expect(ours["examples"] == len(ids) - 1, f"comera counts {ours['examples']} tokens, PEFT {len(ids) - 1}")
        apart = abs(ours["loss"] - loss_of(exact, ids)) / (8 * error)
        expect(apart <= 1, f"'{text}': comera's loss {ours['loss']} is {apart} times the bound from PEFT's")
        worst = max(worst, apart)
    expect(changed > 100, "the adapter changes nothing")
    print(f"export --to peft: {made['corrections']} corrections of rank {config['r']} and less; losses of "
          f"{len(texts)} texts within {worst:.2f} of the bound", flush=True)


def check_adapters():
    torch.manual_seed(0)
    for number, settings in enumerate([
            {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "down_proj"]},
            {"r": 3, "lora_alpha": 5, "use_rslora": True, "target_modules": "all-linear", "init_lora_weights": "gaussian"},
            {"r": 8, "lora_alpha": 2, "target_modules": ["k_proj", "up_proj", "layers.1.self_attn.o_proj"],
             "rank_pattern": {"k_proj": 2, "layers.1.mlp.up_proj": 5}, "alpha_pattern": {"up_proj": 7}}]):
        model = get_peft_model(base_of(STORIES, torch.float32), LoraConfig(**settings))
        for name, parameter in model.named_parameters():
            if "lora_" in name:
                torch.nn.init.normal_(parameter, std=0.05)
        adapter, merged = f"{WORK}/adapter-{number}", f"{WORK}/merged-{number}"
        model.save_pretrained(adapter)
        program("export", STORIES, "--adapter", adapter, "-o", merged, "--to", "safetensors")
        worst, changed = merged_difference(STORIES, adapter, merged)
        expect(worst <= 1, f"{adapter}: a merged number is {worst} times its bound from PEFT's")
        print(f"--adapter: {changed} modules, numbers within {worst:.2f} of the bound of PEFT's", flush=True)


def check_extract():
    tuned, adapter = f"{WORK}/merged-0", f"{WORK}/extracted"
    made = program("extract", STORIES, tuned, "-o", adapter, "--rank", "4")
    # The tuned weights are B + D, rounded to fp16. The best matrix of rank 4 for their difference is as near as D, and
    # the merged weights are rounded once more.
    expect(all(layer["rel_error"] <= 3 * 2.0 ** -11 for layer in made["layers"]), "D of rank 4 is not found by rank 4")
    program("export", STORIES, "--adapter", adapter, "-o", f"{WORK}/extracted-merged", "--to", "safetensors")
    worst, changed = merged_difference(STORIES, adapter, f"{WORK}/extracted-merged")
    expect(worst <= 1 and changed == len(made["layers"]), f"extract: PEFT merges {worst} times the bound apart")
    print(f"extract: {changed} weights of rank 4, errors of {max(l['rel_error'] for l in made['layers']):.1e} and less",
          flush=True)


if __name__ == "__main__":
    pieces = sentencepiece.SentencePieceProcessor(model_file=os.path.join(STORIES, "tokenizer.model"))
    check_export([(text, [1] + pieces.encode(text)) for text in TEXTS])
    check_adapters()
    check_extract()
