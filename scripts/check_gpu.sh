#!/usr/bin/env bash
# All checks that need a GPU, in less than nine minutes and without a network: the case table of the kernels, whole
# models, a run whose losses must agree with the CPU's, compute-sanitizer, and times beside PyTorch if python3 has it.
# Runs from an unpacked package that was made with TESTS=1, or from a build folder.
#
#   scripts/check_gpu.sh [OUT]     writes OUT/gpu-report.md and OUT/gpu-report.jsonl; default: the current folder
#
# COMERA_BUILD names a build folder (default: the package that contains this script). QUICK=1 skips the sanitizer and
# the benches. Work beyond BUDGET seconds (530) is cut off and reported; the benches run before the sanitizer.
set -uo pipefail
out=$(realpath "${1:-.}")
here=$(dirname "$(realpath "$0")")
if [ -n "${COMERA_BUILD:-}" ]; then
  bin=$COMERA_BUILD
else
  bin=$here/../bin
fi
recipes=$here
[ -f "$recipes/pytorch_peer.py" ] || recipes=$here/../recipes
budget=${BUDGET:-530}
mkdir -p "$out"
report=$out/gpu-report.md
# libcublasLt.so.13 may be in a folder that only Python searches.
find_wheel='import glob, sys
print(*[f for p in sys.path for f in glob.glob(p + "/nvidia/*/lib/libcublasLt.so.13")][:1])'
wheel=$(python3 -c "$find_wheel" 2> /dev/null || true)
[ -z "$wheel" ] || export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}${wheel%/*}"
lines=$out/gpu-report.jsonl
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
: > "$lines"
failures=0

# Time limit of a command in seconds: its own limit, or the rest of the budget.
limit_of() { echo $(($1 < budget - SECONDS ? $1 : (budget - SECONDS > 0 ? budget - SECONDS : 0))); }

say() { echo "$*" | tee -a "$report"; }
record() { echo "$1" >> "$lines"; } # one JSON object

# A named check: writes its outcome to both reports, and the last lines of a failed one to the Markdown report.
check() { # NAME SECONDS COMMAND...
  local name=$1 limit status=0 start=$SECONDS
  limit=$(limit_of "$2")
  shift 2
  if [ "$limit" -lt 5 ]; then
    say "- $name: not run, no time was left"
    record "{\"check\": \"$name\", \"status\": null, \"seconds\": 0}"
    return
  fi
  timeout "$limit" bash -c '"$@"' bash "$@" > "$work/log" 2>&1 || status=$? # a command, or an exported function
  if [ "$status" = 0 ]; then
    say "- $name: passed in $((SECONDS - start)) s"
  else
    failures=$((failures + 1))
    say "- $name: FAILED (status $status) after $((SECONDS - start)) s"
    say '```'
    # After a fault of the GPU everything else fails too, so the first failures are shown.
    grep -m 10 -E 'on cuda gpu: |on the GPU$' "$work/log" | tee -a "$report"
    tail -n 30 "$work/log" | tee -a "$report"
    say '```'
  fi
  cp "$work/log" "$out/gpu-$name.log"
  record "{\"check\": \"$name\", \"status\": $status, \"seconds\": $((SECONDS - start))}"
}

# Data for the same small run on both devices: text of words that depend on the label.
make_data() {
  awk 'BEGIN { srand(3); print "label\ttext"
    for (i = 0; i < 600; ++i) { k = int(4 * rand()); t = ""
      for (j = 0; j < 12; ++j) t = t " w" (rand() < .5 ? k * 10 + int(10 * rand()) : int(40 * rand()))
      print "c" k "\t" t } }' > "$work/train.tsv"
  { printf '[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n'; for i in $(seq 0 39); do echo "w$i"; done; } > "$work/vocab.txt"
}

pinned_command() { # DEVICE DTYPE OUT STEPS
  command=("$bin/comera" pretrain --model encoder-small --layers 2 --hidden 64 --heads 4 --intermediate 128 --form tt
    --rank 8 --embedding-rank 8 --task classify --data "$work/train.tsv" --text text --label label
    --tokenizer "$work/vocab.txt" --seq 32 --batch 32 --steps "$4" --seed 7 --log-every 1 --device "$1" --dtype "$2"
    -o "$3" --force --quiet)
}
pinned_run() { # DEVICE DTYPE OUT STEPS
  local command
  pinned_command "$@"
  "${command[@]}"
}

# The losses of the first step and of 30 steps agree within these relative tolerances. In fp32 both devices round in
# float, in different orders. Otherwise the tolerance is 4 u sqrt(n) (tests/models/precision_test.cpp): u = 2^-8 and
# n = 60 tensors of the activation dtype in bf16, u = 2^-11 and n = 100 factors of products in TF32.
same_losses() { # DTYPE FIRST ALL
  [ -d "$work/run-cpu-fp32" ] || pinned_run cpu fp32 "$work/run-cpu-fp32" 30 || return 1
  pinned_run cuda "$1" "$work/run-cuda-$1" 30 || return 1
  losses() { sed -n 's/.*"loss": *\([0-9.e+-]*\).*/\1/p' "$work/run-$1/metrics.jsonl"; }
  paste <(losses cpu-fp32) <(losses "cuda-$1") | awk -v first="$2" -v all="$3" '
    { d = $1 - $2; if (d < 0) d = -d; r = d / $1; if (r > worst) worst = r
      if ((NR == 1 && r > first) || r > all) { print "step " NR ": " $1 " on the CPU, " $2 " on the GPU"; bad = 1 } }
    END { print NR " losses, largest relative difference " worst; exit bad || NR < 30 }'
}

# A run that is stopped and resumed ends with the same bytes as an uninterrupted run. It uses the uninterrupted run's
# recipe, which records the paths that were measured to be faster.
same_bytes_after_resume() { # DTYPE
  local command
  pinned_run cuda "$1" "$work/whole" 300 || return 1
  rm -rf "$work/stopped"
  pinned_command cuda "$1" "$work/stopped" 300
  "${command[@]}" --config "$work/whole/recipe.toml" & local pid=$!
  until [ "$(wc -l 2> /dev/null < "$work/stopped/metrics.jsonl")" -ge 5 ] || ! kill -0 $pid; do
    sleep 0.01
  done 2> /dev/null
  kill -TERM $pid 2> /dev/null
  wait $pid
  echo "stopped with status $? after $(wc -l < "$work/stopped/metrics.jsonl") of 300 steps"
  "$bin/comera" pretrain --resume "$work/stopped" --quiet > /dev/null &&
    cmp "$work/whole/model.safetensors" "$work/stopped/model.safetensors"
}

# A timed command; its JSON becomes rows of the report's table.
bench() { # NAME COMMAND...
  local name=$1 limit
  limit=$(limit_of 120)
  shift
  if [ "$limit" -lt 5 ]; then
    say "| $name | not run, no time was left | | | | | |"
  elif timeout "$limit" "$@" > "$work/bench.json" 2> "$work/log"; then
    python3 "$here/gpu_report.py" row "$name" "$work/bench.json" "$lines" | tee -a "$report"
  else
    say "| $name | failed: $(tail -n 1 "$work/log") | | | | | |"
  fi
}
ours() {
  bench "$1" "$bin/comera" bench --device "$device" --json --quiet --warmup "$warmup" --repetitions "$repetitions" \
    "${@:2}"
}
theirs() {
  [ -z "$torch" ] || bench "$1" python3 "$recipes/pytorch_peer.py" --device "$device" --warmup "$warmup" \
    --repetitions "$repetitions" "${@:2}"
}

bench_steps() {
  local dtype batch
  for dtype in bf16 fp32 tf32 fp8; do
    ours "mnli-6enc 32 x 128 tt $dtype" --model mnli-6enc --form tt --rank 30 --batch 32 --seq 128 --dtype "$dtype"
  done
  ours "mnli-6enc 1 x 128 tt bf16" --model mnli-6enc --form tt --rank 30 --batch 1 --seq 128 --dtype bf16
  for batch in 32 1; do
    ours "mnli-6enc $batch x 128 dense bf16" --model mnli-6enc --form dense --batch "$batch" --seq 128 --dtype bf16
  done
  theirs "mnli-6enc 32 x 128" --batch 32 --dtype bf16
  theirs "mnli-6enc 32 x 128" --batch 32 --dtype bf16 --compile
  theirs "mnli-6enc 1 x 128" --batch 1 --dtype bf16 --optimizer galore
}

bench_layers() {
  local batch dtype tokens
  theirs "copies and products" --work rates --dtype bf16
  for batch in 32 512; do
    tokens=$((batch * 128))
    for dtype in bf16 fp32 fp8; do
      ours "linear 768x3072 at $tokens tokens tt $dtype" --linear 768x3072 --form tt --rank 30 --batch "$batch" \
        --seq 128 --dtype "$dtype"
    done
    theirs "linear 768x3072 at $tokens tokens" --work linear --batch "$batch" --dtype bf16 --compile
  done
  ours "look-up 4096 of 30522x768 tt fp32" --table 30522x768 --form tt --embedding-rank 32 --batch 32 --seq 128 \
    --dtype fp32
  theirs "look-up 4096 of 30522x768" --work lookup --embedding-rank 32 --batch 32
}

# Every sequence is full in both programs. Ours reads text; PyTorch's batches are in memory.
bench_epoch() {
  bench "epoch mnli-6enc 128 x 128 tt bf16" python3 "$recipes/time_epoch.py" "$bin/comera" --device "$device" \
    --model mnli-6enc --form tt --rank 30 --dtype bf16
  theirs "epoch mnli-6enc 128 x 128" --work epoch --batch 128 --dtype bf16 --compile --repetitions 100
}

: > "$report"
say "# The CUDA backend on a GPU"
say ""
commit=$(cat "$here/commit" 2> /dev/null || git -C "$here" rev-parse HEAD 2> /dev/null || echo unknown)
say "- commit: $commit, $(date -u +%Y-%m-%d)"
facts=name,driver_version,clocks.sm,clocks.mem,power.limit
say "- GPU: $(nvidia-smi --query-gpu=$facts --format=csv,noheader 2> /dev/null | head -n 1 || echo unknown)"
say "- program: $("$bin/comera" --version --device cuda 2>&1 | tr '\n' ' ')"
say ""
say "## Correct"
say ""
make_data
export COMERA_REQUIRE_GPU=1 bin work
export -f pinned_command pinned_run same_losses same_bytes_after_resume
# Only the tests that need a GPU: the others run in every build.
check kernels 240 env COMERA_COLUMN='cuda gpu' "$bin/test_kernels" '*backend*,*same bytes*'
check models 120 "$bin/test_models" \
  'a step on a device*,bf16 streams*,TF32 products*,fp8 products*'
check pinned-loss 120 same_losses fp32 1e-5 1e-2
check pinned-loss-tf32 60 same_losses tf32 2e-2 2e-2
check pinned-loss-bf16 60 same_losses bf16 0.12 0.12
check resume 60 same_bytes_after_resume fp32
check resume-bf16 60 same_bytes_after_resume bf16

if [ "${QUICK:-}" != 1 ]; then
  device=cuda warmup=5 repetitions=20
  torch=$(python3 -c 'import torch; print(torch.__version__ if torch.cuda.is_available() else "")' 2> /dev/null || true)
  say ""
  say "## Times and memory"
  say ""
  say "PyTorch: ${torch:-not found, not measured}. Joules are per step. \`cores\` of a model is the total of its"
  say "merging and core gradients; \`launches\` are the calls in a step's graph."
  say ""
  say "| work | program | part | median ms | J | MiB | launches |"
  say "|---|---|---|---|---|---|---|"
  bench_layers
  bench_steps
  bench_epoch
  say ""
  say "## Required ratios"
  say ""
  python3 "$here/gpu_report.py" ratios "$lines" | tee -a "$report"
  say ""
  say "## compute-sanitizer"
  say ""
  sanitizer=$(command -v compute-sanitizer || echo "$here/sanitizer/compute-sanitizer")
  if [ -x "$sanitizer" ]; then
    for tool in memcheck racecheck initcheck; do
      check "$tool" 90 env COMERA_COLUMN='cuda gpu' "$sanitizer" --tool "$tool" --error-exitcode 9 \
        "$bin/test_kernels" '*backend*'
    done
  else
    say "- compute-sanitizer: not found, not run"
  fi
fi
say ""
say "$failures checks failed."
[ "$failures" = 0 ]
