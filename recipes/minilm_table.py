#!/usr/bin/env python3
"""One row per model of recipes/minilm.sh: bytes, embedding quality, ONNX Runtime's time per sentence on one thread.

usage: minilm_table.py FOLDER [--scores sts.tsv] NAME...      the first NAME is the dense model
"""
import argparse
import os
import pathlib
import statistics
import sys
import time

import numpy
import onnxruntime
import tokenizers

sys.path.insert(0, str(pathlib.Path(__file__).parent / "shared"))
import results  # noqa: E402

BATCH, ROUNDS = 16, 3


def open_graph(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def batches(folder, sentences):
    tokenizer = tokenizers.BertWordPieceTokenizer(os.path.join(folder, "dense", "vocab.txt"), lowercase=True)
    tokenizer.enable_truncation(128)
    rows = [encoding.ids for encoding in tokenizer.encode_batch(sentences)]
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
    for start in range(0, len(order), BATCH):
        part = order[start:start + BATCH]
        width = max(len(rows[i]) for i in part)
        ids = numpy.array([rows[i] + [0] * (width - len(rows[i])) for i in part], dtype=numpy.int64)
        mask = numpy.array([[1] * len(rows[i]) + [0] * (width - len(rows[i])) for i in part], dtype=numpy.int64)
        yield part, {"input_ids": ids, "attention_mask": mask, "token_type_ids": numpy.zeros_like(ids)}


def embed(graph, folder, sentences):
    """Unit embeddings, and the total time of the runs."""
    wanted = {i.name for i in graph.get_inputs()}
    vectors, seconds = [None] * len(sentences), 0.0
    for part, feed in batches(folder, sentences):
        feed = {name: value for name, value in feed.items() if name in wanted}
        start = time.perf_counter()
        out = graph.run(["sentence_embedding"], feed)[0]
        seconds += time.perf_counter() - start
        for i, row in zip(part, out):
            vectors[i] = row / numpy.linalg.norm(row)
    return numpy.array(vectors), seconds


def ranks(values):
    values = numpy.asarray(values)
    order, result = numpy.argsort(values, kind="stable"), numpy.empty(len(values))
    result[order] = numpy.arange(len(values))
    for value in numpy.unique(values):
        result[values == value] = result[values == value].mean()
    return result


def spearman(a, b):
    return numpy.corrcoef(ranks(a), ranks(b))[0, 1]


def folder_bytes(path):
    names = (name for name in os.listdir(path) if name.startswith("model.") and "json" not in name)
    return sum(os.path.getsize(os.path.join(path, name)) for name in names)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--scores")
    parser.add_argument("names", nargs="+")
    args = parser.parse_args()
    if args.scores:
        rows = [line.rstrip("\n").split("\t") for line in open(args.scores, encoding="utf-8")][1:]
        left, right, gold = [r[0] for r in rows], [r[1] for r in rows], [float(r[2]) for r in rows]
        sentences = left + right
    else:
        sentences = open(os.path.join(args.folder, "sentences.txt"), encoding="utf-8").read().splitlines()
    graphs = {name: open_graph(os.path.join(args.folder, "onnx", name, "model.onnx")) for name in args.names}
    vectors, times = {}, {name: [] for name in args.names}
    for _ in range(ROUNDS):  # in turn, so that all models run under the same conditions
        for name in args.names:
            vectors[name], seconds = embed(graphs[name], args.folder, sentences)
            times[name].append(1000 * seconds / len(sentences))
    dense = vectors[args.names[0]]
    column = "STS-B Spearman" if args.scores else "cosine to dense"
    rows = []
    whole = folder_bytes(os.path.join(args.folder, args.names[0]))
    base = statistics.median(times[args.names[0]])
    for name in args.names:
        if args.scores:
            half = len(gold)
            worth = spearman((vectors[name][:half] * vectors[name][half:]).sum(axis=1), gold)
        else:
            worth = float((vectors[name] * dense).sum(axis=1).mean())
        size, ms = folder_bytes(os.path.join(args.folder, name)), statistics.median(times[name])
        graph = os.path.getsize(os.path.join(args.folder, "onnx", name, "model.onnx"))
        rows.append([name, f"{size:,}", f"{whole / size:.2f}x", f"{graph:,}", f"{worth:.4f}", f"{ms:.2f}",
                     f"{base / ms:.2f}x"])
    print("\n".join(results.table(["model", "safetensors", "ratio", "ONNX", column, "ms/sentence", "faster"], rows)))


if __name__ == "__main__":
    main()
