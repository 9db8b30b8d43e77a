#!/usr/bin/env python3
"""Keeps the results of check_gpu.sh: LINES has a JSON object per check or bench, with everything that the command
answered; the page is made of it. Both are replaced whole, so that they can be read at any instant.

  scripts/gpu_report.py facts LINES RUN KEY=VALUE...      what the machine is
  scripts/gpu_report.py add LINES RUN PART NAME STATUS SECONDS LIMIT KIND LOG [ANSWER]
                                                          a command that has ended; STATUS none: it was not started.
                                                          KIND: ours, or peer, whose failure does not count. ANSWER: its
                                                          JSON (of comera bench, pytorch_peer.py or time_epoch.py).
                                                          Prints the line in words
  scripts/gpu_report.py page LINES PAGE                   all runs as Markdown, with the ratios over all of them;
                                                          prints the number of checks of the last run that failed,
                                                          stopped at their limit and did not run

A part of a step is the whole "step"; or of one layer its "tokens" (forward and backward) or its "cores" (merging and
core gradients). In a model, "cores" is the total of all layers.
"""

import json
import os
import re
import sys

MIB = 1 << 20
STEP, DENSE, LOOKUP = "mnli-6enc {} x 128", "pytorch dense bf16", "look-up 4096 of 30522x768"
LINEAR, EPOCH = "linear 768x3072 at {} tokens", "epoch mnli-6enc 128 x 128"
# work, part, work compared with, program compared with, quantity, required ratio
RATIOS = [
    (STEP.format(32) + " tt bf16", "step", STEP.format(32), DENSE, "median_ms", 5),
    (STEP.format(32) + " tt bf16", "step", STEP.format(32), DENSE + " compiled", "median_ms", 2.5),
    (STEP.format(1) + " tt bf16", "step", STEP.format(1), DENSE + " galore", "median_ms", 8),
    (STEP.format(1) + " tt bf16", "step", STEP.format(1), DENSE + " galore", "steady_device_bytes", 15),
    (STEP.format(1) + " tt bf16", "step", STEP.format(1), DENSE + " galore", "steady_peak_bytes", None),
    (STEP.format(1) + " tt bf16", "step", STEP.format(1), DENSE + " galore", "peak_bytes", None),
    (LINEAR.format(4096) + " tt bf16", "tokens", None, "roofline", "bound", 0.5),
    (LINEAR.format(65536) + " tt bf16", "tokens", None, "roofline", "bound", 0.7),
    (LINEAR.format(4096) + " tt bf16", "tokens", LINEAR.format(4096), DENSE + " compiled", "median_ms", None),
    (LINEAR.format(65536) + " tt bf16", "tokens", LINEAR.format(65536), DENSE + " compiled", "median_ms", None),
    (LOOKUP + " tt fp32", "step", LOOKUP, "pytorch ttm f32", "median_ms", 8),
    (LOOKUP + " tt fp32", "step", LOOKUP, "pytorch ttm f32", "peak_bytes", 3),
    (EPOCH + " tt bf16", "step", EPOCH, DENSE + " compiled", "median_ms", 2.5),
]
WORDS = {"median_ms": "time", "peak_bytes": "memory of PyTorch's allocator",
         "steady_peak_bytes": "memory of PyTorch's allocator without GaLore's SVD",
         "steady_device_bytes": "memory of the driver without GaLore's SVD",
         "bound": "share of the bound"}
KEPT = ("median_ms", "min_ms", "max_ms", "peak_bytes", "steady_peak_bytes", "joules", "flops", "moved_bytes", "graph",
        "steady_device_bytes", "launches", "steps", "epoch_steps", "epoch_seconds")
STOPPED = (124, 137)  # of the program timeout
MOST_TAIL, MOST_BOUNDS = 30, 20
BOUND = re.compile(r"^bound ([0-9.]+|nan|inf) (.*)$")
PATH = re.compile(r"tt_linear_(?:forward|backward) .*: (?:fused|library)\b.*")


def outcome_of(status, seconds, limit):
    if status is None:
        return "not run"
    if status == 0:
        return "passed"
    return "limit" if status in STOPPED and seconds + 1 >= limit else "failed"


def bounds_of(text):
    """The cases with the largest errors relative to their bounds, as the kernel tests print them."""
    found = [(float(match[1]), match[2]) for match in map(BOUND.match, text.splitlines()) if match]
    found.sort(key=lambda item: -item[0] if item[0] == item[0] else -float("inf"))
    return [f"{share:.3f} {case}" for share, case in found[:MOST_BOUNDS]]


def tail_of(text):
    lines = text.splitlines()
    # After a fault of the GPU everything else fails too, so the first failures are kept.
    first = [line for line in lines if re.search(r"on cuda gpu: |on the GPU$", line)][:10]
    return first + lines[-MOST_TAIL:]


def read_text(path):
    try:
        with open(path, errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def read_lines(path):
    return [json.loads(line) for line in read_text(path).splitlines()]


def replace_file(path, text):
    with open(path + ".new", "w") as file:
        file.write(text)
    os.replace(path + ".new", path)


def append(path, line):
    replace_file(path, read_text(path) + json.dumps(line) + "\n")


def added(run, part, name, status, seconds, limit, kind, log, answer=None):
    status, seconds, limit = None if status == "none" else int(status), int(seconds), int(limit)
    text = read_text(log)
    line = {"run": run, "part": part, "name": name, "outcome": outcome_of(status, seconds, limit), "status": status,
            "seconds": seconds, "limit": limit, "kind": kind}
    if answer:
        try:
            line["answer"] = json.loads(read_text(answer))
        except ValueError:
            line["outcome"] = "failed" if line["outcome"] == "passed" else line["outcome"]
    kept = {"paths": sorted(set(PATH.findall(text))), "bounds": bounds_of(text),
            "tail": tail_of(text) if line["outcome"] != "passed" else []}
    line.update({key: value for key, value in kept.items() if value})
    return line


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


def rows_of(name, answer):
    if answer.get("kind") == "doctor":
        return
    if answer.get("work") == "rates":
        rates = {key: answer[key] for key in ("peak_gflops", "copy_gb_per_s", "dtype")}
        yield {"name": name, "side": side_of(answer), "part": "rates", **rates}
        return
    for part, numbers in parts_of(answer):
        kept = {key: numbers[key] for key in KEPT if numbers.get(key) is not None}
        row = {"name": name, "side": side_of(answer), "part": part, **kept}
        if numbers.get("gflops"):
            row["flops"] = 1e6 * numbers["gflops"] * numbers["median_ms"]
        if numbers.get("moved_bytes") and answer.get("copy_gb_per_s"):
            row.update(peak_gflops=answer["peak_gflops"], copy_gb_per_s=answer["copy_gb_per_s"])
        row.setdefault("joules", None)
        yield row


def cells(row):
    if row["part"] == "rates":
        rates = f"{row['copy_gb_per_s']:.0f} GB/s, {row['peak_gflops'] / 1e3:.1f} TFLOP/s"
        return [row["name"], row["side"], rates, "", "", "", ""]
    name = row["name"]
    if "epoch_seconds" in row:
        name += f" (from {row['steps']} steps: {row['epoch_seconds']:.1f} s for {row['epoch_steps']} steps)"
    side = row["side"] + (f" ({row['graph']})" if row.get("graph", "none") != "none" else "")
    joules, peak, steady = row["joules"], row.get("peak_bytes"), row.get("steady_peak_bytes")
    memory = f"{peak / MIB:.0f}" if peak else ""
    if steady and steady != peak:
        memory += f" ({steady / MIB:.0f} without its SVD)"
    return [name, side, row["part"], f"{row['median_ms']:.3f}", "" if joules is None else f"{joules:.3f}", memory,
            str(row.get("launches", ""))]


def table(rows):
    return "".join("| " + " | ".join(row) + " |\n" for row in rows)


def titled(titles, rows):
    return table([titles, ["---"] * len(titles)] + rows)


def share_of_bound(row, rows):
    """Share of the bound, which uses the fastest copy and product that either program reached."""
    shown = [other for other in rows if other["part"] == "rates" and other["dtype"] == "bf16"] + [row]
    gflops, copy = (max(other[key] for other in shown) for key in ("peak_gflops", "copy_gb_per_s"))
    if not gflops or not copy:  # 0: not measured
        return None
    return 1e-6 * max(row["flops"] / gflops, row["moved_bytes"] / copy) / row["median_ms"]


def ratio_of(rule, rows):
    work, part, against, side, what, _ = rule
    ours = next((row for row in rows if (row["name"], row["part"], row["side"]) == (work, part, "comera")), None)
    if ours and what == "bound":
        return share_of_bound(ours, rows) if ours.get("copy_gb_per_s") else None
    theirs = next((row for row in rows if (row["name"], row["side"]) == (against, side)), None)
    own = "peak_bytes" if what.endswith("_bytes") else what
    if not ours or not theirs or not ours.get(own) or not theirs.get(what):
        return None
    return theirs[what] / ours[own]


def ratios(rows):
    """The last measurement of each work counts."""
    rows, shown = rows[::-1], []
    for rule in RATIOS:
        work, part, _, side, what, least = rule
        ratio = ratio_of(rule, rows)
        met = None if ratio is None or least is None else ratio >= least
        text = "not measured" if ratio is None else f"{100 * ratio:.0f} %" if what == "bound" else f"{ratio:.2f}x"
        asked = "" if least is None else f"{100 * least:.0f} %" if what == "bound" else f"{least}x"
        shown.append([f"{work}, {part}", f"{side}, {WORDS[what]}", text, asked,
                      "" if met is None else "yes" if met else "no"])
    return titled(["work", "against", "ratio", "at least", "met"], shown)


def sentence(line):
    name, seconds = line["name"], line["seconds"]
    text = {"passed": f"passed in {seconds} s", "not run": "not run, " + " ".join(line.get("tail", ["no time was left"])),
            "failed": f"FAILED (status {line['status']}) after {seconds} s",
            "limit": f"stopped at its limit of {line['limit']} s, which is not a failure"}[line["outcome"]]
    quoted = line["tail"] if "tail" in line and line["outcome"] != "not run" else []
    return f"- {name}: {text}\n" + ("```\n" + "\n".join(quoted) + "\n```\n" if quoted else "")


def folded(title, text):
    return f"\n<details><summary>{title}</summary>\n\n{text}\n</details>\n" if text else ""


def shown(value):
    return f"{value:.4g}" if isinstance(value, float) else "" if value is None else str(value)


def ops_of(line):
    """The rows of a bench's calls, or the doctor's, by op and shape."""
    if "kernels" in line["answer"]:
        rows = line["answer"]["kernels"]
        return titled(list(rows[0]), [[shown(value) for value in row.values()] for row in rows])
    rows = [row for row in line["answer"].get("rows", []) if row["work"] not in ("step", "tokens", "cores")]
    if not rows:
        return ""
    keys = [key for key in ("work", "shape", "calls", "median_ms", "share", "gflops", "moved_bytes", "share_of_bound")
            if any(row.get(key) is not None for row in rows)]
    return titled(keys, [[shown(row.get(key)) for key in keys] for row in rows])


def part_text(part, lines):
    text = f"\n### {part}\n\n" + "".join(sentence(line) for line in lines)
    benches = [line for line in lines if line["outcome"] == "passed" and "answer" in line]
    rows = [cells(row) for line in benches for row in rows_of(line["name"], line["answer"])]
    if rows:
        text += "\n" + titled(["work", "program", "part", "median ms", "J", "MiB", "launches"], rows)
    for line in benches:
        text += folded(f"{line['name']}: calls", ops_of(line))
    text += folded("paths", "".join(f"- {path}\n" for line in lines for path in line.get("paths", [])))
    bounds = sorted((bound for line in lines for bound in line.get("bounds", [])), reverse=True)
    return text + folded("largest errors, as shares of their bounds",
                         "".join(f"- {bound}\n" for bound in bounds[:MOST_BOUNDS]))


def counts_of(lines):
    ours = [line["outcome"] for line in lines if line.get("kind") == "ours"]
    return [ours.count(outcome) for outcome in ("failed", "limit", "not run")]


def page(lines):
    text = "# The CUDA backend on a GPU\n\nJoules are per step. `cores` of a model is the total of its merging and " \
           "core gradients; `launches`\nare the calls in a step's graph.\n"
    runs = list(dict.fromkeys(line["run"] for line in lines))
    for run in runs:
        mine = [line for line in lines if line["run"] == run]
        text += f"\n## Run {run}\n\n"
        text += "".join(f"- {key}: {value}\n" for line in mine for key, value in line.get("facts", {}).items())
        for part in dict.fromkeys(line["part"] for line in mine if "part" in line):
            text += part_text(part, [line for line in mine if line.get("part") == part])
        failed, stopped, left = counts_of(mine)
        text += f"\n{failed} checks failed, {stopped} stopped at their limit, {left} not run.\n"
    rows = [row for line in lines if line.get("outcome") == "passed" and "answer" in line
            for row in rows_of(line["name"], line["answer"])]
    return text + "\n## Required ratios\n\n" + ratios(rows), counts_of([line for line in lines if line["run"] == runs[-1]])


def main():
    words = sys.argv[1:]
    if len(words) >= 3 and words[0] == "facts":
        append(words[1], {"run": words[2], "facts": dict(word.split("=", 1) for word in words[3:])})
    elif len(words) in (10, 11) and words[0] == "add":
        line = added(*words[2:])
        append(words[1], line)
        rows = rows_of(line["name"], line["answer"]) if line["outcome"] == "passed" and "answer" in line else []
        print(sentence(line) + table(map(cells, rows)), end="")
    elif len(words) == 3 and words[0] == "page":
        text, counts = page(read_lines(words[1]))
        replace_file(words[2], text)
        print(*counts)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
