#!/usr/bin/env python3
"""Compares recipes/python/comera_tt.py with comera, on the same compressed folders.

Embeddings of sentences, losses on text, gradients of every parameter, and folders that save() writes.

usage: with_comera_tt.py PROGRAM WORK
"""
import filecmp
import functools
import os
import shutil
import sys

import numpy as np
import torch
from transformers import AutoConfig, AutoTokenizer, LlamaConfig, LlamaForCausalLM

here = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(here, "../../recipes/python"), os.path.join(here, "../models/interop")]
import comera_tt
from checks import expect, run
from llama_reference import perplexity

PROGRAM, WORK = sys.argv[1:]
SENTENCES = ["The cat sits outside.", "A man is playing guitar, loudly!", "I love pasta", "x"]
program = functools.partial(run, PROGRAM)


def embeddings(model, folder):
    """Means over tokens, as comera pools for folders without modules.json."""
    inputs = AutoTokenizer.from_pretrained(folder)(SENTENCES, padding=True, return_tensors="pt")
    hidden = model(**inputs).last_hidden_state
    mask = inputs["attention_mask"].unsqueeze(-1)
    return (hidden * mask).sum(1) / mask.sum(1)


def ours(folder):
    return np.array(program("predict", folder, text="".join(s + "\n" for s in SENTENCES))["embeddings"])


def check_gradients(model, result, unused):
    model.zero_grad()
    (result ** 2).mean().backward()
    without = [name for name, parameter in model.named_parameters()
               if not any(word in name for word in unused) and (parameter.grad is None or not parameter.grad.any())]
    expect(not without, f"no gradient for {without}")


def check_saved(model, folder, out):
    """An unchanged model gives the same tensors, a changed one others that comera reads."""
    comera_tt.save(model, folder, out)
    before, after = comera_tt._read(folder)[1], comera_tt._read(out)[1]
    expect(before.keys() == after.keys() and all(torch.equal(before[name], after[name]) for name in before),
           f"{out}: other tensors than {folder}")
    expect(filecmp.cmp(f"{folder}/config.json", f"{out}/config.json"), f"{out}: another config.json than {folder}")


def check_encoder(name):
    folder = f"{WORK}/minilm-{name}"
    model = comera_tt.load(folder)
    vectors = embeddings(model, folder)
    expected = ours(folder)
    apart = np.abs(vectors.detach().numpy() - expected).max()
    expect(apart < 1e-5, f"{folder}: comera_tt's embeddings are {apart} from comera's")
    check_gradients(model, model(torch.arange(1000, 1200).unsqueeze(0)).last_hidden_state, ("pooler", "exact"))
    check_saved(model, folder, f"{folder}-again")
    core = next(parameter for name, parameter in model.named_parameters() if name.endswith("tt_0"))
    with torch.no_grad():
        core *= 1.25
    comera_tt.save(model, folder, f"{folder}-changed")
    changed = ours(f"{folder}-changed")
    moved = np.abs(changed - expected).max()
    # The folder's cores are fp16 or fp32; the changed ones are rounded to that.
    apart_changed = np.abs(embeddings(model, folder).detach().numpy() - changed).max()
    expect(moved > 1e-4 and apart_changed < max(1e-5, moved / 20),
           f"{folder}-changed: moved by {moved}, comera_tt's embeddings are {apart_changed} from comera's")
    print(f"comera_tt, minilm-{name}: embeddings within {apart:.1e} of comera's, after a changed core "
          f"{apart_changed:.1e}", flush=True)


def check_decoder(name):
    folder = f"{WORK}/{name}"
    model = comera_tt.load(folder)
    text = f"{WORK}/few_stories.txt"
    with open(f"{WORK}/last_fifth.txt", encoding="utf-8") as file, open(text, "w", encoding="utf-8") as few:
        few.writelines(file.readlines()[:60])
    expected = program("evaluate", folder, "--data", text, "--seq", "256", "--stride", "128")
    _, loss, count = perplexity(folder, text, 256, 128, torch.float32, model)
    expect(count == expected["examples"], f"{folder}: {count} tokens, comera counts {expected['examples']}")
    expect(abs(loss - expected["loss"]) < 1e-5, f"{folder}: comera_tt's loss is {loss}, comera's {expected['loss']}")
    check_gradients(model, model(torch.arange(5, 205).unsqueeze(0)).logits, ())
    check_saved(model, folder, f"{folder}-again")
    print(f"comera_tt, {name}: losses over {count} tokens differ by {abs(loss - expected['loss']):.1e}", flush=True)


def make_untied(name, *options):
    """A small decoder whose head is not its table of words, and the folder that tensorize makes of it."""
    dense = f"{WORK}/untied"
    config = AutoConfig.from_pretrained(f"{WORK}/stories-bits")
    torch.manual_seed(1)
    LlamaForCausalLM(LlamaConfig(
        vocab_size=config.vocab_size, hidden_size=64, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
        intermediate_size=96, max_position_embeddings=256, tie_word_embeddings=False, bos_token_id=1, eos_token_id=2,
    )).save_pretrained(dense)
    for file in os.listdir(f"{WORK}/stories-bits"):
        if "tokenizer" in file:
            shutil.copy(f"{WORK}/stories-bits/{file}", dense)
    program("tensorize", dense, "-o", f"{WORK}/{name}", *options)
    entry = comera_tt._read(f"{WORK}/{name}")[0]["comera"]["tensors"].get("lm_head", {})
    expect(entry.get("kind") == "ttm", f"{name}: lm_head is no table")


if __name__ == "__main__":
    for encoder in ("tt", "healed", "table"):
        check_encoder(encoder)
    check_decoder("stories-bits")
    check_decoder("stories-hot")
    check_decoder("stories-groups")
    make_untied("untied-bits", "--bits", "4")
    check_decoder("untied-bits")
    make_untied("untied-groups", "--bits", "2", "--group", "64")
    check_decoder("untied-groups")
    make_untied("untied-ranks", "--rank", "8", "--include", "*")
    check_decoder("untied-ranks")
