#!/usr/bin/env bash
# Compares learning rates, the source of pretrain's defaults: encoder-small learns the glosses of WordNet, llama-6m a
# text, each dense and in TT form, once with the defaults and once for each rate of a grid. Prints a table of accuracy
# or loss per group.
#
#   recipes/learning_rates.sh [FOLDER]      default: runs/learning_rates
#
# COMERA names the program. GROUPS_TO_RUN selects from "glosses-dense glosses-tt text-dense text-tt" (default: all),
# DENSE and TT are the rates of the grid, STEPS (1000) and TEXT_STEPS (400) the length of a run, THREADS its threads.
# The decoder needs COMERA_DATA with text/gutenberg16.txt.zst.
set -euo pipefail
cd "$(dirname "$0")/.."

comera=${COMERA:-build/comera}
folder=${1:-runs/learning_rates}
groups=${GROUPS_TO_RUN:-glosses-dense glosses-tt text-dense text-tt}
dense=${DENSE:-2e-4 5e-4 1e-3 2e-3}
tt=${TT:-5e-4 1e-3 2e-3 4e-3}
common=(--threads "${THREADS:-$(nproc)}" --seed "${SEED:-7}" --log-every 50 --save-every 1000000)
mkdir -p "$folder"

prepare_glosses() {
  [ -f "$folder/glosses/train.tsv" ] || recipes/wordnet.sh "$folder/glosses"
  [ -f "$folder/glosses/tokenizer/vocab.txt" ] ||
    "$comera" tokenizer train --data "$folder/glosses/train.tsv" -o "$folder/glosses/tokenizer"
}

prepare_text() { COMERA=$comera recipes/books.sh "$folder/text"; }

glosses() { # FORM NAME options...
  local form=$1 name=$2
  shift 2
  "$comera" pretrain --model encoder-small --form "$form" --task classify --data "$folder/glosses/train.tsv" \
    --dev "$folder/glosses/dev.tsv" --tokenizer "$folder/glosses/tokenizer" --seq 64 --positions 64 \
    --steps "${STEPS:-1000}" "${common[@]}" "$@" -o "$folder/glosses-$form/$name" --resume
}

text() { # FORM NAME options...
  local form=$1 name=$2
  shift 2
  "$comera" pretrain --model llama-6m --form "$form" --task clm --data "$folder/text/train.txt" \
    --dev "$folder/text/dev.txt" --tokenizer "$folder/text/tokenizer" --seq 128 --batch 8 \
    --steps "${TEXT_STEPS:-400}" "${common[@]}" "$@" -o "$folder/text-$form/$name" --resume
}

for group in $groups; do
  job=${group%-*} form=${group#*-}
  "prepare_$job"
  mkdir -p "$folder/$group"
  "$job" "$form" default
  for rate in $([ "$form" = dense ] && echo "$dense" || echo "$tt"); do
    rates=(--lr "$rate")
    [ "$form" = dense ] || rates+=(--lr-cores "$rate")
    "$job" "$form" "$rate" "${rates[@]}"
  done
  echo
  echo "== $group"
  "$comera" inspect --runs "$folder/$group"/*/
done
