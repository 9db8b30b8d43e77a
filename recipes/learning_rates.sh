#!/usr/bin/env bash
# Compares learning rates, the source of pretrain's defaults: encoder-small learns the glosses of WordNet, llama-6m a
# text, each dense and in TT form, once with the defaults and once for each rate of a grid. Ends with a table of
# accuracy or loss per group.
#
#   recipes/learning_rates.sh [--smoke] [FOLDER]      default: runs/learning_rates, or runs/learning_rates-smoke
#
# COMERA names the program. GROUPS_TO_RUN selects from "glosses-dense glosses-tt text-dense text-tt" (default: all),
# DENSE and TT are the rates of the grid, STEPS (1000) and TEXT_STEPS (400) the length of a run, THREADS its threads,
# SEED (7) its seed. The definitions are Debian's package wordnet-base; the decoder needs COMERA_DATA with
# text/gutenberg16.txt.zst. By the time of its steps it takes about half an hour on two cores; --smoke takes seconds,
# with smaller models and one rate. FOLDER receives data, runs, and results.md and results.json. A second call keeps
# what is finished and goes on with the rest.
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck source=shared/recipe.sh
. recipes/shared/recipe.sh
SEED=${SEED:-7}
start 1 "$@"
groups=${GROUPS_TO_RUN:-glosses-dense glosses-tt text-dense text-tt}
dense=${DENSE:-2e-4 5e-4 1e-3 2e-3}
tt=${TT:-5e-4 1e-3 2e-3 4e-3}
steps=${STEPS:-1000} text_steps=${TEXT_STEPS:-400}
common=(--threads "$threads" --seed "$seed" --log-every 50 --save-every 1000000)
encoder=(--model encoder-small --seq 64 --positions 64) decoder=(--model llama-6m --seq 128 --batch 8)
books=("$folder/text") pieces=() ranks=()
if "$smoke"; then
  steps=${STEPS:-2} text_steps=${TEXT_STEPS:-2} dense=${DENSE:-5e-4} tt=${TT:-1e-3}
  small=(--layers 1 --hidden 64 --heads 2 --intermediate 128 --batch 2)
  encoder=(--model encoder-small --seq 16 --positions 16 "${small[@]}")
  decoder=(--model llama-6m --seq 32 "${small[@]}") ranks=(--rank 8)
  books=(--smoke "$folder/text" 40) pieces=(--vocab-size 1000)
fi
settings=(threads="$threads" steps="$steps" text_steps="$text_steps")
[[ $groups != *glosses* ]] || need_nouns
[[ $groups != *text* ]] || need_data text/gutenberg16.txt.zst
require_program

prepare_glosses() { learn_glosses "$folder/glosses" "${pieces[@]}"; }
prepare_text() { COMERA=$comera recipes/books.sh "${books[@]}"; }

glosses() { # FORM NAME options...
  local form=$1 name=$2
  shift 2
  finished "$folder/glosses-$form/$name" ||
    "$comera" pretrain "${encoder[@]}" --form "$form" --task classify --data "$folder/glosses/train.tsv" \
      --dev "$folder/glosses/dev.tsv" --tokenizer "$folder/glosses/tokenizer" \
      --steps "$steps" "${common[@]}" "$@" -o "$folder/glosses-$form/$name" --resume
}

text() { # FORM NAME options...
  local form=$1 name=$2
  shift 2
  finished "$folder/text-$form/$name" ||
    "$comera" pretrain "${decoder[@]}" --form "$form" --task clm --data "$folder/text/train.txt" \
      --dev "$folder/text/dev.txt" --tokenizer "$folder/text/tokenizer" \
      --steps "$text_steps" "${common[@]}" "$@" -o "$folder/text-$form/$name" --resume
}

for group in $groups; do
  job=${group%-*} form=${group#*-}
  "prepare_$job"
  mkdir -p "$folder/$group"
  settings_of_form=()
  [ "$form" = dense ] || settings_of_form=("${ranks[@]}")
  "$job" "$form" default "${settings_of_form[@]}"
  for rate in $([ "$form" = dense ] && echo "$dense" || echo "$tt"); do
    rates=("${settings_of_form[@]}" --lr "$rate")
    [ "$form" = dense ] || rates+=(--lr-cores "$rate")
    "$job" "$form" "$rate" "${rates[@]}"
  done
done

tables() {
  local group
  for group in $groups; do
    echo
    echo "== $group"
    echo
    "$comera" inspect --runs "$folder/$group"/*/ --format md
  done
}
publish "$seed" tables
