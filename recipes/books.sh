#!/usr/bin/env bash
# Prepares English books for a decoder: FOLDER/train.txt, FOLDER/dev.txt (one line in a hundred, in blocks of a hundred
# lines) and FOLDER/tokenizer (4,096 BPE pieces). An existing tokenizer is kept with its texts.
#
#   COMERA_DATA=... recipes/books.sh FOLDER [MOST]      MOST: lines of dev.txt; default: all
#
# COMERA_DATA names a folder with text/gutenberg16.txt.zst; COMERA names the program.
set -euo pipefail
folder=${1:?usage: recipes/books.sh FOLDER [MOST]}
[ -f "$folder/tokenizer/tokenizer.model" ] && exit
mkdir -p "$folder"
zstd -dc "${COMERA_DATA:?a folder with text/gutenberg16.txt.zst}/text/gutenberg16.txt.zst" |
  awk -v train="$folder/train.txt" -v dev="$folder/dev.txt" -v most="${2:-0}" \
    'int(NR / 100) % 100 == 7 { if (!most || kept++ < most) print > dev; next } { print > train }'
"${COMERA:-$(dirname "$0")/../build/comera}" tokenizer train --data "$folder/train.txt" \
  --kind sentencepiece-bpe --vocab-size 4096 -o "$folder/tokenizer"
