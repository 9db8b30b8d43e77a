#!/usr/bin/env python3
"""Time of an epoch of MNLI's size, from a short `comera pretrain` through the whole data path, from text on.

  recipes/time_epoch.py build/comera [--device cuda] [options of comera pretrain]

Pairs of generated sentences, each of at least --seq tokens, are tokenised while the GPU computes. Steps up to --from
are not counted, because they include the start. Prints one line of JSON with the keys of `comera bench`. median_ms is
the mean over the counted steps, with the wait for data; epoch_seconds is the extrapolation from `steps` steps to
393,000 pairs.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time

from energy import Energy

PAIRS = 393_000


def write_data(folder, pairs, tokens):
    words = [f"word{i}" for i in range(30522 - 5)]
    with open(f"{folder}/vocab.txt", "w") as file:
        file.write("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]) + "\n")
    draw = random.Random(5)
    with open(f"{folder}/train.tsv", "w") as file:
        file.write("label\tpremise\thypothesis\n")
        for _ in range(pairs):
            label = draw.randrange(3)
            first, second = (" ".join(draw.choices(words, k=(tokens + 1) // 2)) for _ in range(2))
            file.write(f"{label}\t{first}\t{second}\n")


def last_line(path):
    try:
        with open(path) as file:
            lines = [line for line in file.read().split("\n")[:-1] if '"train"' in line]
        return json.loads(lines[-1]) if lines else None
    except FileNotFoundError:
        return None


def run(arguments, options, folder):
    """The lines of metrics.jsonl at the first and the last counted step, and the energy in between."""
    every = max(1, arguments.skip // 2)
    command = [arguments.comera, "pretrain", "--task", "classify", "--data", f"{folder}/train.tsv",
               "--text", "premise,hypothesis", "--label", "label", "--tokenizer", f"{folder}/vocab.txt",
               "--batch", str(arguments.batch), "--seq", str(arguments.seq), "--device", arguments.device,
               "--steps", str(arguments.skip + arguments.steps), "--log-every", str(every), "--save-every", "1h",
               "--quiet", "-o", f"{folder}/run", *options]
    energy = first = None
    with open(f"{folder}/log", "w") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        while process.poll() is None:
            line = last_line(f"{folder}/run/metrics.jsonl")
            if line and first is None and line["step"] >= arguments.skip:
                first, energy = line, Energy("cuda" if arguments.device.startswith("cuda") else "cpu")
            if line and line["step"] >= arguments.skip + arguments.steps:
                break
            time.sleep(0.01)
        joules = energy.joules() if energy else None
        process.wait()
    last = last_line(f"{folder}/run/metrics.jsonl")
    if process.returncode != 0 or first is None or last["step"] <= first["step"]:
        with open(f"{folder}/log") as log:
            sys.exit(f"time_epoch.py: comera pretrain gave {process.returncode}: {log.read().strip()[-500:]}")
    return first, last, joules


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("comera")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--seq", type=int, default=128)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--from", type=int, default=100, dest="skip")
    parser.add_argument("--pairs", type=int, default=8192)
    arguments, options = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        write_data(folder, arguments.pairs, arguments.seq)
        first, last, joules = run(arguments, options, folder)
    steps = last["step"] - first["step"]
    seconds = (last["time"] - first["time"]) / steps
    epoch_steps = -(-PAIRS // arguments.batch)
    print(json.dumps({
        "program": "comera", "work": "epoch", "batch": arguments.batch, "seq": arguments.seq,
        "device": arguments.device, "options": " ".join(options), "steps": steps, "epoch_steps": epoch_steps,
        "epoch_seconds": seconds * epoch_steps,
        "median_ms": 1e3 * seconds, "peak_bytes": last["peak_bytes"],
        "joules": None if joules is None else joules / steps}))


if __name__ == "__main__":
    main()
