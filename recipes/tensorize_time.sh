#!/usr/bin/env bash
# Times calibrated tensorize on a model of gte-small's shape (33M parameters: twelve layers, 384 wide), for one ratio
# and for several, under every instruction set of the machine. The model is all-MiniLM-L6-v2 with its six layers
# stacked twice: the same shapes and real spectra.
#
#   COMERA_DATA=... recipes/tensorize_time.sh [--smoke] [FOLDER]          default: runs/tensorize_time[-smoke]
#
# COMERA_DATA names a folder with checkpoints/all-MiniLM-L6-v2, text/c4_sample.txt.zst and text/wordnet_glosses.txt.zst.
# TOKENS (53248) of calibration, RATIOS (2.5,5), ISAS (those of the machine), THREADS and COMERA, the program, change
# the job. Each row has wall and processor seconds. It takes about six minutes on two cores for each instruction set;
# --smoke cuts one layer, by 512 tokens, under one. FOLDER receives the model, and results.md and results.json. A second call
# keeps measured rows.
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck source=shared/recipe.sh
. recipes/shared/recipe.sh
start 1 "$@"
need_data checkpoints/all-MiniLM-L6-v2/model.safetensors text/c4_sample.txt.zst text/wordnet_glosses.txt.zst
require_program
tokens=${TOKENS:-53248}
ratios=${RATIOS:-2.5,5}
isas=${ISAS:-$("$comera" --version | sed -n 's/^ *instruction sets *//p')}
minilm=$COMERA_DATA/checkpoints/all-MiniLM-L6-v2
only=()
! "$smoke" || { tokens=${TOKENS:-512} ratios=${RATIOS:-1.01,1.02} isas=${ISAS:-v3} && only=(--include '*layer.0.*'); }
settings=(tokens="$tokens" threads="$threads")

mkdir -p "$folder"
[ -d "$folder/stacked" ] || python3 recipes/stack_layers.py "$minilm" "$folder/stacked" --times 2
[ -f "$folder/text.txt" ] ||
  zstd -dc "$COMERA_DATA"/text/{c4_sample,wordnet_glosses}.txt.zst | keep "$folder/text.txt"

timed() { # FILE START-OF-ROW command...
  local file=$1 row=$2
  shift 2
  local TIMEFORMAT="$row | %R | %U |"
  { time "$@" > "$folder/log" 2>&1; } 2> "$file.partial" || { cat "$folder/log" >&2 && exit 1; }
  mv "$file.partial" "$file"
}

for isa in $isas; do
  for list in "${ratios%%,*}" "$ratios"; do
    [ ! -s "$folder/$isa-$list.row" ] || continue
    echo "== $isa, ratios $list"
    rm -rf "$folder/out"
    timed "$folder/$isa-$list.row" "| $isa | $list" "$comera" tensorize "$folder/stacked" -o "$folder/out" \
      --ratio "$list" "${only[@]}" --calibrate "$folder/text.txt" --calibrate-tokens "$tokens" \
      --isa "$isa" --threads "$threads"
  done
done

table() {
  echo '| instruction set | ratios | wall seconds | processor seconds |'
  echo '|---|---:|---:|---:|'
  for isa in $isas; do
    for list in "${ratios%%,*}" "$ratios"; do cat "$folder/$isa-$list.row"; done
  done
}
publish "$seed" table
