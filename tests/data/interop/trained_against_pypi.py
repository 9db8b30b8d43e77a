"""Learns tokenizers and compares: the merges of the byte-level BPE with those of `tokenizers`' own trainer; ids and
decoded text of every kind with what `tokenizers` gives for the same tokenizer.json; and with `transformers`, if it is
installed.

usage: trained_against_pypi.py PROGRAM DATA [--quick]      PROGRAM: the test binary tokenize_lines
"""
import json
import os
import subprocess
import sys
import tempfile

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from tokenizer_json_against_pypi import random_lines
from tokens_against_pypi import run, texts

KINDS = ["wordpiece", "wordpiece-cased", "bpe", "bpe-decoder", "unigram"]


def compare_merges(folder, lines):
    ours = json.load(open(os.path.join(folder, "tokenizer.json"), encoding="utf-8"))
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.train_from_iterator(lines, trainers.BpeTrainer(
        vocab_size=len(ours["model"]["vocab"]), min_frequency=2, show_progress=False,
        special_tokens=[token["content"] for token in ours["added_tokens"]],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    theirs = json.loads(tokenizer.to_str())
    merges = [[list(pair) for pair in file["model"]["merges"]] for file in (ours, theirs)]
    if merges[0] != merges[1] or ours["model"]["vocab"] != theirs["model"]["vocab"]:
        sys.exit("bpe: the merges differ from those of the trainer of tokenizers")
    print(f"bpe: {len(merges[0])} merges equal those of the trainer of tokenizers", flush=True)


def compare_ids(program, kind, folder, samples):
    path = os.path.join(folder, "tokenizer.json")
    theirs = Tokenizer.from_file(path)
    specials = [token.content for token in theirs.get_added_tokens_decoder().values()]
    for name, lines in samples:
        # A folder of WordPiece is read by its vocab.txt, and by its tokenizer.json.
        for place in [path, folder]:
            ids = run(program, "encode", place, text="\n".join(lines) + "\n")
            wanted = [" ".join(map(str, e.ids)) for e in theirs.encode_batch(lines, add_special_tokens=False)]
            differing = [i for i in range(len(lines)) if ids[i] != wanted[i]]
            if len(ids) != len(wanted) or differing:
                sys.exit(f"{kind}, {name}: {len(differing)} lines differ, the first is {lines[differing[0]]!r}")
        decoded = run(program, "decode", path, text="\n".join(ids) + "\n")
        wanted = [theirs.decode(list(map(int, row.split()))).replace("\n", " ") for row in ids]
        if decoded != wanted:
            sys.exit(f"{kind}, {name}: decoded texts differ")
        # Decoding leaves out special tokens, and a line of the data may hold one's text.
        plain = [(a, b) for a, b in zip(decoded, lines) if not any(token in b for token in specials)]
        if kind.startswith("bpe") and any(a != b for a, b in plain):
            sys.exit(f"{kind}, {name}: a text is not restored")
        print(f"{kind}, {name}: {len(lines)} lines equal", flush=True)


def compare_transformers(kind, folder, lines):
    try:
        from transformers import AutoTokenizer
    except ImportError:
        return
    loaded, plain = AutoTokenizer.from_pretrained(folder), Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    if [e for e in loaded(lines).input_ids] != [e.ids for e in plain.encode_batch(lines)]:
        sys.exit(f"{kind}: transformers gives other ids")
    print(f"{kind}: transformers gives the same ids with the pieces around {len(lines)} texts", flush=True)


def main():
    program, data, quick = sys.argv[1], sys.argv[2], "--quick" in sys.argv
    samples = [("random code points", random_lines(2000 if quick else 100000)), *texts(data, quick)]
    some = [[line for line in lines[:4000 if quick else 40000] if line.strip()] for _, lines in samples]
    with tempfile.TemporaryDirectory() as folder:
        for kind in KINDS:
            place = os.path.join(folder, kind)
            # Unigram has a piece for every frequent character: no vocabulary holds all of Unicode.
            learn_from = [line for lines in some[kind == "unigram":] for line in lines]
            subprocess.run([program, "train", kind, "4000" if quick else "16000", place], check=True,
                           input=("\n".join(learn_from) + "\n").encode())
            if kind == "bpe":
                compare_merges(place, learn_from)
            compare_ids(program, kind, place, samples)
            compare_transformers(kind, place, samples[-1][1][:2000])


if __name__ == "__main__":
    main()
