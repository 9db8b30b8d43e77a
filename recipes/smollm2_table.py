#!/usr/bin/env python3
"""The table of recipes/smollm2.sh: perplexity and multiple choice, with paired bootstraps.

usage: smollm2_table.py FOLDER

"better" is the share of 2,000 bootstrap samples, of the windows of the text and of the questions, in which the row is
better than the last row of the same size; of the original and of these rows, better than the reference. Questions
are answered by the sum of the log-likelihoods.
"""
import glob
import math
import os
import random
import sys

SAMPLES = 2000
METHODS = ("nearest", "gptq", "eora", "comera", "refined")


def rows(path):
    with open(path, encoding="utf-8") as file:
        return [line.split("\t") for line in file.read().splitlines()[1:]]


class Model:
    def __init__(self, folder, name):
        self.name = name
        self.windows = [(int(tokens), float(loss)) for tokens, loss in rows(os.path.join(folder, name + ".windows"))]
        choices = rows(os.path.join(folder, name + ".choices"))
        self.right = [int(row[0] == row[1]) for row in choices]  # by the sum of the log-likelihoods
        with open(os.path.join(folder, name + ".bytes"), encoding="utf-8") as file:
            self.bytes = int(file.read())
        self.seconds = ""
        if os.path.exists(os.path.join(folder, name + ".seconds")):
            with open(os.path.join(folder, name + ".seconds"), encoding="utf-8") as file:
                self.seconds = file.read().strip()

    def perplexity(self):
        return math.exp(sum(loss for _, loss in self.windows) / sum(tokens for tokens, _ in self.windows))

    def accuracy(self):
        return sum(self.right) / len(self.right)


def share_better(differences, draw):
    """Share of bootstrap samples whose sum is below 0; half of the ties count."""
    found = 0.0
    for _ in range(SAMPLES):
        total = sum(draw.choices(differences, k=len(differences)))
        found += 0.5 if total == 0 else total < 0
    return found / SAMPLES


def line(model, other, draw):
    cells = [model.name, f"{model.bytes / 1e6:.2f}", f"{model.perplexity():.3f}", f"{100 * model.accuracy():.1f} %"]
    if other is None or other is model:
        cells += ["", ""]
    else:
        losses = [a[1] - b[1] for a, b in zip(model.windows, other.windows)]
        answers = [b - a for a, b in zip(model.right, other.right)]
        cells += [f"{share_better(losses, draw):.3f}", f"{share_better(answers, draw):.3f}"]
    return "| " + " | ".join(cells + [model.seconds]) + " |"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder, draw = sys.argv[1], random.Random(0)
    names = {os.path.basename(path)[:-len(".windows")] for path in glob.glob(os.path.join(folder, "*.windows"))}
    names = {name for name in names if os.path.exists(os.path.join(folder, name + ".bytes"))}
    print("| model | MB | perplexity | right | better: text | better: answers | s |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    models = {name: Model(folder, name) for name in names}
    for name in ("original", "reference"):
        if name in models:
            print(line(models[name], models.get("reference"), draw))
    bits = sorted({name.split("-")[1] for name in names if "-" in name}, key=float, reverse=True)
    for size in bits:
        rows_of_size = [f"{method}-{size}" for method in METHODS if f"{method}-{size}" in models]
        for name in rows_of_size:
            print(line(models[name], models.get("reference" if name == rows_of_size[-1] else rows_of_size[-1]), draw))


if __name__ == "__main__":
    main()
