#!/usr/bin/env python3
"""The tables of recipes/weight_decay.sh.

  weight_decay_table.py FOLDER JOBS DECAYS

The last two are words in one argument each. A column is a length and a seed, as the names of the reports have them;
a cell without a report is empty.
"""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / "shared"))
import results  # noqa: E402


def shown(report, job):
    scores = report["dev"]["last"]
    accuracy = f", {100 * scores['accuracy']:.1f} %" if job == "glosses" else ""
    return f"{scores['loss']:.3f}{accuracy}"


def table(folder, job, decays):
    found = {tuple(path.stem.split("-")[1:3]) for path in folder.glob(f"{job}-*.json")}
    columns = sorted(found, key=lambda column: tuple(map(int, column)))

    def cell(decay, length, seed):
        path = folder / f"{job}-{length}-{seed}-{decay.replace(':', '-')}.json"
        return shown(json.loads(path.read_text()), job) if path.exists() else ""

    rows = [[decay.replace(":", " "), *(cell(decay, *column) for column in columns)] for decay in decays]
    head = [f"{length} steps, seed {seed}" for length, seed in columns]
    return [f"== {job}: loss on dev by what decays and by how much", "", *results.table(["decay of", *head], rows), ""]


def main():
    folder = pathlib.Path(sys.argv[1])
    for job in sys.argv[2].split():
        print("\n".join(table(folder, job, sys.argv[3].split())))


if __name__ == "__main__":
    main()
