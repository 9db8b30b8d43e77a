#!/usr/bin/env bash
# Finds the longest sequence that llama-6m trains within a memory limit under each policy, one sequence per step, and
# trains one step with it. Ends with a table: tokens, planned and measured MiB, seconds, tokens per second.
#
#   COMERA_DATA=... recipes/longest_sequence.sh [--smoke] [FOLDER]      default: runs/longest_sequence[-smoke]
#
# COMERA_DATA names a folder with text/gutenberg16.txt.zst. LIMIT (2048, in MiB), ROWS (words FORM:POLICY:OPTIMIZER),
# COMERA, ISA and THREADS change the job. Attention takes time with the square of the length: the whole table takes
# about an hour on two cores; --smoke takes seconds, with a smaller model, 16 MiB and two rows. FOLDER receives texts,
# runs, and results.md and results.json. Finished rows are kept for the same LIMIT.
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck source=shared/recipe.sh
. recipes/shared/recipe.sh
SEED=${SEED:-0}
start 1 "$@"
limit=${LIMIT:-2048}
rows=${ROWS:-dense:keep:adamw dense:cheap:adamw dense:cheap,int8:adamw dense:block:adamw dense:block,int8:adamw
  dense:block,int4:adamw dense:block,int8:adalomo tt:keep:adamw tt:block,int8:adamw}
small=() rank=() books=("$folder/text" 4000)
if "$smoke"; then
  limit=${LIMIT:-16} rows=${ROWS:-dense:keep:adamw tt:block,int8:adamw}
  small=(--layers 1 --hidden 32 --heads 2 --intermediate 64) rank=(--rank 4) books=(--smoke "$folder/text" 40)
fi
settings=(limit_mib="$limit" isa="${ISA:-auto}" threads="$threads")

model() { # ROW TOKENS
  IFS=: read -r form policy optimizer <<< "$1"
  local ranks=()
  [ "$form" = dense ] || ranks=("${rank[@]}")
  echo --model llama-6m --task clm --form "$form" --activations "$policy" --optimizer "$optimizer" --batch 1 \
    --seq "$2" --positions "$2" --data "$folder/text/train.txt" --tokenizer "$folder/text/tokenizer" \
    "${small[@]}" "${ranks[@]}"
}

planned() { # ROW TOKENS: MiB
  # shellcheck disable=SC2046  # a list of words
  "$comera" pretrain $(model "$1" "$2") --dry-run |
    awk '/^peak /{ by = $3 == "GiB" ? 1024 : $3 == "KiB" ? 1 / 1024 : 1; print $2 * by; exit }'
}

# The plan of a dry run is without the readers of text, which take below 2 MiB.
fits() { # ROW TOKENS
  awk -v peak="$(planned "$1" "$2")" -v limit="$limit" 'BEGIN { exit !(peak + 2 <= limit) }'
}

# In steps of 128 tokens.
longest() { # ROW
  local low=1 high=2
  fits "$1" 128 || { echo 0 && return; }
  while fits "$1" $((high * 128)) && [ "$high" -lt 8192 ]; do low=$high high=$((2 * high)); done
  while [ $((high - low)) -gt 1 ]; do
    local middle=$(((low + high) / 2))
    if fits "$1" $((middle * 128)); then low=$middle; else high=$middle; fi
  done
  echo $((low * 128))
}

train() { # RUN ROW TOKENS
  finished "$1" && return
  # shellcheck disable=SC2046  # a list of words
  "$comera" pretrain $(model "$2" "$3") --steps 1 --seed "$seed" --isa "${ISA:-auto}" --threads "$threads" --quiet \
    -o "$1" --force >&2
}

# A line of the table.
measure() { # ROW FILE
  local form policy optimizer tokens run
  IFS=: read -r form policy optimizer <<< "$1"
  echo "== $1" >&2
  tokens=$(longest "$1")
  if [ "$tokens" = 0 ]; then
    echo "| $form | \`$policy\` | $optimizer | none | | | | |" | keep "$2"
    return
  fi
  run=${2%.row}
  train "$run" "$1" "$tokens"
  python3 - "$run/report.json" "$form" "$policy" "$optimizer" "$tokens" << 'REPORT' | keep "$2"
import json, sys

path, form, policy, optimizer, tokens = sys.argv[1:]
run = json.load(open(path))
seconds = run["step_ms"] / 1000
print(f"| {form} | `{policy}` | {optimizer} | {int(tokens):,} | {run['memory']['planned_peak'] / 2**20:.0f} | "
      f"{run['memory']['measured_peak'] / 2**20:.0f} | {seconds:.1f} | {int(tokens) / seconds:.0f} |")
REPORT
}

file_of() { # ROW
  local name=${1//:/-}
  echo "$folder/${name//,/+}-$limit.row"
}

table() {
  local row
  echo '| form | policy | optimizer | tokens | planned MiB | measured MiB | seconds | tokens per second |'
  echo '|---|---|---|---:|---:|---:|---:|---:|'
  for row in $rows; do cat "$(file_of "$row")"; done
}

need_data text/gutenberg16.txt.zst
require_program
mkdir -p "$folder"
COMERA=$comera recipes/books.sh "${books[@]}"
for row in $rows; do
  file=$(file_of "$row")
  [ -s "$file" ] || measure "$row" "$file"
done
publish "$seed" table
