#!/usr/bin/env python3
"""The tables of recipes/code.sh.

  code_table.py FOLDER --program COMERA --seed N
"""

import argparse
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / "shared"))
import results  # noqa: E402


def read(path):
    return json.loads(path.read_text())


def words_row(folder, name):
    evaluation, report = read(folder / f"{name}.evaluation.json"), read(folder / name / "report.json")
    return {"run": name, "loss": evaluation["loss"], "accuracy": evaluation["accuracy"],
            "predicted": evaluation["examples"], "steps": report["step"], "seconds": report["seconds"],
            "tokens_per_second": report["tokens_per_second"], "parameters": report["totals"]["parameters"],
            "bytes": report["file_bytes"], "peak_bytes": report["memory"]["measured_peak"]}


def match_row(folder, name):
    evaluation, report = read(folder / f"{name}.evaluation.json"), read(folder / name / "report.json")
    return {"run": name, "recall_at_1": evaluation["accuracy"], "pairs": evaluation["examples"],
            "loss": evaluation["loss"], "bytes": report["file_bytes"], "steps": report["step"]}


def losses_of(run):
    """Step, loss and parameters of each report of a training."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [(line["step"], line["loss"], line["parameters"]) for line in lines if line.get("split") == "train"]


def compression(folder):
    """The loss of the smaller run relative to the run that keeps its ranks, which sees the same batches: difference
    before the first removal, the largest one after it, and the end; the steps from the largest one until the
    difference is back within a tenth of the bump."""
    smaller, plain = losses_of(folder / "tt-2-smaller"), dict((s, l) for s, l, _ in losses_of(folder / "tt-2"))
    rows = [(step, loss - plain[step], size) for step, loss, size in smaller if step in plain]
    start = rows[0][2]
    cut = next((i for i, row in enumerate(rows) if row[2] < start), len(rows) - 1)
    before = sum(row[1] for row in rows[:cut]) / max(cut, 1)
    peak = max(range(cut, len(rows)), key=lambda i: rows[i][1])
    bump = rows[peak][1] - before
    back = next((row[0] for row in rows[peak:] if row[1] <= before + bump / 10), None)
    return {"first_removal_step": rows[cut][0], "difference_before": before, "peak_step": rows[peak][0], "bump": bump,
            "recovered_step": back, "difference_at_end": rows[-1][1], "parameters_before": start,
            "parameters_at_end": rows[-1][2]}


def large(folder):
    plans = {form: read(folder / f"large-{form}.plan.json") for form in ("dense", "tt")}
    step = next(row for row in read(folder / "large-tt.bench.json")["rows"] if row["work"] == "step")
    rows = [{"form": form, "parameters": plan["totals"]["parameters"], "bytes": plan["totals"]["bytes"],
             "planned_peak": plan["memory"]["peak"]} for form, plan in plans.items()]
    rows[1].update(measured_peak=step["peak_bytes"], step_ms=step["median_ms"])
    return rows


def lines_of(words, matches, step, big):
    shown = results.shown_bytes
    lines = results.table(
        ["run", "masked loss", "accuracy", "steps", "minutes", "tokens/s", "parameters", "bytes", "peak memory"],
        [[row["run"], f"{row['loss']:.3f}", f"{100 * row['accuracy']:.1f} %", f"{row['steps']:,}",
          f"{row['seconds'] / 60:.1f}", f"{row['tokens_per_second']:,.0f}", f"{row['parameters']:,}",
          shown(row["bytes"]), shown(row["peak_bytes"])] for row in words])
    recovered = step["recovered_step"] or "not within the run"
    lines += ["", f"compression step: {step['parameters_before']:,} parameters become {step['parameters_at_end']:,}; "
              f"first removal at step {step['first_removal_step']}; the loss rises by {step['bump']:.3f} over the run "
              f"without removals (largest at step {step['peak_step']}), is back within a tenth of that at step "
              f"{recovered}, and ends {step['difference_at_end'] - step['difference_before']:+.3f} from it", ""]
    lines += results.table(["run", "recall@1 of 100", "pairs", "bytes"],
                           [[row["run"], f"{100 * row['recall_at_1']:.1f} %", f"{row['pairs']:,}", shown(row["bytes"])]
                            for row in matches])
    lines += [""] + results.table(
        ["large preset, 1 x 128 tokens", "parameters", "bytes", "planned peak", "measured peak", "ms per step"],
        [[row["form"], f"{row['parameters']:,}", shown(row["bytes"]), shown(row["planned_peak"]),
          shown(row["measured_peak"]) if "measured_peak" in row else "",
          f"{row['step_ms']:.4g}" if "step_ms" in row else ""] for row in big])
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--program", required=True)
    parser.add_argument("--seed", type=int, required=True)
    given = parser.parse_args()
    folder = given.folder
    words = [words_row(folder, name) for name in ("dense-1", "tt-1", "dense-2", "tt-2", "tt-2-smaller")]
    matches = [match_row(folder, name) for name in ("dense-match", "tt-match", "tt-smaller-match")]
    step, big = compression(folder), large(folder)
    results.write(folder, results.facts(given.program, given.seed), lines_of(words, matches, step, big),
                  {"words": words, "compression": step, "matches": matches, "large": big})


if __name__ == "__main__":
    main()
