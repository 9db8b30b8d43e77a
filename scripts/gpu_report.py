#!/usr/bin/env python3
"""Formats the measurements of check_gpu.sh, for people and for scripts.

  scripts/gpu_report.py row NAME ANSWER LINES    reads ANSWER (JSON of comera bench, pytorch_peer.py or time_epoch.py);
                                                 prints its rows as rows of a Markdown table, appends them to LINES as
                                                 JSON
  scripts/gpu_report.py ratios LINES             compares ours with the required ratios; prints the result and appends
                                                 it to LINES

A part is the whole "step"; or of one layer its "tokens" (forward and backward) or its "cores" (merging and core
gradients). In a model, "cores" is the total of all layers.
"""

import json
import sys

MIB = 1 << 20
STEP, DENSE, LOOKUP = "mnli-6enc {} x 128", "pytorch dense bf16", "look-up 4096 of 30522x768"
LINEAR, EPOCH = "linear 768x3072 at {} tokens", "epoch mnli-6enc 128 x 128"
# work, part, work compared with, program compared with, quantity, required ratio
RATIOS = [
    (STEP.format(32) + " tt bf16", "step", STEP.format(32), DENSE, "median_ms", 5),
    (STEP.format(32) + " tt bf16", "step", STEP.format(32), DENSE + " compiled", "median_ms", 2.5),
    (STEP.format(1) + " tt bf16", "step", STEP.format(1), DENSE + " galore", "median_ms", 8),
    (STEP.format(1) + " tt bf16", "step", STEP.format(1), DENSE + " galore", "peak_bytes", 15),
    (LINEAR.format(4096) + " tt bf16", "tokens", None, "roofline", "bound", 0.5),
    (LINEAR.format(65536) + " tt bf16", "tokens", None, "roofline", "bound", 0.7),
    (LINEAR.format(4096) + " tt bf16", "tokens", LINEAR.format(4096), DENSE + " compiled", "median_ms", None),
    (LINEAR.format(65536) + " tt bf16", "tokens", LINEAR.format(65536), DENSE + " compiled", "median_ms", None),
    (LOOKUP + " tt fp32", "step", LOOKUP, "pytorch ttm f32", "median_ms", 8),
    (LOOKUP + " tt fp32", "step", LOOKUP, "pytorch ttm f32", "peak_bytes", 3),
    (EPOCH + " tt bf16", "step", EPOCH, DENSE + " compiled", "median_ms", 2.5),
]
WORDS = {"median_ms": "time", "peak_bytes": "memory", "bound": "share of the bound"}
KEPT = ("median_ms", "min_ms", "max_ms", "peak_bytes", "joules", "flops", "moved_bytes", "graph", "launches", "steps",
        "epoch_steps", "epoch_seconds")


def side_of(answer):
    if "rows" in answer or answer["program"] == "comera":
        return "comera"
    words = ["pytorch", answer["form"], answer["dtype"]]
    return " ".join(words + ["compiled"] * answer["compile"] + ["galore"] * (answer["optimizer"] == "galore"))


def parts_of(answer):
    """Pairs of a part and its numbers."""
    if "rows" not in answer:
        return [("step", answer)]
    parts = [(row["work"], row) for row in answer["rows"] if row["work"] in ("step", "tokens", "cores")]
    merges = [row["median_ms"] for row in answer["rows"] if row["work"] in ("tt_merge", "tt_merge_backward")]
    return parts + ([("cores", {"median_ms": sum(merges)})] if merges else [])


def lines_of(name, answer):
    if answer.get("work") == "rates":
        rates = {key: answer[key] for key in ("peak_gflops", "copy_gb_per_s", "dtype")}
        yield {"name": name, "side": side_of(answer), "part": "rates", **rates}
        return
    for part, numbers in parts_of(answer):
        kept = {key: numbers[key] for key in KEPT if numbers.get(key) is not None}
        line = {"name": name, "side": side_of(answer), "part": part, **kept}
        if numbers.get("gflops"):
            line["flops"] = 1e6 * numbers["gflops"] * numbers["median_ms"]
        if numbers.get("moved_bytes"):
            line.update(peak_gflops=answer["peak_gflops"], copy_gb_per_s=answer["copy_gb_per_s"])
        line.setdefault("joules", None)
        yield line


def cells(line):
    if line["part"] == "rates":
        rates = f"{line['copy_gb_per_s']:.0f} GB/s, {line['peak_gflops'] / 1e3:.1f} TFLOP/s"
        return [line["name"], line["side"], rates, "", "", "", ""]
    name = line["name"]
    if "epoch_seconds" in line:
        name += f" (from {line['steps']} steps: {line['epoch_seconds']:.1f} s for {line['epoch_steps']} steps)"
    side = line["side"] + (f" ({line['graph']})" if line.get("graph", "none") != "none" else "")
    joules, peak = line["joules"], line.get("peak_bytes")
    return [name, side, line["part"], f"{line['median_ms']:.3f}", "" if joules is None else f"{joules:.3f}",
            f"{peak / MIB:.0f}" if peak else "", str(line.get("launches", ""))]


def table(rows):
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def share_of_bound(line, lines):
    """Share of the bound, which uses the fastest copy and product that either program reached."""
    shown = [other for other in lines if other["part"] == "rates" and other["dtype"] == "bf16"] + [line]
    gflops, copy = (max(other[key] for other in shown) for key in ("peak_gflops", "copy_gb_per_s"))
    if not gflops or not copy:  # 0: not measured
        return None
    return 1e-6 * max(line["flops"] / gflops, line["moved_bytes"] / copy) / line["median_ms"]


def ratio_of(rule, lines):
    work, part, against, side, what, _ = rule
    ours = next((line for line in lines if (line["name"], line["part"], line["side"]) == (work, part, "comera")), None)
    if ours and what == "bound":
        return share_of_bound(ours, lines) if ours.get("moved_bytes") else None
    theirs = next((line for line in lines if (line["name"], line["side"]) == (against, side)), None)
    if not ours or not theirs or not ours.get(what) or not theirs.get(what):
        return None
    return theirs[what] / ours[what]


def ratios(path):
    with open(path) as file:
        lines = [line for line in map(json.loads, file) if "part" in line]
    rows, found = [], []
    for rule in RATIOS:
        work, part, against, side, what, least = rule
        ratio = ratio_of(rule, lines)
        met = None if ratio is None or least is None else ratio >= least
        found.append({"ratio": f"{work} {part}", "against": side, "what": what, "value": ratio, "at_least": least,
                      "met": met})
        shown = "not measured" if ratio is None else f"{100 * ratio:.0f} %" if what == "bound" else f"{ratio:.2f}x"
        asked = "" if least is None else f"{100 * least:.0f} %" if what == "bound" else f"{least}x"
        met_text = "" if met is None else "yes" if met else "no"
        rows.append([f"{work}, {part}", f"{side}, {WORDS[what]}", shown, asked, met_text])
    with open(path, "a") as file:
        file.writelines(json.dumps(line) + "\n" for line in found)
    return table([["work", "against", "ratio", "at least", "met"], ["---"] * 5] + rows)


def main():
    if len(sys.argv) == 5 and sys.argv[1] == "row":
        with open(sys.argv[3]) as file:
            lines = list(lines_of(sys.argv[2], json.load(file)))
        with open(sys.argv[4], "a") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
        print(table(map(cells, lines)))
    elif len(sys.argv) == 3 and sys.argv[1] == "ratios":
        print(ratios(sys.argv[2]))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
