#!/usr/bin/env bash
# Finds the longest sequence that llama-6m trains within a memory limit under each policy, one sequence per step, and
# trains one step with it. Prints a table: tokens, planned and measured MiB, seconds, tokens per second.
#
#   COMERA_DATA=... recipes/longest_sequence.sh [FOLDER]      default: runs/longest_sequence
#
# COMERA_DATA names a folder with text/gutenberg16.txt.zst. LIMIT (2048, in MiB), ROWS (words FORM:POLICY:OPTIMIZER),
# COMERA, ISA and THREADS change the job. Finished runs are kept. Attention takes time with the square of the length:
# the whole table takes about an hour of two cores.
set -euo pipefail
cd "$(dirname "$0")/.."

comera=${COMERA:-build/comera}
folder=${1:-runs/longest_sequence}
limit=${LIMIT:-2048}
rows=${ROWS:-dense:keep:adamw dense:cheap:adamw dense:cheap,int8:adamw dense:block:adamw dense:block,int8:adamw
  dense:block,int4:adamw dense:block,int8:adalomo tt:keep:adamw tt:block,int8:adamw}

model() { # ROW TOKENS
  IFS=: read -r form policy optimizer <<< "$1"
  echo --model llama-6m --task clm --form "$form" --activations "$policy" --optimizer "$optimizer" --batch 1 \
    --seq "$2" --positions "$2" --data "$folder/text/train.txt" --tokenizer "$folder/text/tokenizer"
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
  [ -f "$1/report.json" ] && return
  # shellcheck disable=SC2046  # a list of words
  "$comera" pretrain $(model "$2" "$3") --steps 1 --isa "${ISA:-auto}" --threads "${THREADS:-$(nproc)}" --quiet -o "$1" --force >&2
}

mkdir -p "$folder"
COMERA=$comera recipes/books.sh "$folder/text" 4000
lscpu | sed -n 's/^Model name: *//p'
echo '| form | policy | optimizer | tokens | planned MiB | measured MiB | seconds | tokens per second |'
echo '|---|---|---|---:|---:|---:|---:|---:|'
for row in $rows; do
  tokens=$(longest "$row")
  IFS=: read -r form policy optimizer <<< "$row"
  [ "$tokens" = 0 ] && echo "| $form | \`$policy\` | $optimizer | none | | | | |" && continue
  run=$folder/$form-${policy//,/+}-$optimizer
  train "$run" "$row" "$tokens"
  python3 - "$run/report.json" "$form" "$policy" "$optimizer" "$tokens" << 'REPORT'
import json, sys

path, form, policy, optimizer, tokens = sys.argv[1:]
run = json.load(open(path))
seconds = run["step_ms"] / 1000
print(f"| {form} | `{policy}` | {optimizer} | {int(tokens):,} | {run['memory']['planned_peak'] / 2**20:.0f} | "
      f"{run['memory']['measured_peak'] / 2**20:.0f} | {seconds:.1f} | {int(tokens) / seconds:.0f} |")
REPORT
done
