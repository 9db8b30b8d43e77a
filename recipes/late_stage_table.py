#!/usr/bin/env python3
"""The tables of recipes/late_stage.sh.

  late_stage_table.py parameters REPORT                      the parameters of a run
  late_stage_table.py table FOLDER WAYS TARGETS SEEDS        the last three are words in one argument each
"""

import json
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / "shared"))
import results  # noqa: E402

NAMES = {
    "cuts": "scheduled cuts (default)",
    "objective": "CoMERA's objective",
    "one-cut": "one cut in the last step",
    "small": "small rank from the start",
}


def read(path):
    return json.loads(path.read_text())


def accuracy(path):
    return 100 * read(path)["dev"]["last"]["accuracy"]


def parameters(path):
    return read(path)["totals"]["parameters"]


def removals(path):
    events = [json.loads(line) for line in path.read_text().splitlines()]
    return tuple(sum(event.get(kind, 0) for event in events) for kind in ("fallen", "cut"))


def cell(runs):
    values = [accuracy(run) for run in runs]
    shown = f"{statistics.mean(values):.1f} %"
    return shown + (f" ({', '.join(f'{value:.1f}' for value in values)})" if len(values) > 1 else "")


def removed(runs):
    pairs = [removals(run.with_suffix(".jsonl")) for run in runs]
    return "; ".join(f"{fallen:,}, {cut:,}" for fallen, cut in pairs)


def tables(folder, ways, targets, seeds):
    def runs(way, target):
        return [path for seed in seeds if (path := folder / f"{way}-{target}-{seed}.json").exists()]

    def rows(show, ways):
        return [[NAMES[way], *(show(found) if (found := runs(way, target)) else "" for target in targets)]
                for way in ways]

    whole = [path for seed in seeds if (path := folder / f"early-{seed}" / "report.json").exists()]
    head = [f"target {target}" for target in targets]
    yield (f"== accuracy on dev after {read(whole[0])['steps']} steps, mean (seeds {', '.join(seeds)}); all ranks, "
           f"{parameters(whole[0]):,} parameters: {cell(whole)}")
    yield ""
    yield from results.table(["way", *head], rows(cell, ways))
    yield ""
    yield "== parameters, first seed"
    yield ""
    yield from results.table(["way", *head], rows(lambda found: f"{parameters(found[0]):,}", ways))
    yield ""
    yield "== rank entries that fell to the threshold and that were cut, by seed"
    yield ""
    yield from results.table(["way", *head], rows(removed, [way for way in ways if way != "small"]))


def main():
    if sys.argv[1] == "parameters":
        return print(parameters(pathlib.Path(sys.argv[2])))
    print("\n".join(tables(pathlib.Path(sys.argv[2]), *(argument.split() for argument in sys.argv[3:6]))))


if __name__ == "__main__":
    main()
