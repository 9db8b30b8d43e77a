#!/usr/bin/env python3
"""Compares the losses and answers of models with labels of words, sets of labels and pairs of texts with transformers.

usage: with_heads.py PROGRAM TAGS SETS PAIRS, three folders that comera has trained from an uncased BERT.
"""
import json
import subprocess
import sys
import tempfile

import torch
from transformers import (AutoModel, AutoModelForSequenceClassification, AutoModelForTokenClassification,
                          AutoTokenizer)

PROGRAM, TAGS, SETS, PAIRS = sys.argv[1:]
TEXTS = ["the unbelievable cat sits outside", "pasta", "a man is playing guitar loudly"]


def expect(condition, what):
    if not condition:
        sys.exit(f"failed: {what}")


def comera(*words, text=None):
    return json.loads(subprocess.run([PROGRAM, *words, "--json"], input=text, capture_output=True, text=True,
                                     check=True).stdout)


def evaluated(folder, head, rows, *options):
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as file:
        file.write("\t".join(head) + "\n" + "".join("\t".join(row) + "\n" for row in rows))
        file.flush()
        return comera("evaluate", folder, "--data", file.name, *options)


def near(name, ours, theirs):
    expect(abs(ours - theirs) < 2e-5 * (1 + abs(theirs)), f"{name}: comera's loss is {ours}, transformers' {theirs}")
    print(f"{name}: loss {ours:.6f} on both sides", flush=True)


def check_tags():
    tokenizer, model = AutoTokenizer.from_pretrained(TAGS), AutoModelForTokenClassification.from_pretrained(TAGS).eval()
    labels = [model.config.id2label[i] for i in range(model.config.num_labels)]
    inputs = tokenizer([text.split() for text in TEXTS], is_split_into_words=True, padding=True, return_tensors="pt")
    known = torch.full(inputs["input_ids"].shape, -100)
    first = []
    for row, text in enumerate(TEXTS):
        words = inputs.word_ids(row)
        places = [words.index(word) for word in range(len(text.split()))]
        first.append(places)
        for word, place in enumerate(places):
            known[row, place] = word % len(labels)
    with torch.no_grad():
        output = model(**inputs, labels=known)
    rows = [(text, " ".join(labels[i % len(labels)] for i in range(len(text.split())))) for text in TEXTS]
    near("labels of words", evaluated(TAGS, ("text", "label"), rows, "--text", "text", "--label", "label")["loss"],
         output.loss.item())
    best = output.logits.argmax(-1)
    theirs = [[labels[best[row, place]] for place in places] for row, places in enumerate(first)]
    ours = [one["labels"] for one in comera("predict", TAGS, text="\n".join(TEXTS) + "\n")["predictions"]]
    expect(ours == theirs, f"comera's labels of words are {ours}, transformers' {theirs}")


def check_sets():
    tokenizer, model = AutoTokenizer.from_pretrained(SETS), AutoModelForSequenceClassification.from_pretrained(SETS).eval()
    expect(model.config.problem_type == "multi_label_classification", f"{SETS} has no sets of labels for transformers")
    labels = [model.config.id2label[i] for i in range(model.config.num_labels)]
    known = torch.tensor([[float((row + i) % 2) for i in range(len(labels))] for row in range(len(TEXTS))])
    with torch.no_grad():
        output = model(**tokenizer(TEXTS, padding=True, return_tensors="pt"), labels=known)
    rows = [(text, "|".join(label for label, one in zip(labels, row) if one)) for text, row in zip(TEXTS, known)]
    near("sets of labels", evaluated(SETS, ("text", "label"), rows, "--text", "text", "--label", "label")["loss"],
         output.loss.item())
    theirs = [[label for label, logit in zip(labels, row) if logit > 0] for row in output.logits]
    ours = [one["labels"] for one in comera("predict", SETS, text="\n".join(TEXTS) + "\n")["predictions"]]
    expect(ours == theirs, f"comera's sets are {ours}, transformers' {theirs}")


def check_pairs():
    tokenizer, model = AutoTokenizer.from_pretrained(PAIRS), AutoModel.from_pretrained(PAIRS).eval()

    def vectors(texts):
        inputs = tokenizer(texts, padding=True, return_tensors="pt")
        with torch.no_grad():
            hidden = model(**inputs).last_hidden_state
        mask = inputs["attention_mask"].unsqueeze(-1)
        return torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=-1)

    others = ["somebody plays music", "food", "an animal is not in the house"]
    loss = torch.nn.functional.cross_entropy(20 * vectors(TEXTS) @ vectors(others).T, torch.arange(3)).item()
    near("pairs of texts", evaluated(PAIRS, ("one", "two"), list(zip(TEXTS, others)), "--task", "pairs", "--text",
                                     "one,two", "--batch", "3")["loss"], loss)


if __name__ == "__main__":
    check_tags()
    check_sets()
    check_pairs()
