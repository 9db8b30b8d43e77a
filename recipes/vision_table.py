#!/usr/bin/env python3
"""Parts of recipes/vision.sh: a few images for --smoke, and the table of results.

  vision_table.py few FROM TO                     the first 256 training and 64 test images
  vision_table.py results FOLDER --program COMERA --seed N
"""

import argparse
import gzip
import json
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / "shared"))
from results import facts, shown_bytes, write  # noqa: E402

FORMS, POLICIES = ("dense", "tt", "lowrank"), ("keep", "int8", "block")


def read(folder, name):
    return json.loads((folder / name).read_text())


def accuracy_of(folder, form, policy):
    """Block recomputes what keep keeps, and gives the same bits."""
    name = f"{form}-{'keep' if policy == 'block' else policy}"
    return read(folder, f"{name}.evaluation.json")["accuracy"]


def rows_of(folder):
    rows = []
    for form in FORMS:
        for policy in POLICIES:
            plan = read(folder, f"{form}-{policy}.plan.json")
            step = next(row for row in read(folder, f"{form}-{policy}.bench.json")["rows"] if row["work"] == "step")
            rows.append({"form": form, "activations": policy, "accuracy": accuracy_of(folder, form, policy),
                         "parameters": plan["totals"]["parameters"], "bytes": plan["totals"]["bytes"],
                         "saved_bytes": plan["memory"]["saved"], "planned_peak": plan["memory"]["peak"],
                         "peak_bytes": step["peak_bytes"], "step_ms": step["median_ms"]})
    return rows


def lines_of(rows, noise):
    lines = ["| form | activations | test accuracy | parameters | bytes | saved | peak memory | ms per step |",
             "|---|---|---:|---:|---:|---:|---:|---:|"]
    for row in rows:
        lines.append(f"| {row['form']} | {row['activations']} | {100 * row['accuracy']:.2f} % | {row['parameters']:,} | "
                     f"{shown_bytes(row['bytes'])} | {shown_bytes(row['saved_bytes'])} | "
                     f"{shown_bytes(row['peak_bytes'])} | {row['step_ms']:.4g} |")
    lines += ["", f"A second seed of tt with keep: {100 * noise['accuracy']:.2f} %, "
                  f"{100 * (noise['accuracy'] - noise['first']):+.2f} points."]
    by_name = {(row["form"], row["activations"]): row for row in rows}
    for form in FORMS:
        keep, int8 = by_name[form, "keep"], by_name[form, "int8"]
        lines.append(f"{form}, int8 against keep: saved bytes {int8['saved_bytes'] / keep['saved_bytes']:.2f}x, time "
                     f"{int8['step_ms'] / keep['step_ms']:.2f}x, accuracy "
                     f"{100 * (int8['accuracy'] - keep['accuracy']):+.2f} points.")
    return lines


def few(source, target):
    """IDX files with fewer entries: the header has a size per axis, the first counts the entries."""
    target.mkdir(parents=True, exist_ok=True)
    for part, count in (("train", 256), ("t10k", 64)):
        for kind in ("images-idx3", "labels-idx1"):
            name = f"{part}-{kind}-ubyte.gz"
            with gzip.open(source / name) as file:
                axes = file.read(4)[3]
                sizes = struct.unpack(f">{axes}I", file.read(4 * axes))
                each = 1
                for size in sizes[1:]:
                    each *= size
                content = file.read(min(count, sizes[0]) * each)
            head = b"\0\0\x08" + bytes([axes]) + struct.pack(f">{axes}I", len(content) // each, *sizes[1:])
            with gzip.GzipFile(target / name, "wb", mtime=0) as file:
                file.write(head + content)


def results(given):
    folder, rows = given.folder, rows_of(given.folder)
    noise = {"accuracy": read(folder, "tt-keep-seed.evaluation.json")["accuracy"],
             "first": accuracy_of(folder, "tt", "keep")}
    about = facts(given.program, f"{given.seed} {given.seed + 1}")
    write(folder, about, lines_of(rows, noise), {"rows": rows, "second_seed": noise})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    fewer = verbs.add_parser("few")
    fewer.add_argument("source", type=pathlib.Path)
    fewer.add_argument("target", type=pathlib.Path)
    table = verbs.add_parser("results")
    table.add_argument("folder", type=pathlib.Path)
    table.add_argument("--program", required=True)
    table.add_argument("--seed", type=int, required=True)
    given = parser.parse_args()
    if given.verb == "few":
        few(given.source, given.target)
    else:
        results(given)


if __name__ == "__main__":
    main()
