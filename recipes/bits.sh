#!/usr/bin/env bash
# Compares weights on grids at equal bytes: rounding to nearest, GPTQ, GPTQ with coordinate descent (what `tensorize
# --bits` does), and bits and ranks by one budget. Prints strided perplexity on the last fifth of a text; the rest
# calibrates. Tables of embeddings stay dense.
#
#   COMERA_DATA=FOLDER recipes/bits.sh DIR
#
# With PAIRS, a .tsv of sentence1, sentence2 and score, the model is an encoder: the quality is Spearman's correlation of
# its embeddings' cosines with the scores, and tables are put on grids too.
#
# Variables: MODEL (checkpoints/stories15M of COMERA_DATA), TEXT (text/tinystories_sample.txt.zst of it, plain or zst),
# BITS (4 3 2), RATIOS (none: further ratios of the whole file, with bits by budget), EVALUATE (bytes of the last fifth
# that are read; all), COMERA (build/comera), THREADS (all cores). What DIR already holds is not made again.
set -euo pipefail
[ $# -eq 1 ] || { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 2; }
folder=$1
: "${COMERA_DATA:?names the folder with checkpoints and text}"
model=${MODEL:-$COMERA_DATA/checkpoints/stories15M}
text=${TEXT:-$COMERA_DATA/text/tinystories_sample.txt.zst}
comera=${COMERA:-build/comera}
threads=${THREADS:-$(nproc)}
mkdir -p "$folder"

if [ ! -f "$folder/last.txt" ]; then
  case $text in
    *.zst) zstd -dc "$text" ;;
    *) cat "$text" ;;
  esac > "$folder/all.txt"
  lines=$(($(wc -l < "$folder/all.txt") * 4 / 5))
  head -n "$lines" "$folder/all.txt" | grep -v '^ *$' > "$folder/calibration.txt"
  tail -n +$((lines + 1)) "$folder/all.txt" > "$folder/rest.txt" # a pipe into head would break
  head -c "${EVALUATE:-999999999}" "$folder/rest.txt" > "$folder/last.txt"
fi

if [ -n "${PAIRS:-}" ]; then
  evaluated=(--data "$PAIRS" --text 'sentence1,sentence2' --label score) measure=spearman kept_dense=()
else
  evaluated=(--data "$folder/last.txt" --seq 256 --stride 128) measure=perplexity kept_dense=(--exclude '*embed*')
fi

quality() { # model name
  [ -f "$folder/$2.json" ] ||
    "$comera" evaluate "$1" "${evaluated[@]}" --threads "$threads" --json > "$folder/$2.json"
  sed -n "s/^ *\"$measure\": \([-0-9.e]*\),*$/\1/p" "$folder/$2.json" | head -n 1
}

bytes_of() { cat "$1"/*.safetensors | wc -c; }

row() { # name bits options...
  local out=$folder/$1-$2
  [ -d "$out" ] ||
    "$comera" tensorize "$model" -o "$out" "${kept_dense[@]}" --threads "$threads" "${@:3}" > "$out.log" 2>&1
  printf '%-8s %-8s %14s %10.4f\n' "$2" "$1" "$(bytes_of "$out")" "$(quality "$out" "$1-$2")"
}

printf '%-8s %-8s %14s %10s\n' bits method bytes "$measure"
printf '%-8s %-8s %14s %10.4f\n' dense - "$(bytes_of "$model")" "$(quality "$model" dense)"
for bits in ${BITS:-4 3 2}; do
  row nearest "$bits" --bits "$bits"
  row gptq "$bits" --bits "$bits" --sweeps 0 --calibrate "$folder/calibration.txt"
  row comera "$bits" --bits "$bits" --calibrate "$folder/calibration.txt"
  # A certificate states errors with up to 25 digits more than the plan counts for one form.
  row budget "$bits" --bits auto --budget $(($(bytes_of "$folder/comera-$bits") + 4096)) \
    --calibrate "$folder/calibration.txt"
done
for ratio in ${RATIOS:-}; do
  row budget "ratio-$ratio" --bits auto --ratio "$ratio" --calibrate "$folder/calibration.txt"
done
