#!/usr/bin/env python3
"""Two tables of the runs of `recipes/mnli.sh --device cuda`: results beside CoMERA's; ranks, time and memory by epoch.

usage: mnli_table.py FOLDER EPOCHS      EPOCHS: number of epochs of the early stage
"""

import json
import statistics
import sys

MIB = 1 << 20
# CoMERA (arXiv 2405.14377), whole MNLI, as quoted by others: accuracy, size of the file in MB, dense / compressed.
PUBLISHED = {"dense": "62.2 %, 256 MB", "early": "63.3 %, 5.9 MB (43x)", "late-0.8": "62.2 %, 4.9 MB (52x)",
             "late-0.5": "62.1 %, 3.9 MB (65x)", "late-0.2": "61.5 %, 3.2 MB (80x)"}


def read_json(path):
    with open(path) as file:
        return json.load(file)


class Run:
    def __init__(self, folder, name):
        self.name = name
        self.report = read_json(f"{folder}/{name}/report.json")
        self.accuracy = read_json(f"{folder}/{name}.evaluate.json")["accuracy"]
        with open(f"{folder}/{name}/metrics.jsonl") as file:
            self.lines = [json.loads(line) for line in file]

    def epochs(self, steps):
        """By number from 1: the training lines and the last dev accuracy of that epoch."""
        found = {}
        for line in self.lines:
            epoch = found.setdefault(-(-line["step"] // steps), {"train": [], "accuracy": None})
            if line.get("split") == "train":
                epoch["train"].append(line)
            elif line.get("split") == "dev":
                epoch["accuracy"] = line["dev"]["accuracy"]
        return {number: epoch for number, epoch in sorted(found.items()) if epoch["train"]}


def step_ms(epoch):
    return statistics.median(line["step_ms"] for line in epoch["train"])


def print_table(head, rows):
    for row in [head, ["---"] * len(head), *rows]:
        print("| " + " | ".join(row) + " |")


def print_results(runs, steps):
    rows = []
    for run in runs:
        epochs = list(run.epochs(steps).values())
        first, last = (1e-3 * steps * step_ms(epochs[i]) for i in (0, -1))
        rows.append([run.name, f"{100 * run.accuracy:.2f} %", f"{run.report['file_bytes']:,}",
                     f"{run.report['totals']['ratio']:.1f}x", f"{first:.1f} / {last:.1f}",
                     f"{run.report['memory']['measured_peak'] / MIB:.0f}", PUBLISHED[run.name]])
    print_table(["run", "accuracy", "bytes", "ratio", "s per epoch, first / last", "peak MiB",
                 "CoMERA, as quoted (all of MNLI)"], rows)


def print_epochs(runs, steps, early):
    rows = []
    for run in runs:
        for number, epoch in run.epochs(steps).items():
            if run.name.startswith("late") and number <= early:
                continue
            last = epoch["train"][-1]
            rows.append([run.name, str(number), f"{last['rank']:.1f}" if "rank" in last else "",
                         f"{last['ratio']:.1f}x", f"{step_ms(epoch):.2f}", f"{last['memory']['peak'] / MIB:.1f}",
                         "" if epoch["accuracy"] is None else f"{100 * epoch['accuracy']:.2f} %"])
    print_table(["run", "epoch", "mean rank", "ratio", "ms per step", "planned MiB", "accuracy on 2,000 rows"], rows)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    folder, early = sys.argv[1], int(sys.argv[2])
    runs = [Run(folder, name) for name in PUBLISHED]
    steps = runs[1].report["step"] // early
    print_results(runs, steps)
    print()
    print_epochs(runs, steps, early)


if __name__ == "__main__":
    main()
