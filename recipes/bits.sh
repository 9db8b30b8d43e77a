#!/usr/bin/env bash
# Compares weights on grids at equal bytes: rounding to nearest, GPTQ, GPTQ with coordinate descent (what `tensorize
# --bits` does), and bits and ranks by one budget. Prints strided perplexity on the last fifth of a text; the rest
# calibrates. Tables of embeddings stay dense.
#
#   COMERA_DATA=FOLDER recipes/bits.sh DIR
#
# Variables: MODEL (checkpoints/stories15M of COMERA_DATA), TEXT (text/tinystories_sample.txt.zst of it, plain or zst),
# BITS (4 3 2), EVALUATE (bytes of the last fifth that are read; all), COMERA (build/comera), THREADS (all cores). What
# DIR already holds is not made again.
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
  tail -n +$((lines + 1)) "$folder/all.txt" | head -c "${EVALUATE:-999999999}" > "$folder/last.txt"
fi

perplexity() { # model name
  [ -f "$folder/$2.json" ] ||
    "$comera" evaluate "$1" --data "$folder/last.txt" --seq 256 --stride 128 --threads "$threads" --json \
      > "$folder/$2.json"
  sed -n 's/^ *"perplexity": \([-0-9.e]*\),*$/\1/p' "$folder/$2.json" | head -n 1
}

bytes_of() { cat "$1"/*.safetensors | wc -c; }

measure() { # name bits options...
  local out=$folder/$1-$2
  [ -d "$out" ] ||
    "$comera" tensorize "$model" -o "$out" --exclude '*embed*' --threads "$threads" "${@:3}" > "$out.log" 2>&1
  printf '%-8s %-8s %14s %10.3f\n' "$2" "$1" "$(bytes_of "$out")" "$(perplexity "$out" "$1-$2")"
}

printf '%-8s %-8s %14s %10s\n' bits method bytes perplexity
printf '%-8s %-8s %14s %10.3f\n' dense - "$(bytes_of "$model")" "$(perplexity "$model" dense)"
for bits in ${BITS:-4 3 2}; do
  measure nearest "$bits" --bits "$bits"
  measure gptq "$bits" --bits "$bits" --sweeps 0 --calibrate "$folder/calibration.txt"
  measure comera "$bits" --bits "$bits" --calibrate "$folder/calibration.txt"
  # A certificate states errors with up to 25 digits more than the plan counts for one form.
  measure budget "$bits" --bits auto --budget $(($(bytes_of "$folder/comera-$bits") + 4096)) \
    --calibrate "$folder/calibration.txt"
done
