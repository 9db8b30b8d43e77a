#!/usr/bin/env python3
"""The peers of TTM tables in PyTorch, part of recipes/bench_bags.sh: times one training step of a table alone.

  bench_bags.py KIND ROWS COLUMNS IDS [--rank R] [--order D] [--threads N] [--repetitions N]

KIND: ttm (the unoptimised look-up of a TTM table: for every id the slices of all cores are gathered and multiplied in
a chain, by autograd, with AdamW on the cores), dense (nn.EmbeddingBag, AdamW on the whole table), sparse (the same
with sparse gradients and Adagrad on the rows of the batch). Ids are drawn with a uniform logarithm (Zipf's law). The
step is look-up, backward from given gradients, and update. Prints median time and the growth of resident memory as one
JSON object.
"""

import argparse
import json
import math
import resource
import time

import numpy
import torch
from torch import nn


def split(size, parts, exact):
    """Modes near size ** (1 / parts): a factorisation of `size`, or (not exact) of a number not below it."""
    if not exact:
        base = math.ceil(size ** (1 / parts))
        modes = [base] * parts
        for i in range(parts):
            rest = math.prod(modes) // modes[i]
            modes[i] = max(1, math.ceil(size / rest))
        return modes
    modes, rest = [1] * parts, size
    for prime in (7, 5, 3, 2):
        while rest % prime == 0:
            modes[modes.index(min(modes))] *= prime
            rest //= prime
    modes[-1] *= rest
    return modes


class UnoptimisedTtm(nn.Module):
    def __init__(self, rows, columns, rank, order):
        super().__init__()
        self.rows, self.columns = split(rows, order, False), split(columns, order, True)
        ranks = [1] + [rank] * (order - 1) + [1]
        self.cores = nn.ParameterList(
            nn.Parameter(0.3 * torch.randn(self.rows[k], ranks[k], self.columns[k], ranks[k + 1])) for k in range(order))

    def forward(self, ids):
        row = None
        for k, core in enumerate(self.cores):
            rest = math.prod(self.rows[k + 1:])
            part = core[ids // rest % self.rows[k]]  # [B, r, n, r']
            b, r, n, after = part.shape
            row = part.reshape(b, n, after) if row is None else torch.bmm(row, part.reshape(b, r, n * after)).reshape(
                b, -1, after)
        return row.reshape(len(ids), -1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["ttm", "dense", "sparse"])
    for name in ("rows", "columns", "ids"):
        parser.add_argument(name, type=int)
    for name, value in (("rank", 32), ("order", 4), ("threads", 2), ("repetitions", 7)):
        parser.add_argument(f"--{name}", type=int, default=value)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(1)
    random = numpy.random.default_rng(1)
    ids = torch.from_numpy(numpy.power(float(given.rows), random.random(given.ids)).astype(numpy.int64) - 1)
    gradient = torch.randn(given.ids, given.columns)
    offsets = torch.arange(given.ids)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if given.kind == "ttm":
        table = UnoptimisedTtm(given.rows, given.columns, given.rank, given.order)
        look_up = table
    else:
        table = nn.EmbeddingBag(given.rows, given.columns, mode="sum", sparse=given.kind == "sparse")
        look_up = lambda chosen: table(chosen, offsets)
    adagrad = given.kind == "sparse"
    update = torch.optim.Adagrad(table.parameters()) if adagrad else torch.optim.AdamW(table.parameters())
    times = []
    for _ in range(2 + given.repetitions):
        start = time.perf_counter()
        look_up(ids).backward(gradient)
        update.step()
        update.zero_grad(set_to_none=True)
        times.append(1e3 * (time.perf_counter() - start))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"kind": given.kind, "median_ms": sorted(times[2:])[given.repetitions // 2],
                      "peak_bytes": 1024 * (peak - before)}))


if __name__ == "__main__":
    main()
