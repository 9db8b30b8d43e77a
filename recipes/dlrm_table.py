#!/usr/bin/env python3
"""Parts of recipes/dlrm.sh: the rows of a hashed table at given bytes, and the table of results.

  dlrm_table.py hash-rows DENSE.csv TTM.csv      prints the rows
  dlrm_table.py results FOLDER --program COMERA --seed N
"""

import argparse
import csv
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / "shared"))
from results import facts, shown_bytes, write  # noqa: E402


def tables(path):
    """Rows, columns and bytes of each table."""
    with open(path, newline="", encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            if row["name"].startswith("emb_l."):
                rows, columns = (int(size) for size in row["shape"].replace("x", " ").split())
                yield rows, columns, int(row["bytes"])


def hash_rows(dense, ttm):
    """The largest limit of rows at which all tables together have at most the bytes of the TTM tables."""
    sizes = [(rows, columns) for rows, columns, _ in tables(dense)]
    wanted = sum(size for _, _, size in tables(ttm))
    low, high = 1, max(rows for rows, _ in sizes)
    while low < high:
        middle = (low + high + 1) // 2
        if sum(4 * min(rows, middle) * columns for rows, columns in sizes) <= wanted:
            low = middle
        else:
            high = middle - 1
    return low


def run_row(folder, name):
    evaluation = json.loads((folder / f"{name}.evaluation.json").read_text())
    report = json.loads((folder / name / "report.json").read_text())
    return {"run": name, "test_rows": evaluation["examples"],
            **{key: evaluation[key] for key in ("auc", "auc_error", "nce", "nce_error", "accuracy", "calibration")},
            "bytes": report["file_bytes"], "peak_bytes": report["memory"]["measured_peak"],
            "step_ms": report["step_ms"], "steps": report["step"]}


def runs_of(folder):
    names = sorted(path.name.removesuffix(".evaluation.json") for path in folder.glob("*.evaluation.json"))
    order = {"dense": 0, "ttm": 1, "hash": 2}

    def key(name):
        data, _, rest = name.partition("-" + next(word for word in order if f"-{word}" in name))
        kind = next(word for word in order if f"-{word}" in name)
        return data, rest.lstrip("-").zfill(4) if kind != "dense" else "", order[kind]

    return [run_row(folder, name) for name in sorted(names, key=key)]


def kaggle_rows(folder):
    plans = {form: json.loads((folder / f"kaggle-{form}.plan.json").read_text()) for form in ("dense", "ttm")}
    bench = json.loads((folder / "kaggle-ttm.bench.json").read_text())
    step = next(row for row in bench["rows"] if row["work"] == "step")
    rows = []
    for form, plan in plans.items():
        rows.append({"tables": form, "parameters": plan["totals"]["parameters"], "bytes": plan["totals"]["bytes"],
                     "planned_peak": plan["memory"]["peak"]})
    rows[1].update(measured_peak=step["peak_bytes"], step_ms=step["median_ms"])
    return rows


def lines_of(runs, kaggle):
    lines = ["| run | test rows | AUC | NCE | accuracy | bytes | peak memory | ms per step |",
             "|---|---:|---:|---:|---:|---:|---:|---:|"]
    for run in runs:
        lines.append(f"| {run['run']} | {run['test_rows']:,} | {run['auc']:.4f} ± {run['auc_error']:.4f} | "
                     f"{run['nce']:.4f} ± {run['nce_error']:.4f} | {100 * run['accuracy']:.2f} % | "
                     f"{shown_bytes(run['bytes'])} | {shown_bytes(run['peak_bytes'])} | {run['step_ms']:.3g} |")
    dense, ttm = kaggle
    lines += ["", "| tables of Criteo Kaggle, batch 10,000 | parameters | bytes | planned peak | measured peak | "
              "ms per step |", "|---|---:|---:|---:|---:|---:|"]
    for row in kaggle:
        measured = shown_bytes(row["measured_peak"]) if "measured_peak" in row else ""
        time = f"{row['step_ms']:.4g}" if "step_ms" in row else ""
        lines.append(f"| {row['tables']} | {row['parameters']:,} | {shown_bytes(row['bytes'])} | "
                     f"{shown_bytes(row['planned_peak'])} | {measured} | {time} |")
    lines.append(f"| dense / ttm | {dense['parameters'] / ttm['parameters']:.4g} | {dense['bytes'] / ttm['bytes']:.4g} "
                 f"| {dense['planned_peak'] / ttm['planned_peak']:.4g} | "
                 f"{dense['planned_peak'] / ttm['measured_peak']:.4g} | |")
    return lines


def results(folder, program, seed):
    runs, kaggle = runs_of(folder), kaggle_rows(folder)
    write(folder, facts(program, seed), lines_of(runs, kaggle), {"runs": runs, "kaggle": kaggle})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    rows = verbs.add_parser("hash-rows")
    rows.add_argument("dense")
    rows.add_argument("ttm")
    table = verbs.add_parser("results")
    table.add_argument("folder", type=pathlib.Path)
    table.add_argument("--program", required=True)
    table.add_argument("--seed", type=int, required=True)
    given = parser.parse_args()
    if given.verb == "hash-rows":
        print(hash_rows(given.dense, given.ttm))
    else:
        results(given.folder, given.program, given.seed)


if __name__ == "__main__":
    main()
