#!/usr/bin/env bash
# Times one training step of the six-encoder transformer, ours and PyTorch's in turn, under every instruction set of
# this machine. Prints times, peak memory and their ratios.
#
#   recipes/bench_vs_pytorch.sh            batch 32 x 128, float32 and bf16, dropout 0.1 and 0, and batch 1
#   ROUNDS=5 THREADS=2 recipes/bench_vs_pytorch.sh
#   ONLY='batch 1' recipes/bench_vs_pytorch.sh      only sections whose title matches
#   ISAS='v3' recipes/bench_vs_pytorch.sh           only these instruction sets (v3: AVX2; v4, v4bf16: AVX-512)
#
# PyTorch is installed from PyPI into build/venv-torch (5 GB); PYTHON names another python that has torch. It runs with
# the settings that are fastest on a CPU: malloc keeps memory instead of returning it, one thread per core. Its peak
# memory comes from runs with the usual malloc, where it is smaller. Under v3 and v4 PyTorch, oneDNN and MKL are limited
# to AVX2 and AVX-512 by their own variables, which is the closest approximation on this machine to a processor without
# more; under v4bf16 they use everything. The memory of Python, torch and our program at start is subtracted on both
# sides.
[ $# -eq 0 ] || { sed -n '2,15s/^# \{0,1\}//p' "$0" >&2 && exit 2; }
set -euo pipefail
cd "$(dirname "$0")/.."

ROUNDS=${ROUNDS:-3}
THREADS=${THREADS:-$(nproc)}
REPETITIONS=${REPETITIONS:-5}
COMERA=${COMERA:-build/comera}
OUT=${OUT:-build/bench_vs_pytorch}
[ -x "$COMERA" ] || make comera

if [ -z "${PYTHON:-}" ]; then
  PYTHON=build/venv-torch/bin/python
  if ! "$PYTHON" -c 'import torch, numpy' 2>/dev/null; then
    echo "installing PyTorch into build/venv-torch (about 5 GB)" >&2
    python3 -m venv build/venv-torch
    build/venv-torch/bin/pip install --quiet torch numpy
  fi
fi

list_sets='import json, sys; print(*json.load(sys.stdin)["cpu"]["instruction_sets"])'
ISAS=${ISAS:-$("$COMERA" --version --json | "$PYTHON" -c "$list_sets")}
held_to() { # instruction set: variables for PyTorch
  case $1 in
    v3) echo ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 MKL_ENABLE_INSTRUCTIONS=AVX2 ;;
    v4) echo ATEN_CPU_CAPABILITY=avx512 ONEDNN_MAX_CPU_ISA=AVX512_CORE MKL_ENABLE_INSTRUCTIONS=AVX512 ;;
  esac
}

mkdir -p "$OUT"
rm -f "$OUT"/*.jsonl
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE

ours() { # name, options
  local name=$1
  shift
  "$COMERA" bench --json --quiet --isa "$isa" --threads "$THREADS" --repetitions "$REPETITIONS" "$@" |
    "$PYTHON" -c 'import json, sys
d = json.load(sys.stdin)
r = d["rows"][0]
settings = {k: d["settings"][k] for k in ("cpu", "blas")}
numbers = {k: r[k] for k in ("median_ms", "min_ms", "max_ms", "peak_bytes")}
print(json.dumps({"name": sys.argv[1], "side": "comera", "isa": sys.argv[2], **settings, **numbers}))
' "$name" "$isa" >>"$OUT/rows.jsonl"
}

# Runs with fast malloc give the times, runs with the usual malloc the memory.
theirs() { # name, options
  local name=$1
  shift
  local malloc held
  read -ra held <<<"$(held_to "$isa")"
  for malloc in fast usual; do
    local settings=()
    if [ "$malloc" = fast ]; then
      settings=(MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=1000000000000 MALLOC_TOP_PAD_=67108864)
    fi
    # One round is enough for the memory: it hardly changes.
    [ "$malloc" = usual ] && [ "$round" -gt 1 ] && continue
    env "${settings[@]}" "${held[@]}" OMP_NUM_THREADS="$THREADS" \
      "$PYTHON" recipes/pytorch_peer.py --threads "$THREADS" --repetitions "$REPETITIONS" "$@" |
      "$PYTHON" -c 'import json, sys
d = json.load(sys.stdin)
row = {"name": sys.argv[1], "side": "pytorch", "isa": sys.argv[3], "held": sys.argv[4], "peak_bytes": d["peak_bytes"],
       "program": d["program"]}
if sys.argv[2] == "fast":
    row.update({k: d[k] for k in ("median_ms", "min_ms", "max_ms")})
print(json.dumps(row))' "$name" "$malloc" "$isa" "${held[*]}" >>"$OUT/rows.jsonl"
  done
}

section() { [[ -z "${ONLY:-}" || "$1" == *"$ONLY"* ]]; }
MODEL=(--model mnli-6enc --seq 128)

measure() { # under the instruction set $isa
  if section "one linear layer"; then
    ours "linear tt 4096" --linear 768x3072 --form tt --rank 30 --batch 32 --seq 128
    theirs "linear dense 4096" --work linear --form dense
    theirs "linear tt 4096" --work linear --form tt --rank 30
  fi
  for dropout in 0.1 0; do
    section "batch 32 dropout $dropout" || continue
    for form in tt dense; do
      for dtype in f32 $([ "$isa" != v4bf16 ] || echo bf16); do  # bf16 only if the processor computes with it
        ours "b32 d$dropout $form $dtype" "${MODEL[@]}" --form "$form" --rank 30 --batch 32 --dropout "$dropout" \
          --dtype "${dtype/f32/fp32}"
        theirs "b32 d$dropout $form $dtype" --form "$form" --rank 30 --batch 32 --dropout "$dropout" --dtype "$dtype"
      done
    done
  done
  if section "batch 32 recompute"; then
    for recompute in cheap block; do
      ours "b32 d0.1 tt f32 $recompute" "${MODEL[@]}" --form tt --rank 30 --batch 32 --dropout 0.1 \
        --activations "$recompute"
    done
  fi
  if section "batch 1"; then
    for form in tt dense; do
      ours "b1 d0.1 $form f32" "${MODEL[@]}" --form "$form" --rank 30 --batch 1 --dropout 0.1
      theirs "b1 d0.1 $form f32" --form "$form" --rank 30 --batch 1 --dropout 0.1
    done
  fi
}

for round in $(seq "$ROUNDS"); do
  for isa in $ISAS; do
    echo "round $round of $ROUNDS, $isa" >&2
    measure
  done
done

"$PYTHON" recipes/bench_vs_pytorch.py "$OUT/rows.jsonl" | tee "$OUT/table.md"
