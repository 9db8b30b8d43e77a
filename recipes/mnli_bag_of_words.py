#!/usr/bin/env python3
"""Accuracy of two bags of words on MNLI, for comparison with recipes/mnli.sh: the words of the hypothesis alone, and
these words marked as shared with the premise or not. Prints a JSON object. Needs scikit-learn from PyPI.

usage: recipes/mnli_bag_of_words.py TRAIN.tsv DEV.tsv      columns premise, hypothesis, label
"""

import argparse
import csv
import json
import re

from scipy.sparse import hstack
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression


def words(text):
    return re.findall(r"[a-z0-9']+", text.lower())


def read(path):
    with open(path, newline="") as file:
        return [row for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]


def shared(row):
    """The words of the hypothesis, each marked as in the premise or not, and the share of those that are."""
    premise, hypothesis = set(words(row["premise"])), words(row["hypothesis"])
    share = sum(word in premise for word in hypothesis) / max(len(hypothesis), 1)
    marked = " ".join(("in_" if word in premise else "out_") + word for word in hypothesis)
    return f"{marked} share_{round(10 * share)}"


def accuracy(features, train, dev):
    labels = [row["label"] for row in train]
    parts = [CountVectorizer(analyzer=str.split, binary=True, min_df=3) for _ in features]
    learned = hstack([part.fit_transform(map(make, train)) for part, make in zip(parts, features)])
    model = LogisticRegression(C=0.1, max_iter=300).fit(learned, labels)
    asked = hstack([part.transform(map(make, dev)) for part, make in zip(parts, features)])
    return model.score(asked, [row["label"] for row in dev])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("train")
    parser.add_argument("dev")
    options = parser.parse_args()
    train, dev = read(options.train), read(options.dev)

    def hypothesis(row):
        return " ".join(words(row["hypothesis"]))

    print(json.dumps({"hypothesis alone": accuracy([hypothesis], train, dev),
                      "with the words shared": accuracy([hypothesis, shared], train, dev)}, indent=2))


if __name__ == "__main__":
    main()
