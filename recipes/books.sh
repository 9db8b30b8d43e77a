#!/usr/bin/env bash
# Prepares English books for a decoder: FOLDER/train.txt, FOLDER/dev.txt (one line in a hundred, in blocks of a hundred
# lines) and FOLDER/tokenizer (4,096 BPE pieces). An existing tokenizer is kept with its texts.
#
#   COMERA_DATA=... recipes/books.sh [--smoke] FOLDER [MOST]      MOST: lines of dev.txt; default: all
#
# COMERA_DATA names a folder with text/gutenberg16.txt.zst; COMERA names the program. --smoke takes the first 3,000
# lines and learns 300 pieces. This is data for other recipes, so there is no table.
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck source=shared/recipe.sh
. recipes/shared/recipe.sh
start 2 "$@"
[ ! -f "$folder/tokenizer/tokenizer.model" ] || exit 0
need_data text/gutenberg16.txt.zst
lines=0 pieces=4096
! "$smoke" || lines=3000 pieces=300

mkdir -p "$folder"
# awk reads all lines, so that zstd is not cut off.
zstd -dc "$COMERA_DATA/text/gutenberg16.txt.zst" |
  awk -v train="$folder/train.txt" -v dev="$folder/dev.txt" -v most="${rest[0]:-0}" -v lines="$lines" '
    lines && NR > lines { next }
    int(NR / 100) % 100 == 7 { if (!most || kept++ < most) print > dev; next }
    { print > train }'
"$comera" tokenizer train --data "$folder/train.txt" --kind sentencepiece-bpe --vocab-size "$pieces" --force \
  -o "$folder/tokenizer"
