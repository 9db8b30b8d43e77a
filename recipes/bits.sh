#!/usr/bin/env bash
# Compares weights on grids at equal bytes: rounding to nearest, GPTQ (each layer fitted to its inputs in the dense
# model), what `tensorize --bits` does without refinement of blocks, and bits and ranks by one budget, without and with
# refinement. Ends with strided perplexity on the last fifth of a text; the rest calibrates. Tables of embeddings stay
# dense.
#
#   COMERA_DATA=... recipes/bits.sh [--smoke] [FOLDER]      default: runs/bits, or runs/bits-smoke
#
# With PAIRS, a .tsv of sentence1, sentence2 and score, the model is an encoder: the quality is Spearman's correlation
# of its embeddings' cosines with the scores, and tables are put on grids too; a second table has each row's difference to
# the dense model and to rounding, by a paired bootstrap.
#
# Variables: MODEL (checkpoints/stories15M of COMERA_DATA), TEXT (text/tinystories_sample.txt.zst of it, plain or zst),
# BITS (4 3 2), RATIOS (none: further ratios of the whole file, with bits by budget), EVALUATE (bytes of the last fifth
# that are read; all), COMERA (build/comera), THREADS (all cores). --smoke is for 4 bits, 2,048 tokens of calibration and
# 2 KB of the last fifth. FOLDER receives models and their logs, and results.md and results.json. What it already holds
# is not made again.
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck source=shared/recipe.sh
. recipes/shared/recipe.sh
start 1 "$@"
[ -n "${MODEL:-}" ] || need_data checkpoints/stories15M/model.safetensors
[ -n "${TEXT:-}" ] || need_data text/tinystories_sample.txt.zst
require_program
model=${MODEL:-$COMERA_DATA/checkpoints/stories15M}
text=${TEXT:-$COMERA_DATA/text/tinystories_sample.txt.zst}
bits=${BITS:-4 3 2} most=${EVALUATE:-999999999} few=()
! "$smoke" || { bits=${BITS:-4} most=${EVALUATE:-2000} && few=(--calibrate-tokens 2048); }
calibrate=(--calibrate "$folder/calibration.txt" "${few[@]}")
settings=(model="$(basename "$model")" threads="$threads")
mkdir -p "$folder"

if [ ! -f "$folder/last.txt" ]; then
  case $text in
    *.zst) zstd -dc "$text" ;;
    *) cat "$text" ;;
  esac | keep "$folder/all.txt"
  lines=$(($(wc -l < "$folder/all.txt") * 4 / 5))
  head -n "$lines" "$folder/all.txt" | grep -v '^ *$' > "$folder/calibration.txt"
  tail -n +$((lines + 1)) "$folder/all.txt" > "$folder/rest.txt" # a pipe into head would break
  head -c "$most" "$folder/rest.txt" | keep "$folder/last.txt"
fi

if [ -n "${PAIRS:-}" ]; then
  evaluated=(--data "$PAIRS" --text 'sentence1,sentence2' --label score) measure=spearman kept_dense=()
else
  evaluated=(--data "$folder/last.txt" --seq 256 --stride 128) measure=perplexity kept_dense=(--exclude '*embed*')
fi

quality() { # model name
  local also=()
  [ -z "${PAIRS:-}" ] || also=(--predictions "$folder/$2.tsv")
  [ -s "$folder/$2.json" ] ||
    "$comera" evaluate "$1" "${evaluated[@]}" "${also[@]}" --threads "$threads" --json 2> "$folder/$2.evaluate.log" |
    keep "$folder/$2.json"
  sed -n "s/^ *\"$measure\": \([-0-9.e]*\),*$/\1/p" "$folder/$2.json" | head -n 1
}

bytes_of() { cat "$1"/*.safetensors | wc -c; }

# Lines of the table, in the order of the work.
line() { # bits method model name
  local found
  found=$(quality "$3" "$4")
  printf '| %s | %s | %s | %.4f |\n' "$1" "$2" "$(bytes_of "$3")" "$found" >> "$folder/lines.partial"
}

row() { # name bits options...
  local out=$folder/$1-$2
  echo "== $2: $1"
  [ -d "$out" ] ||
    logged "$1-$2" "$comera" tensorize "$model" -o "$out" "${kept_dense[@]}" --threads "$threads" "${@:3}"
  line "$2" "$1" "$out" "$1-$2"
}

printf '| bits | method | bytes | %s |\n|---|---|---:|---:|\n' "$measure" > "$folder/lines.partial"
line dense - "$model" dense
for number in $bits; do
  row nearest "$number" --bits "$number"
  row gptq "$number" --bits "$number" --sweeps 0 "${calibrate[@]}" --no-sequential --no-clip-tokens --refine=never
  row comera "$number" --bits "$number" "${calibrate[@]}" --refine=never
  # A certificate states errors with up to 25 digits more than the plan counts for one form.
  budget=(--bits auto --budget $(($(bytes_of "$folder/comera-$number") + 4096)) "${calibrate[@]}")
  row budget "$number" "${budget[@]}" --refine=never
  row refined "$number" "${budget[@]}"
done
for ratio in ${RATIOS:-}; do
  row refined "ratio-$ratio" --bits auto --ratio "$ratio" "${calibrate[@]}"
done
# The rows of the second table are those of the first.
tables() {
  cat "$folder/lines.partial"
  [ -n "${PAIRS:-}" ] || return 0
  local references="$folder/dense.tsv" number method
  for number in $bits; do references+=",$folder/nearest-$number.tsv"; done
  local rows=()
  for number in $bits; do
    for method in nearest gptq comera budget refined; do rows+=("$folder/$method-$number.tsv"); done
  done
  for number in ${RATIOS:-}; do rows+=("$folder/refined-ratio-$number.tsv"); done
  echo
  recipes/paired_spearman.py "$references" "${rows[@]}"
}

publish "$seed" tables
rm "$folder/lines.partial"
