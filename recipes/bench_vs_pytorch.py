#!/usr/bin/env python3
"""Tables of times and memory, ours and PyTorch's, from the rows of bench_vs_pytorch.sh: medians over rounds.

One section per instruction set.
"""

import json
import statistics
import sys

MIB = 1 << 20
SECTIONS = [  # title, (ours, theirs, required ratio or None)
    ("Time of a training step, mnli-6enc, batch 32 x 128, dropout 0.1",
     [("b32 d0.1 tt f32", "b32 d0.1 dense f32", 6), ("b32 d0.1 tt f32", "b32 d0.1 tt f32", 2),
      ("b32 d0.1 dense f32", "b32 d0.1 dense f32", 1), ("b32 d0.1 tt bf16", "b32 d0.1 dense bf16", None),
      ("b32 d0.1 tt bf16", "b32 d0.1 tt bf16", 2), ("b32 d0.1 dense bf16", "b32 d0.1 dense bf16", None)]),
    ("The same, dropout 0",
     [("b32 d0 tt f32", "b32 d0 dense f32", None), ("b32 d0 tt f32", "b32 d0 tt f32", None),
      ("b32 d0 dense f32", "b32 d0 dense f32", None), ("b32 d0 tt bf16", "b32 d0 dense bf16", None),
      ("b32 d0 tt bf16", "b32 d0 tt bf16", None), ("b32 d0 dense bf16", "b32 d0 dense bf16", None)]),
    ("Batch 1 x 128, dropout 0.1",
     [("b1 d0.1 tt f32", "b1 d0.1 dense f32", None), ("b1 d0.1 tt f32", "b1 d0.1 tt f32", None),
      ("b1 d0.1 dense f32", "b1 d0.1 dense f32", None)]),
    ("One linear layer 768 -> 3072, 4096 tokens, forward and backward",
     [("linear tt 4096", "linear dense 4096", 12), ("linear tt 4096", "linear tt 4096", None)]),
]
MEMORY = [("b1 d0.1 tt f32", "b1 d0.1 dense f32", 12), ("b32 d0.1 tt f32", "b32 d0.1 dense f32", None),
          ("b32 d0.1 tt f32 cheap", "b32 d0.1 dense f32", 4), ("b32 d0.1 tt f32 block", "b32 d0.1 dense f32", 10)]


class Rows:
    """The rows of one instruction set."""

    def __init__(self, rows):
        self.rows = rows

    def values(self, side, name, key):
        return [row[key] for row in self.rows if row["side"] == side and row["name"] == name and key in row]

    def time(self, side, name):
        values = self.values(side, name, "median_ms")
        return statistics.median(values) if values else None

    def spread(self, side, name):
        return min(self.values(side, name, "min_ms")), max(self.values(side, name, "max_ms"))

    def memory(self, side, name):
        values = self.values(side, name, "peak_bytes")
        return (min(values) if side == "pytorch" else max(values)) if values else None


def asked_text(ratio, asked):
    return "" if asked is None else f"{asked}x: " + ("met" if ratio >= asked else "missed")


def print_times(rows, title, pairs):
    lines = []
    for ours, theirs, asked in pairs:
        a, b = rows.time("comera", ours), rows.time("pytorch", theirs)
        if a is None or b is None:
            continue
        (alow, ahigh), (blow, bhigh) = rows.spread("comera", ours), rows.spread("pytorch", theirs)
        lines.append(f"| {ours} | {a:.1f} [{alow:.1f}-{ahigh:.1f}] | {theirs} | {b:.1f} [{blow:.1f}-{bhigh:.1f}] "
                     f"| {b / a:.2f}x | {asked_text(b / a, asked)} |")
    if lines:
        print(f"\n### {title}\n\n| comera | ms [min-max] | PyTorch | ms [min-max] | PyTorch / comera | asked |\n"
              "|---|---|---|---|---|---|")
        print("\n".join(lines))


def print_head(isa, rows):
    def all_of(key):
        return ", ".join(sorted({row[key] for row in rows.rows if row.get(key)}))

    print(f"\n## {isa}, {all_of('cpu') or 'processor not known'}\n")
    held = all_of("held")
    limit = "held to it by " + held if held else "free to choose"
    print(f"comera {isa}, {all_of('blas')}; {all_of('program')}, {limit}.")


def print_memory(rows):
    lines = []
    for ours, theirs, asked in MEMORY:
        a, b = rows.memory("comera", ours), rows.memory("pytorch", theirs)
        if a is not None and b is not None:
            lines.append(f"| {ours} | {a / MIB:.1f} | {theirs} | {b / MIB:.1f} | {b / a:.1f}x "
                         f"| {asked_text(b / a, asked)} |")
    if lines:
        print("\n### Peak memory, start-up subtracted\n\n| comera | MiB | PyTorch | MiB | PyTorch / comera | asked |\n"
              "|---|---|---|---|---|---|")
        print("\n".join(lines))
    for form, asked in (("tt", 1.3), ("dense", None)):
        wide, narrow = (rows.time("comera", f"b32 d0.1 {form} {dtype}") for dtype in ("f32", "bf16"))
        if wide and narrow:
            print(f"\n`--dtype bf16`, {form}: {wide / narrow:.2f}x as fast as fp32 {asked_text(wide / narrow, asked)}")
    base, block = rows.time("comera", "b32 d0.1 tt f32"), rows.time("comera", "b32 d0.1 tt f32 block")
    if base and block:
        print(f"\n`--activations block` takes {block / base:.2f}x the time of a step without (asked: at most 1.35x).")


def main():
    with open(sys.argv[1]) as lines:
        everything = [json.loads(line) for line in lines]
    print("Medians over rounds.")
    for isa in dict.fromkeys(row["isa"] for row in everything):
        rows = Rows([row for row in everything if row["isa"] == isa])
        print_head(isa, rows)
        for title, pairs in SECTIONS:
            print_times(rows, title, pairs)
        print_memory(rows)


if __name__ == "__main__":
    main()
