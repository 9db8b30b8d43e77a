#!/usr/bin/env bash
# Everything that needs a card, in one go of less than nine minutes without a network: the case table of the kernels, whole models, a run
# that must lose as the CPU's does, compute-sanitizer, and times beside PyTorch where python3 has it. From an unpacked package that was made
# with TESTS=1, or from a build folder.
#
#   scripts/check_gpu.sh [OUT]     writes OUT/gpu-report.md and OUT/gpu-report.jsonl; default: the current folder
#
# COMERA_BUILD names a build folder (default: the package that this script lies in). QUICK=1 leaves out the sanitizer and the benches.
set -uo pipefail
out=$(realpath "${1:-.}")
here=$(dirname "$(realpath "$0")")
if [ -n "${COMERA_BUILD:-}" ]; then
  bin=$COMERA_BUILD
else
  bin=$here/../bin
fi
peer=$here/pytorch_peer.py
[ -f "$peer" ] || peer=$here/../recipes/pytorch_peer.py
mkdir -p "$out"
report=$out/gpu-report.md
lines=$out/gpu-report.jsonl
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
: > "$lines"
failures=0

say() { echo "$*" | tee -a "$report"; }
record() { echo "$1" >> "$lines"; } # one JSON object

# A named check: its last lines go into the report, its outcome into both.
check() { # NAME SECONDS COMMAND...
  local name=$1 limit=$2 status=0 start=$SECONDS
  shift 2
  timeout "$limit" "$@" > "$work/log" 2>&1 || status=$?
  if [ "$status" = 0 ]; then
    say "- $name: passed in $((SECONDS - start)) s"
  else
    failures=$((failures + 1))
    say "- $name: FAILED (status $status) after $((SECONDS - start)) s"
    say '```'
    tail -n 40 "$work/log" | tee -a "$report"
    say '```'
  fi
  cp "$work/log" "$out/gpu-$name.log"
  record "{\"check\": \"$name\", \"status\": $status, \"seconds\": $((SECONDS - start))}"
}

# The same small run on both devices: text made of words that tell the label.
make_data() {
  awk 'BEGIN { srand(3); print "label\ttext"
    for (i = 0; i < 600; ++i) { k = int(4 * rand()); t = ""
      for (j = 0; j < 12; ++j) t = t " w" (rand() < .5 ? k * 10 + int(10 * rand()) : int(40 * rand()))
      print "c" k "\t" t } }' > "$work/train.tsv"
  { printf '[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n'; for i in $(seq 0 39); do echo "w$i"; done; } > "$work/vocab.txt"
}

pinned_run() { # DEVICE [DTYPE [OUT]]
  "$bin/comera" pretrain --model encoder-small --layers 2 --hidden 64 --heads 4 --intermediate 128 --form tt --rank 8 --embedding-rank 8 \
    --task classify --data "$work/train.tsv" --text text --label label --tokenizer "$work/vocab.txt" --seq 32 --batch 32 --steps 30 --seed 7 \
    --log-every 1 --device "$1" --dtype "${2:-fp32}" -o "${3:-$work/run-$1-${2:-fp32}}" --force --quiet
}

# Losses of the first step and of 30 steps agree within these shares. In fp32 both sides round in float, in other orders. Else 4 u sqrt(n)
# (tests/models/precision_test.cpp): u = 2^-8 and n = 60 tensors of the stream in bf16, u = 2^-11 and n = 100 factors of products in TF32.
same_losses() { # DTYPE FIRST ALL
  { [ -d "$work/run-cpu-fp32" ] || pinned_run cpu; } && pinned_run cuda "$1" || return 1
  losses() { sed -n 's/.*"loss": *\([0-9.e+-]*\).*/\1/p' "$work/run-$1/metrics.jsonl"; }
  paste <(losses cpu-fp32) <(losses "cuda-$1") | awk -v first="$2" -v all="$3" '{ d = $1 - $2; if (d < 0) d = -d; r = d / $1; if (r > worst) worst = r
      if ((NR == 1 && r > first) || r > all) { print "step " NR ": " $1 " on the CPU, " $2 " on the card"; bad = 1 } }
    END { print NR " losses, largest relative difference " worst; exit bad || NR < 30 }'
}

# A run that is stopped and resumed ends with the bytes of one that was not.
same_bytes_after_resume() { # DTYPE
  pinned_run cuda "$1" "$work/whole" || return 1
  rm -rf "$work/stopped"
  pinned_run cuda "$1" "$work/stopped" & local pid=$!
  sleep 1
  kill -TERM $pid 2> /dev/null
  wait $pid
  "$bin/comera" pretrain --resume "$work/stopped" --quiet > /dev/null || pinned_run cuda "$1" "$work/stopped" || return 1
  cmp "$work/whole/model.safetensors" "$work/stopped/model.safetensors"
}

# A timed command whose JSON goes into the report as a row of the table.
bench() { # NAME COMMAND...
  local name=$1
  shift
  timeout 120 "$@" > "$work/bench.json" 2> "$work/log" || {
    say "| $name | failed: $(tail -n 1 "$work/log") | |"
    return
  }
  python3 - "$name" "$work/bench.json" "$lines" "$report" << 'PYTHON'
import json, sys
name, path, lines, report = sys.argv[1:]
answer = json.load(open(path))
if "rows" in answer:
    row, side = answer["rows"][0], "comera"
else:
    row = answer
    side = " ".join(["pytorch", row["form"], row["dtype"]] + ["compiled"] * row["compile"] + ["galore"] * (row["optimizer"] == "galore"))
line = {"name": name, "side": side, **{k: row.get(k) for k in ("median_ms", "min_ms", "max_ms", "peak_bytes", "joules")}}
open(lines, "a").write(json.dumps(line) + "\n")
open(report, "a").write(f"| {name} | {side} | {line['median_ms']:.3f} | {(line['peak_bytes'] or 0) / 2**20:.0f} |\n")
PYTHON
}
bench_ours() { bench "$1" "$bin/comera" bench --device cuda --json --quiet --warmup 5 --repetitions 20 "${@:2}"; }
bench_theirs() { bench "$1" python3 "$peer" --device cuda --warmup 8 --repetitions 20 "${@:2}"; }

: > "$report"
say "# The CUDA backend on a card"
say ""
say "- commit: $(cat "$here/commit" 2> /dev/null || git -C "$here" rev-parse HEAD 2> /dev/null || echo unknown), $(date -u +%Y-%m-%d)"
say "- card: $(nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,power.limit --format=csv,noheader 2> /dev/null | head -n 1 || echo unknown)"
say "- program: $("$bin/comera" --version --device cuda 2>&1 | tr '\n' ' ')"
say ""
say "## Correct"
say ""
make_data
export COMERA_REQUIRE_CARD=1
check kernels 240 "$bin/test_kernels"
check models 120 "$bin/test_models" 'a step on a device*,bf16 streams*,TF32 products*,fp8 products*'
check pinned-loss 120 same_losses fp32 1e-5 1e-2
check pinned-loss-tf32 60 same_losses tf32 2e-2 2e-2
check pinned-loss-bf16 60 same_losses bf16 0.12 0.12
check resume 60 same_bytes_after_resume fp32
check resume-bf16 60 same_bytes_after_resume bf16

if [ "${QUICK:-}" != 1 ]; then
  sanitizer=$(command -v compute-sanitizer || echo "$here/sanitizer/compute-sanitizer")
  if [ -x "$sanitizer" ]; then
    for tool in memcheck racecheck initcheck; do
      check "$tool" 90 env COMERA_COLUMN='cuda card' "$sanitizer" --tool "$tool" --error-exitcode 9 "$bin/test_kernels" '*backend*'
    done
  else
    say "- compute-sanitizer: not found, not run"
  fi
  say ""
  say "## Times and memory"
  say ""
  say "| work | program | median ms | MiB |"
  say "|---|---|---|---|"
  for batch in 32 1; do
    for dtype in fp32 tf32 bf16; do
      bench_ours "mnli-6enc $batch x 128 tt $dtype" --model mnli-6enc --form tt --rank 30 --batch "$batch" --seq 128 --dtype "$dtype"
      bench_ours "mnli-6enc $batch x 128 dense $dtype" --model mnli-6enc --form dense --batch "$batch" --seq 128 --dtype "$dtype"
    done
    bench_ours "mnli-6enc $batch x 128 tt fp8" --model mnli-6enc --form tt --rank 30 --batch "$batch" --seq 128 --dtype fp8
    if python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2> /dev/null; then
      bench_theirs "mnli-6enc $batch x 128" --batch "$batch"
      bench_theirs "mnli-6enc $batch x 128" --batch "$batch" --dtype bf16
      bench_theirs "mnli-6enc $batch x 128" --batch "$batch" --dtype bf16 --compile
      [ "$batch" = 32 ] || bench_theirs "mnli-6enc $batch x 128" --batch "$batch" --optimizer galore
    fi
  done
  for batch in 32 512; do
    for dtype in fp32 tf32 bf16 fp8; do
      bench_ours "linear 768x3072 at $((batch * 128)) tokens tt $dtype" --linear 768x3072 --form tt --rank 30 --batch "$batch" --seq 128 --dtype "$dtype"
    done
    if python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2> /dev/null; then
      bench_theirs "linear 768x3072 at $((batch * 128)) tokens" --work linear --batch "$batch" --dtype bf16
    fi
  done
fi
say ""
say "$failures checks failed."
[ "$failures" = 0 ]
