#!/usr/bin/env python3
"""Milliseconds per token of decoders in ONNX Runtime: graphs that `comera export --with-past` writes.

usage: onnx_speed.py GRAPH... [--tokens 100] [--rounds 5] [--threads N]

The first GRAPH is the one to compare with. Every round runs all graphs in turn and writes the likeliest tokens; medians
over the rounds are printed. Needs onnxruntime.
"""
import argparse
import os
import statistics
import time

import numpy as np
import onnxruntime


class Decoder:
    def __init__(self, path, threads):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self.session = onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
        self.past = [one for one in self.session.get_inputs() if one.name.startswith("past_key_values")]
        if not self.past:
            raise SystemExit(f"{path}: has no past; export it with --with-past")
        self.bytes = os.path.getsize(path) + sum(
            os.path.getsize(path + end) for end in (".data", "_data") if os.path.exists(path + end))

    def empty_past(self):
        return {one.name: np.zeros((1, one.shape[1], 0, one.shape[3]),
                                   np.float32 if one.type == "tensor(float)" else np.float16) for one in self.past}

    def seconds(self, tokens):
        """Of `tokens` steps with one token each, after a first step."""
        past, token, start = self.empty_past(), 1, 0.0
        for place in range(tokens + 1):
            if place == 1:
                start = time.perf_counter()
            results = self.session.run(None, {"input_ids": np.array([[token]], np.int64),
                                              "attention_mask": np.ones((1, place + 1), np.int64),
                                              "position_ids": np.array([[place]], np.int64), **past})
            token = int(results[0][0, -1].argmax())
            past = {one.name: value for one, value in zip(self.past, results[1:])}
        return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="+", metavar="GRAPH")
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    args = parser.parse_args()
    decoders = [Decoder(path, args.threads) for path in args.graphs]
    times = [[] for _ in decoders]
    for _ in range(args.rounds):
        for decoder, found in zip(decoders, times):
            found.append(1000 * decoder.seconds(args.tokens) / args.tokens)
    first = statistics.median(times[0])
    print(f"onnxruntime {onnxruntime.__version__}, {args.threads} threads, {args.tokens} tokens, {args.rounds} rounds")
    print("| graph | MB | ms per token | faster |")
    print("|---|---:|---:|---:|")
    for path, decoder, found in zip(args.graphs, decoders, times):
        middle = statistics.median(found)
        print(f"| {os.path.basename(path)} | {decoder.bytes / 1e6:.1f} | {middle:.2f} | {first / middle:.2f}x |")


if __name__ == "__main__":
    main()
