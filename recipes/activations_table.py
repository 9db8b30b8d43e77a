#!/usr/bin/env python3
"""The table of recipes/activations.sh for one job: policy, median time, peak memory, loss on the dev set.

usage: activations_table.py FOLDER      a folder with times.csv (policy, ms, bytes) and runs named POLICY-SEED
"""
import collections
import json
import pathlib
import statistics
import sys

RECOMPUTED = ("keep", "cheap", "share", "block")


def losses(folder):
    found = collections.defaultdict(list)
    for report in sorted(folder.glob("*-[0-9]*/report.json")):
        policy = report.parent.name.rsplit("-", 1)[0]
        found[policy].append(json.loads(report.read_text())["dev"]["last"]["loss"])
    return found


def loss_of(policy, found):
    """The loss of the policy, or that of its copies: recomputation changes it by roundings at most."""
    words = policy.split("+")
    copies = [word for word in words if word not in RECOMPUTED] or ["keep"]
    return found.get(",".join(words)) or found.get(",".join(copies), [])


def main():
    folder = pathlib.Path(sys.argv[1])
    times, peaks, found = collections.defaultdict(list), {}, losses(folder)
    for line in (folder / "times.csv").read_text().splitlines():
        policy, ms, peak = line.split(",")
        times[policy].append(float(ms))
        peaks[policy] = min(peaks.get(policy, float("inf")), float(peak))
    base = statistics.median(times["keep"])
    print("| --activations | ms | of keep | MiB | of keep | dev loss |\n|---|---:|---:|---:|---:|---:|")
    stochastic = [policy for policy in found if policy not in times]
    for policy in [*times, *stochastic]:
        cells = [""] * 4
        if policy in times:
            ms, peak = statistics.median(times[policy]), peaks[policy]
            cells = [f"{ms:.0f}", f"{ms / base:.2f}x", f"{peak / 2**20:.0f}", f"{peak / peaks['keep']:.2f}x"]
        loss = ", ".join(f"{value:.4f}" for value in loss_of(policy, found))
        print("| " + " | ".join([policy.replace("+", ","), *cells, loss]) + " |")


if __name__ == "__main__":
    main()
