#!/usr/bin/env bash
# Times calibrated tensorize on a model of gte-small's shape (33M parameters: twelve layers, 384 wide), for one ratio
# and for several, under every instruction set of the machine. The model is all-MiniLM-L6-v2 with its six layers
# stacked twice: the same shapes and real spectra.
#
#   COMERA_DATA=... recipes/tensorize_time.sh [FOLDER]          default: runs/tensorize_time
#
# COMERA_DATA names a folder with checkpoints/all-MiniLM-L6-v2 and text/*.txt.zst. TOKENS (53248) of calibration, RATIOS
# (2.5,5), ISAS (those of the machine), THREADS and COMERA, the program, change the job. Each line has wall and
# processor seconds.
set -euo pipefail
cd "$(dirname "$0")/.."

comera=${COMERA:-build/comera}
folder=${1:-runs/tensorize_time}
tokens=${TOKENS:-53248}
ratios=${RATIOS:-2.5,5}
threads=${THREADS:-$(nproc)}
isas=${ISAS:-$("$comera" --version | sed -n 's/^ *instruction sets *\(.*\) (of.*/\1/p')}
minilm=${COMERA_DATA:?a folder with checkpoints and text}/checkpoints/all-MiniLM-L6-v2

mkdir -p "$folder"
[ -d "$folder/stacked" ] || python3 recipes/stack_layers.py "$minilm" "$folder/stacked" --times 2
[ -f "$folder/text.txt" ] ||
  zstd -dc "$COMERA_DATA"/text/{c4_sample,wordnet_glosses}.txt.zst > "$folder/text.txt"

timed() { # LABEL command...
  local label=$1
  shift
  local TIMEFORMAT="$label  %R s of wall time, %U s of processor time"
  time "$@" > "$folder/log" 2>&1 || { cat "$folder/log" >&2 && exit 1; }
}

lscpu | sed -n 's/^Model name: *//p'
for isa in $isas; do
  for list in "${ratios%%,*}" "$ratios"; do
    rm -rf "$folder/out"
    timed "$isa  ratios $list" "$comera" tensorize "$folder/stacked" -o "$folder/out" --ratio "$list" \
      --calibrate "$folder/text.txt" --calibrate-tokens "$tokens" --isa "$isa" --threads "$threads"
  done
done
