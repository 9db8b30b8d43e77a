#!/usr/bin/env python3
"""The tables of recipes/core_rates.sh.

  core_rates_table.py FOLDER JOBS LAYOUTS KINDS RATES

The last four are words in one argument each. A run that diverged has its figures like all others.
"""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / "shared"))
import results  # noqa: E402


def quality(folder, job, layout, kind, rate):
    """Loss on dev, and the figure that the table shows."""
    report = json.loads((folder / f"{job}-{layout}-{kind}-{rate}.json").read_text())
    scores = report["dev"]["last"]
    shown = f"{100 * scores['accuracy']:.1f} %" if job == "glosses" else f"{scores['loss']:.3f}"
    return scores["loss"], shown


def table(folder, job, layouts, kind, rates):
    runs = {layout: {rate: quality(folder, job, layout, kind, rate) for rate in rates} for layout in layouts}
    best = {layout: min(losses.values())[0] for layout, losses in runs.items()}
    found = min(rates, key=lambda rate: runs["base"][rate][0])
    above = {layout: 100 * (runs[layout][found][0] / best[layout] - 1) for layout in layouts}
    rows = [[layout, *(runs[layout][rate][1] for rate in rates), f"{above[layout]:.2f} %"] for layout in layouts]
    return [f"== {job}, {kind} rates of the cores", "",
            *results.table(["layout", *rates, f"loss at {found} above the best"], rows), "",
            f"The rate of the base, {found}, costs at most {max(above.values()):.2f} % of the loss.", ""]


def main():
    folder = pathlib.Path(sys.argv[1])
    jobs, layouts, kinds, rates = (words.split() for words in sys.argv[2:])
    for job in jobs:
        for kind in kinds:
            print("\n".join(table(folder, job, layouts, kind, rates)))


if __name__ == "__main__":
    main()
