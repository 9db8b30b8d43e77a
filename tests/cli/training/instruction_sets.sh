#!/usr/bin/env bash
# No op of a training step takes more than three times as long under AVX2 as under AVX-512: vectors are half as long,
# and the work is otherwise the same. Compares medians of `comera bench`, both sets in turn. The measurement is repeated
# after a disturbance, so that an op fails only if it is too slow in every one.
. "$(dirname "$0")/../expect.sh"
run "$COMERA" --version --json
expect_exit 0
if ! grep -q '"v4"' "$work/.out"; then
  echo "SKIPPED: this machine has no AVX-512; tests/kernels/backends/stream_test.cpp tests what it has"
  exit 77
fi
python3 - "$COMERA" <<'EOF' || fail "ops are more than three times as slow under v3 as under v4"
import json
import subprocess
import sys

LARGEST, SITTINGS, SHORTEST_MS = 3, 5, 0.2


MODELS = {
    "tt": "mnli-6enc --layers 1 --form tt --rank 30 --batch 24 --seq 128",
    "dense": "mnli-6enc --layers 1 --form dense --batch 24 --seq 128",
    "int8": "mnli-6enc --layers 1 --form tt --rank 30 --batch 8 --seq 128 --activations cheap,int8",
    "decoder": "llama-6m --layers 1 --form tt --rank 32 --task clm --batch 8 --seq 256 --activations cheap",
    "galore": "llama-6m --layers 1 --form dense --task clm --batch 2 --seq 256 --optimizer galore8bit --galore-rank 64",
}


def ops(isa, model):
    command = [sys.argv[1], "bench", "--model", *MODELS[model].split(), "--isa", isa, "--threads", "2", "--warmup", "1", "--repetitions", "2", "--json", "--quiet"]
    rows = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["rows"]
    return {row["work"]: row["median_ms"] for row in rows}


failed = False
for form in MODELS:
    best = {}
    for sitting in range(SITTINGS):
        fast, slow = ops("v4", form), ops("v3", form)
        # Ops as short as a task switch are left out.
        ratios = {op: slow[op] / fast[op] for op in fast if op != "other" and fast[op] >= SHORTEST_MS}
        best = {op: min(ratio, best.get(op, ratio)) for op, ratio in ratios.items()}
        if max(best.values()) <= LARGEST:
            break
    for op, ratio in sorted(best.items(), key=lambda item: -item[1]):
        print(f"{form:8} {op:28} v3 / v4 {ratio:.2f}{'  TOO SLOW' if ratio > LARGEST else ''}")
    failed |= max(best.values()) > LARGEST
sys.exit(failed)
EOF
finish
