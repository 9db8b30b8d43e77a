#!/usr/bin/env python3
"""Speed of `comera predict` for decoders: tokens per second that are written and that are read from a prompt.

usage: decode_speed.py MODEL... [--tokens 200] [--prompt 200] [--rounds 5] [--threads N] [--isa auto] [--comera FILE]
                       [--llama PYTHON]

The first MODEL is the one to compare with. Every round runs all models in turn; medians are printed. MB is what each
token reads: dense weights are float32 in memory, weights on grids are as they are stored, and an untied table of
embeddings is not read. "of reading" is these bytes times the tokens per second, relative to the measured rate at which
as many threads read memory: a product of a 512 MB matrix with a vector, by numpy's BLAS. Needs numpy. --llama names a
python with llama-cpp-python: llama.cpp then runs the same models in turn, as the GGUF files that `comera export` writes.
"""
import argparse
import glob
import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time

WORDS = "Once upon a time there was a little girl who lived in a house near the wood and she had a small dog . "


def reading_rate(rounds=9):
    """Bytes per second."""
    import numpy

    matrix, vector = numpy.ones((8192, 16384), numpy.float32), numpy.ones(16384, numpy.float32)
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        matrix @ vector
        times.append(time.perf_counter() - start)
    return matrix.nbytes / statistics.median(times)


def bytes_per_token(model):
    total, table, tied = 0, 0, True
    for path in glob.glob(os.path.join(model, "*.safetensors")):
        with open(path, "rb") as file:
            header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            begin, end = entry["data_offsets"]
            size = (end - begin) * (2 if entry["dtype"] in ("F16", "BF16") else 1)
            total += size
            table += size if "embed_tokens" in name else 0
            tied = tied and not name.startswith("lm_head")
    return total if tied else total - table


def predicted(args, model, prompt, tokens):
    call = [args.comera, "predict", model, "--max-tokens", str(tokens), "--json", "--isa", args.isa,
            "--threads", str(args.threads)]
    result = subprocess.run(call, input=prompt + "\n", capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"decode_speed.py: {' '.join(call)}\n{result.stderr.strip()}")
    return json.loads(result.stdout)


# Times of llama.cpp. Arguments: GGUF file, threads, text of the short and the long prompt, tokens.
LLAMA = """
import json, sys, time
from llama_cpp import Llama
path, threads, short, long, tokens = sys.argv[1:]
model = Llama(path, n_threads=int(threads), n_threads_batch=int(threads), n_ctx=0, verbose=False)
ids = model.tokenize(long.encode())
model.eval(ids[:8])
model.reset()
start = time.perf_counter()
model.eval(ids)
read = len(ids) / (time.perf_counter() - start)
model.reset()
model.eval(model.tokenize(short.encode()))
start = time.perf_counter()
for _ in range(int(tokens)):
    model.eval([model.sample(temp=0.0)])
json.dump({"tokens_per_second": int(tokens) / (time.perf_counter() - start), "prompt_tokens_per_second": read}, sys.stdout)
"""


class Peer:
    """llama.cpp with the models as GGUF files."""

    def __init__(self, args, folder):
        self.python, self.threads, self.files = args.llama, args.threads, {}
        for number, model in enumerate(args.models):
            self.files[model] = os.path.join(folder, f"{number}.gguf")
            subprocess.run([args.comera, "export", model, "-o", self.files[model], "--to", "gguf"], check=True,
                           capture_output=True)

    def times(self, model, short, long, tokens):
        call = [self.python, "-c", LLAMA, self.files[model], str(self.threads), short, long, str(tokens)]
        return json.loads(subprocess.run(call, check=True, capture_output=True, text=True).stdout)


def print_peer(args, times, written, read):
    print(f"{'':<20} {'llama.cpp':>18} {'ours / its':>11} {'its prompt':>16} {'ours / its':>11}")
    for model in args.models:
        rate, prompt_rate = (statistics.median(one[key] for one in times[model])
                             for key in ("tokens_per_second", "prompt_tokens_per_second"))
        print(f"{os.path.basename(model.rstrip('/')):<20} {rate:>18.1f} {statistics.median(written[model]) / rate:>11.2f} "
              f"{prompt_rate:>16.1f} {statistics.median(read[model]) / prompt_rate:>11.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--prompt", type=int, default=200, help="words of the prompt whose reading is timed")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--isa", default="auto")
    parser.add_argument("--comera", default="build/comera")
    parser.add_argument("--llama", metavar="PYTHON", help="a python with llama-cpp-python")
    args = parser.parse_args()
    os.environ["OPENBLAS_NUM_THREADS"] = str(args.threads)
    os.environ.pop("OPENBLAS_CORETYPE", None)
    reading = reading_rate()
    written, read = {m: [] for m in args.models}, {m: [] for m in args.models}
    long_prompt = " ".join((WORDS * (args.prompt // 20 + 1)).split()[:args.prompt])
    scratch = tempfile.TemporaryDirectory() if args.llama else None
    peer, its = Peer(args, scratch.name) if scratch else None, {m: [] for m in args.models}
    for _ in range(args.rounds):
        for model in args.models:
            if peer:
                its[model].append(peer.times(model, "Once", long_prompt, args.tokens))
            written[model].append(predicted(args, model, "Once", args.tokens)["tokens_per_second"])
            read[model].append(predicted(args, model, long_prompt, 1)["prompt_tokens_per_second"])
    first = args.models[0]
    print(f"memory is read at {reading / 1e9:.1f} GB/s by {args.threads} threads")
    print(f"{'model':<20} {'MB':>8} {'tokens/s':>9} {'ratio':>6} {'of reading':>10} {'prompt tokens/s':>16} {'ratio':>6}")
    for model in args.models:
        size = bytes_per_token(model)
        rate, prompt_rate = statistics.median(written[model]), statistics.median(read[model])
        print(f"{os.path.basename(model.rstrip('/')):<20} {size / 1e6:>8.1f} {rate:>9.1f} "
              f"{rate / statistics.median(written[first]):>6.2f} {size * rate / reading:>10.2f} "
              f"{prompt_rate:>16.1f} {prompt_rate / statistics.median(read[first]):>6.2f}")
    if peer:
        print_peer(args, its, written, read)


if __name__ == "__main__":
    main()
