#!/usr/bin/env python3
"""Tables of the runs of recipes/mnli.sh.

usage: mnli_table.py FOLDER             runs of equal time on the CPU, beside CoMERA's
       mnli_table.py FOLDER EPOCHS      with --device cuda: results beside CoMERA's; ranks, time and memory by epoch.
                                        EPOCHS: number of epochs of the early stage
"""

import json
import os
import statistics
import sys

MIB = 1 << 20
# CoMERA (arXiv 2405.14377), whole MNLI, as quoted by others: accuracy, size of the file in MB, dense / compressed.
PUBLISHED = {"dense": "62.2 %, 256 MB", "early": "63.3 %, 5.9 MB (43x)", "late-0.8": "62.2 %, 4.9 MB (52x)",
             "late-0.5": "62.1 %, 3.9 MB (65x)", "late-0.2": "61.5 %, 3.2 MB (80x)"}
# The runs on the CPU, and the row of the paper that each is nearest to.
EQUAL_TIME = {"dense": "dense", "tt": "early", "tt-steps": "early", "late-0.8": "late-0.8", "late-0.5": "late-0.5",
              "late-0.2": "late-0.2", "objective-0.5": "late-0.5", "one-cut-0.5": "late-0.5", "small": "late-0.5"}


def read_json(path):
    with open(path) as file:
        return json.load(file)


class Run:
    def __init__(self, folder, name):
        self.name = name
        self.report = read_json(f"{folder}/{name}/report.json")
        evaluation = read_json(f"{folder}/{name}.evaluate.json")
        self.accuracy, self.loss = evaluation["accuracy"], evaluation["loss"]
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


def bags_of_words(folder):
    """Rows for what needs no transformer; none if recipes/mnli.sh had no scikit-learn."""
    if not os.path.exists(f"{folder}/bag-of-words.json"):
        return []
    return [[f"bag of words: {name}", f"{100 * accuracy:.2f} %"] + [""] * 7
            for name, accuracy in read_json(f"{folder}/bag-of-words.json").items()]


def print_equal_time(runs, rows_below):
    rows = [[run.name, f"{100 * run.accuracy:.2f} %", f"{run.loss:.4f}", f"{run.report['step']:,}",
             f"{run.report['file_bytes']:,}", f"{run.report['totals']['ratio']:.1f}x", f"{run.report['step_ms']:.1f}",
             f"{run.report['memory']['measured_peak'] / MIB:.0f}", PUBLISHED[EQUAL_TIME[run.name]]] for run in runs]
    print_table(["run", "accuracy", "loss", "steps", "bytes", "ratio", "ms per step", "peak MiB",
                 "CoMERA, as quoted (all of MNLI, 20 to 30 epochs)"], rows + rows_below)


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
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    folder = sys.argv[1]
    if len(sys.argv) == 2:
        return print_equal_time([Run(folder, name) for name in EQUAL_TIME], bags_of_words(folder))
    early = int(sys.argv[2])
    runs = [Run(folder, name) for name in PUBLISHED]
    steps = runs[1].report["step"] // early
    print_results(runs, steps)
    print()
    print_epochs(runs, steps, early)


if __name__ == "__main__":
    main()
