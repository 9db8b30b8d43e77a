#!/usr/bin/env python3
"""Differences of Spearman's correlation between models, by a paired bootstrap over the pairs of sentences.

usage: paired_spearman.py REFERENCE[,REFERENCE...] MODEL...

Each file is what `comera evaluate --predictions` writes for pairs with scores. Every model has a row with its
correlation and, for each reference, the difference in points (hundredths) and the interval of 95 % of the samples.
"""
import os
import random
import sys

SAMPLES = 1000


def read(path):
    """Scores and cosines."""
    with open(path, encoding="utf-8") as file:
        rows = [line.split("\t") for line in file.read().splitlines()[1:]]
    return [float(row[0]) for row in rows], [float(row[1]) for row in rows]


def ranks(values):
    """Ranks from 0; equal values share the mean of theirs."""
    order = sorted(range(len(values)), key=values.__getitem__)
    found = [0.0] * len(values)
    begin = 0
    while begin < len(order):
        end = begin
        while end < len(order) and values[order[end]] == values[order[begin]]:
            end += 1
        for place in order[begin:end]:
            found[place] = (begin + end - 1) / 2
        begin = end
    return found


def correlation(a, b):
    mean_a, mean_b = sum(a) / len(a), sum(b) / len(b)
    products = sum((x - mean_a) * (y - mean_b) for x, y in zip(a, b))
    squares = sum((x - mean_a) ** 2 for x in a) * sum((y - mean_b) ** 2 for y in b)
    return products / squares ** .5 if squares else 0.0


def spearman(scores, cosines):
    return correlation(ranks(scores), ranks(cosines))


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    references, models = sys.argv[1].split(","), sys.argv[2:]
    files = dict.fromkeys(references + models)
    scores = None
    for path in files:
        its_scores, files[path] = read(path)
        if scores is not None and its_scores != scores:
            sys.exit(f"{path}: its scores are not those of {references[0]}; evaluate both on the same pairs")
        scores = its_scores
    draw = random.Random(0)
    samples = {path: [] for path in files}
    for _ in range(SAMPLES):
        places = draw.choices(range(len(scores)), k=len(scores))
        target = ranks([scores[i] for i in places])
        for path, cosines in files.items():
            samples[path].append(correlation(target, ranks([cosines[i] for i in places])))
    name = {path: os.path.splitext(os.path.basename(path))[0] for path in files}
    whole = {path: spearman(scores, cosines) for path, cosines in files.items()}
    print("| model | Spearman | " + " | ".join(f"points above {name[path]}" for path in references) + " |")
    print("|---|---:|" + "---:|" * len(references))
    for path in models:
        cells = [name[path], f"{whole[path]:.4f}"]
        for reference in references:
            apart = sorted(100 * (a - b) for a, b in zip(samples[path], samples[reference]))
            low, high = apart[round(.025 * SAMPLES)], apart[round(.975 * SAMPLES) - 1]
            cells.append(f"{100 * (whole[path] - whole[reference]):+.2f} ({low:+.2f} to {high:+.2f})")
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
