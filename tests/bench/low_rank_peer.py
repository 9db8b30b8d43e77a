#!/usr/bin/env python3
"""Times torch.svd_lowrank on a weight like that of bench_low_rank, with an increasing number of power iterations.

Prints wall and processor seconds and the squared error above the optimum's. Needs torch.
usage: low_rank_peer.py [threads] [rows] [columns] [rank]
"""
import sys
import time

import torch

threads, rows, columns, rank = (int(sys.argv[i + 1]) if len(sys.argv) > i + 1 else value
                                for i, value in enumerate((2, 4096, 11008, 512)))
torch.set_num_threads(threads)
weight = torch.randn(rows, columns, generator=torch.Generator().manual_seed(1))
exact = weight.double()
values = torch.linalg.eigvalsh(exact @ exact.T)
best = values[:rows - rank].sum()
print(f"{rows} x {columns} at rank {rank}, {threads} threads, torch {torch.__version__}, "
      f"optimum {(best / values.sum()).sqrt():.6f}")
for iterations in (2, 4, 8, 12, 16):
    start, processor = time.perf_counter(), time.process_time()
    left, scale, right = torch.svd_lowrank(weight, q=rank + rank // 4, niter=iterations)
    pair = (left[:, :rank] * scale[:rank], right[:, :rank].T)
    wall, processor = time.perf_counter() - start, time.process_time() - processor
    loss = (exact - (pair[0] @ pair[1]).double()).square().sum()
    print(f"svd_lowrank, {iterations:2} iterations   wall {wall:6.2f} s  processor {processor:6.2f} s  "
          f"loss above the optimum's {100 * (loss / best - 1):.3f} %", flush=True)
