#!/usr/bin/env python3
"""Multiple-choice questions from WordNet: a definition, and four nouns of which one has it.

usage: wordnet_questions.py COUNT [data.noun] > questions.jsonl

The wrong nouns come from the same lexicographer file, so a topic alone does not tell. The choice of questions, nouns
and places is drawn from a fixed seed. data.noun: /usr/share/wordnet/data.noun of Debian's wordnet-base.
"""
import json
import random
import sys


def synsets(path):
    """Topic, first noun and definition, where the noun is one lower-case word that the definition does not hold."""
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.startswith("  "):
                continue
            fields, gloss = line.split(" | ", 1)
            fields = fields.split()
            word, definition = fields[4], gloss.split("; \"")[0].strip().rstrip(";")
            if word.isascii() and word.isalpha() and word.islower() and word not in definition.lower():
                yield fields[1], word, definition


def main():
    if len(sys.argv) < 2 or not sys.argv[1].isdigit():
        sys.exit("\n".join(__doc__.splitlines()[2:3]))
    path = sys.argv[2] if len(sys.argv) > 2 else "/usr/share/wordnet/data.noun"
    rows = list(synsets(path))
    topics = {}
    for topic, word, _ in rows:
        topics.setdefault(topic, []).append(word)
    draw = random.Random(0)
    for topic, word, definition in draw.sample(rows, int(sys.argv[1])):
        choices = [word]
        while len(choices) < 4:
            other = draw.choice(topics[topic])
            if other not in choices:
                choices.append(other)
        draw.shuffle(choices)
        print(json.dumps({"question": f"The word for \"{definition}\" is", "choices": choices,
                          "answer": choices.index(word)}))


if __name__ == "__main__":
    main()
