#!/usr/bin/env python3
"""A step on a GPU, launch by launch, from what tests/bench/gpu_timeline.cpp has written of a bench.

  scripts/gpu_timeline.py TIMELINE BENCH [STEPS]

BENCH: the output of that bench (comera bench --json), which has the calls in the graph of a step. Prints a line per launch, in the order of their
beginnings, as medians over the last STEPS steps (100): microseconds from the step's beginning, of the launch itself, and
by which it ends later than all launches before (launches that overlap share their time); blocks, threads of a block,
registers, shared memory, and the name. The last line is the whole step. scripts/cuda_cost.py --measured reads it.
"""

import json
import shutil
import statistics
import subprocess
import sys
from collections import Counter

COLUMNS = ("start", "end", "graph", "stream", "blocks", "threads", "registers", "bytes", "name")


def read(path):
    """The launches of the graph that ran most."""
    launches = []
    with open(path) as file:
        for line in file.read().splitlines()[1:]:
            words = line.split("\t")
            if len(words) == len(COLUMNS):
                launches.append(dict(zip(COLUMNS, [int(word) for word in words[:-1]] + words[-1:])))
    ran = Counter(launch["graph"] for launch in launches if launch["graph"])
    if not ran:
        sys.exit(f"gpu_timeline.py: {path} has no graph")
    graph = ran.most_common(1)[0][0]
    return sorted((launch for launch in launches if launch["graph"] == graph), key=lambda launch: launch["start"])


def launches_of_step(path):
    with open(path) as file:
        rows = json.load(file)["rows"]
    counts = [row["launches"] for row in rows if row.get("launches")]
    if not counts:
        sys.exit(f"gpu_timeline.py: {path} has no step of a device")
    return counts[0]


def readable(names):
    if not shutil.which("c++filt"):
        return names
    text = subprocess.run(["c++filt", "-p"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    return [name.replace("comera::kernels::cuda::", "").replace("(anonymous namespace)::", "")
            for name in text.splitlines()]


def added_times(step):
    times, last = [], step[0]["start"]
    for launch in step:
        times.append(max(launch["end"] - last, 0))
        last = max(last, launch["end"])
    return times


def main():
    if not 3 <= len(sys.argv) <= 4:
        sys.exit(__doc__)
    launches, each = read(sys.argv[1]), launches_of_step(sys.argv[2])
    if len(launches) % each:
        sys.exit(f"gpu_timeline.py: {len(launches)} launches are not steps of {each}")
    steps = [launches[at:at + each] for at in range(0, len(launches), each)][-int((sys.argv + [100])[3]):]
    names = readable([launch["name"] for launch in steps[-1]])
    added = [added_times(step) for step in steps]
    print("at_us", "us", "adds_us", *COLUMNS[4:], sep="\t")
    for i, launch in enumerate(steps[-1]):
        at = statistics.median(step[i]["start"] - step[0]["start"] for step in steps)
        time = statistics.median(step[i]["end"] - step[i]["start"] for step in steps)
        adds = statistics.median(times[i] for times in added)
        print(*(f"{1e-3 * value:.2f}" for value in (at, time, adds)), *(launch[key] for key in COLUMNS[4:-1]), names[i],
              sep="\t")
    whole = statistics.median(max(one["end"] for one in step) - step[0]["start"] for step in steps)
    print(f"{1e-3 * whole:.2f}", f"step of {each} launches, median of {len(steps)}", sep="\t")


if __name__ == "__main__":
    main()
