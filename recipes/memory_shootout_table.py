#!/usr/bin/env python3
"""The tables of recipes/memory_shootout.sh.

usage: memory_shootout_table.py FOLDER          tables of FOLDER/short/METHOD/RATE and FOLDER/long/METHOD/SEED
       memory_shootout_table.py --best FOLDER   the rate of FOLDER/RATE with the least loss on the dev set
       memory_shootout_table.py --next FOLDER   the rate beyond it, if it is the least or the largest one tried
       memory_shootout_table.py --best-methods COUNT FOLDER SEED
                                                the methods of FOLDER/METHOD/SEED with the least loss
"""
import json
import math
import pathlib
import statistics
import sys

KINDS = ("weights", "gradients", "optimizer", "saved", "scratch", "peak")


def reports(folder):
    """Name -> report of the runs in a folder, in the order of their rates or seeds."""
    found = {path.parent.name: json.loads(path.read_text()) for path in folder.glob("*/report.json")}
    return dict(sorted(found.items(), key=lambda item: float(item[0])))


def loss(report):
    """The loss on the dev set after the last step; infinite for a run that diverged."""
    value = report["dev"]["last"]["loss"]
    return math.inf if value is None else value


def best(runs):
    return min(runs, key=lambda name: loss(runs[name]))


def beyond(rate, up):
    """The next of the rates 1e-4, 3e-4, 1e-3, ... as it is written."""
    digit, power = rate.split("e")
    power = int(power)
    return f"3e{power if up else power - 1}" if digit == "1" else f"1e{power + 1 if up else power}"


def untried(folder):
    """The rate beyond the best one where that is the least or the largest of those tried; None where it lies inside."""
    runs = reports(folder)
    rate = best(runs)
    for up in (False, True):
        next_one = beyond(rate, up)
        if not (folder / next_one).exists():
            return next_one
    return None


def best_methods(count, folder, seed):
    runs = {path.name: reports(path)[seed] for path in sorted(folder.iterdir()) if seed in reports(path)}
    return sorted(runs, key=lambda name: loss(runs[name]))[:count]


def row(method, runs):
    losses = [loss(run) for run in runs]
    spread = f" ({min(losses):.3f}-{max(losses):.3f})" if len(losses) > 1 else ""
    mean = statistics.mean(losses)
    memory = [f"{runs[0]['memory'][kind] / 2**20:.1f}" for kind in KINDS]
    ms = statistics.median(run["step_ms"] for run in runs)
    return [method, f"{mean:.3f}{spread}", f"{math.exp(min(mean, 99)):.1f}", *memory, f"{ms:.0f}",
            f"{runs[0]['file_bytes'] / 2**20:.1f}"]


def table(title, first, rows):
    head = [first, "dev loss", "perplexity", *KINDS, "ms", "file"]
    print(f"\n{title}; MiB planned\n")
    print("| " + " | ".join(head) + " |\n|" + "---|" + "---:|" * (len(head) - 1))
    for cells in sorted(rows, key=lambda cells: float(cells[1].split()[0])):
        print("| " + " | ".join(cells) + " |")


def main():
    if sys.argv[1] == "--best":
        return print(best(reports(pathlib.Path(sys.argv[2]))))
    if sys.argv[1] == "--next":
        return print(untried(pathlib.Path(sys.argv[2])) or "")
    if sys.argv[1] == "--best-methods":
        return print(*best_methods(int(sys.argv[2]), pathlib.Path(sys.argv[3]), sys.argv[4]))
    folder = pathlib.Path(sys.argv[1])
    for part, title in (("short", "the best rate of each method"), ("long", "long runs")):
        found = {path.name: reports(path) for path in sorted(folder.glob(part + "/*"))}
        rows = []
        for method, runs in found.items():
            if part == "short" and runs:
                rate = best(runs)
                tried = ", ".join(f"**{name}**" if name == rate else name for name in runs)
                rows.append(row(f"{method}: {tried}", [runs[rate]]))
            elif runs:
                rows.append(row(method, list(runs.values())))
        if rows:
            steps = next(iter(next(iter(runs for runs in found.values() if runs)).values()))["steps"]
            table(f"{steps} steps, {title}", "method: rates tried" if part == "short" else "method", rows)


if __name__ == "__main__":
    main()
