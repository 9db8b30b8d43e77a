#!/usr/bin/env bash
# Times one training step of the six-encoder transformer, ours and PyTorch's in turn, under every instruction set of
# this machine. Ends with times, peak memory and their ratios.
#
#   recipes/bench_vs_pytorch.sh [--smoke] [FOLDER]      default: runs/bench_vs_pytorch, or runs/bench_vs_pytorch-smoke
#   ROUNDS=5 THREADS=2 recipes/bench_vs_pytorch.sh
#   ONLY='batch 1' recipes/bench_vs_pytorch.sh      only sections whose title matches
#   ISAS='v3' recipes/bench_vs_pytorch.sh           only these instruction sets (v3: AVX2; v4, v4bf16, v4amx: AVX-512)
#
# Without a choice: batch 32 x 128, float32 and bf16, dropout 0.1 and 0, and batch 1. PYTHON names a python with torch
# and numpy (build/venv-torch/bin/python). REPETITIONS (5) are the steps of a measurement; COMERA is the program, OUT
# the same as FOLDER. By the time of its steps it takes about a quarter of an hour on two cores for each instruction
# set; --smoke is for one linear layer. FOLDER receives a file for each measurement, and results.md and results.json. A
# second call keeps what is measured.
#
# PyTorch runs with the settings that are fastest on a CPU: malloc keeps memory instead of returning it, one thread per
# core. Its peak memory comes from runs with the usual malloc, where it is smaller. Under v3 and v4 PyTorch, oneDNN and
# MKL are limited to AVX2 and AVX-512 by their own variables, which is the closest approximation on this machine to a
# processor without more; under the others they use everything. The memory of Python, torch and our program at start is
# subtracted on both sides.
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck source=shared/recipe.sh
. recipes/shared/recipe.sh
start 1 "$@"
folder=${OUT:-$folder}
need_torch
require_program
rounds=${ROUNDS:-3}
repetitions=${REPETITIONS:-5}
only=${ONLY:-}
list_sets='import json, sys; print(*json.load(sys.stdin)["cpu"]["instruction_sets"])'
isas=${ISAS:-$("$comera" --version --json | python3 -c "$list_sets")}
! "$smoke" || { rounds=${ROUNDS:-1} repetitions=${REPETITIONS:-1} only=${ONLY:-one linear layer} isas=${ISAS:-v3}; }
settings=(rounds="$rounds" repetitions="$repetitions" threads="$threads")
held_to() { # instruction set: variables for PyTorch
  case $1 in
    v3) echo ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 MKL_ENABLE_INSTRUCTIONS=AVX2 ;;
    v4) echo ATEN_CPU_CAPABILITY=avx512 ONEDNN_MAX_CPU_ISA=AVX512_CORE MKL_ENABLE_INSTRUCTIONS=AVX512 ;;
  esac
}

mkdir -p "$folder/rows"
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE

# The file of a measurement of this round.
file_of() { echo "$folder/rows/$round.$isa.${1// /_}.$2.json"; }

ours() { # name, options
  local name=$1 file
  shift
  file=$(file_of "$name" comera)
  [ ! -s "$file" ] || return 0
  "$comera" bench --json --quiet --isa "$isa" --threads "$threads" --repetitions "$repetitions" "$@" |
    python3 -c 'import json, sys
d = json.load(sys.stdin)
r = d["rows"][0]
settings = {k: d["settings"][k] for k in ("cpu", "blas")}
numbers = {k: r[k] for k in ("median_ms", "min_ms", "max_ms", "peak_bytes")}
print(json.dumps({"name": sys.argv[1], "side": "comera", "isa": sys.argv[2], **settings, **numbers}))
' "$name" "$isa" | keep "$file"
}

# Runs with fast malloc give the times, runs with the usual malloc the memory.
theirs() { # name, options
  local name=$1
  shift
  local malloc held file
  read -ra held <<<"$(held_to "$isa")"
  for malloc in fast usual; do
    local allocation=()
    if [ "$malloc" = fast ]; then
      allocation=(MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=1000000000000 MALLOC_TOP_PAD_=67108864)
    fi
    # One round is enough for the memory: it hardly changes.
    [ "$malloc" = usual ] && [ "$round" -gt 1 ] && continue
    file=$(file_of "$name" "pytorch-$malloc")
    [ ! -s "$file" ] || continue
    env "${allocation[@]}" "${held[@]}" OMP_NUM_THREADS="$threads" \
      "$python" recipes/pytorch_peer.py --threads "$threads" --repetitions "$repetitions" "$@" |
      python3 -c 'import json, sys
d = json.load(sys.stdin)
row = {"name": sys.argv[1], "side": "pytorch", "isa": sys.argv[3], "held": sys.argv[4], "peak_bytes": d["peak_bytes"],
       "program": d["program"]}
if sys.argv[2] == "fast":
    row.update({k: d[k] for k in ("median_ms", "min_ms", "max_ms")})
print(json.dumps(row))' "$name" "$malloc" "$isa" "${held[*]}" | keep "$file"
  done
}

section() { [[ -z "$only" || "$1" == *"$only"* ]]; }
model=(--model mnli-6enc --seq 128)

measure() { # under the instruction set $isa
  if section "one linear layer"; then
    ours "linear tt 4096" --linear 768x3072 --form tt --rank 30 --batch 32 --seq 128
    theirs "linear dense 4096" --work linear --form dense
    theirs "linear tt 4096" --work linear --form tt --rank 30
  fi
  for dropout in 0.1 0; do
    section "batch 32 dropout $dropout" || continue
    for form in tt dense; do
      for dtype in f32 $([[ "$isa" != v4bf16 && "$isa" != v4amx ]] || echo bf16); do  # only where it is
        ours "b32 d$dropout $form $dtype" "${model[@]}" --form "$form" --rank 30 --batch 32 --dropout "$dropout" \
          --dtype "${dtype/f32/fp32}"
        theirs "b32 d$dropout $form $dtype" --form "$form" --rank 30 --batch 32 --dropout "$dropout" --dtype "$dtype"
      done
    done
  done
  if section "batch 32 recompute"; then
    for recompute in cheap block; do
      ours "b32 d0.1 tt f32 $recompute" "${model[@]}" --form tt --rank 30 --batch 32 --dropout 0.1 \
        --activations "$recompute"
    done
  fi
  if section "batch 1"; then
    for form in tt dense; do
      ours "b1 d0.1 $form f32" "${model[@]}" --form "$form" --rank 30 --batch 1 --dropout 0.1
      theirs "b1 d0.1 $form f32" --form "$form" --rank 30 --batch 1 --dropout 0.1
    done
  fi
}

for round in $(seq "$rounds"); do
  for isa in $isas; do
    echo "round $round of $rounds, $isa" >&2
    measure
  done
done

cat "$folder"/rows/*.json > "$folder/rows.jsonl"
publish "$seed" python3 recipes/bench_vs_pytorch.py "$folder/rows.jsonl"
