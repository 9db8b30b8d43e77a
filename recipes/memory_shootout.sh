#!/usr/bin/env bash
# Trains llama-6m on English books with every method that saves memory of training: same tokens, same schedule. Each
# learning rate of a method's grid is tried for SHORT steps of 8 x 128 tokens, and the next ones if the best lies at the
# border; the best one, by the loss on the dev set, is trained for LONG steps, and the four best methods with two more
# seeds. Ends with tables: loss and perplexity on the dev set, planned memory by kind, time, file.
#
#   COMERA_DATA=... recipes/memory_shootout.sh [--smoke] [--steps N] [--seeds A,B,...] [FOLDER]
#                                                                    default: runs/memory_shootout[-smoke]
#
# COMERA_DATA names a folder with text/gutenberg16.txt.zst. --steps, or LONG (2000; 0: only the short runs), is the
# length of the long runs, and --seeds, or SEEDS (7), are their seeds. METHODS (see options_of), SHORT (200), MORE_SEEDS ("8 9", of the four best), TABLE_RATE (3e-2), COMERA, ISA and
# THREADS change the job. By the time of its steps it takes about an hour on two cores with LONG=0, two and a half more
# for the long runs and one for more seeds; --smoke takes seconds, with a smaller model, few methods and one rate. FOLDER
# receives texts, runs, compared.html with charts, results.md and results.json. Finished runs are kept and begun ones
# resume. Times are those of the runs, so a busy machine shows in them.
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck source=shared/recipe.sh
. recipes/shared/recipe.sh
words=()
while [ $# -gt 0 ]; do
  case $1 in
    --steps)
      [[ "${2:-}" =~ ^[0-9]+$ ]] || missing "--steps needs the steps of the long runs, such as 2000; '${2:-}' came"
      LONG=$2 && shift
      ;;
    --seeds)
      [[ "${2:-}" =~ ^[0-9]+(,[0-9]+)*$ ]] || missing "--seeds needs numbers, such as 7,8,9; '${2:-}' came"
      SEEDS=${2//,/ } && shift
      ;;
    *) words+=("$1") ;;
  esac
  shift
done
start 1 "${words[@]}"
short=${SHORT:-200}
long=${LONG:-2000}
seeds=${SEEDS:-7} more_seeds=${MORE_SEEDS-8 9} best_methods=4
all='adamw adamw8bit galore galore8bit apollo-mini adalomo compact-2 compact-4 compact-8 velora velora-vd
  int8 lowrank lowrank-silu lowrank-refactor tt tt-ttm tt-int8 tt-int4 tt-int4-stochastic tt-compact tt-refactor'
methods=${METHODS:-$all}
text=$folder/text
model=(--model llama-6m --batch 8 --seq 128) rank=32
if "$smoke"; then
  short=${SHORT:-2} long=${LONG:-3} methods=${METHODS:-adamw galore int8 lowrank tt-int8}
  more_seeds=${MORE_SEEDS-8} best_methods=1
  model=(--model llama-6m --layers 1 --hidden 64 --heads 2 --intermediate 128 --batch 2 --seq 32) rank=8
fi
settings=(short="$short" long="$long" more_seeds="$more_seeds" isa="${ISA:-auto}" threads="$threads")

table_rate=${TABLE_RATE:-3e-2}
chains=(--form tt --rank "$rank" --lr-table-cores "$table_rate")
pairs=(--form lowrank --rank "$((2 * rank))" --lr-table-cores "$table_rate")
options_of() { # METHOD
  case $1 in
    adamw) echo --form dense ;;
    adamw8bit | apollo-mini) echo --form dense --optimizer "$1" ;;
    galore | galore8bit) echo --form dense --optimizer "$1" --galore-rank "$((2 * rank))" ;; # a quarter of the width
    adalomo) echo --form dense --optimizer adalomo ;;
    compact-2) echo --form dense --activations compact --compact-ratio 0.5 ;;
    compact-4) echo --form dense --activations compact --compact-ratio 0.25 ;;
    compact-8) echo --form dense --activations compact --compact-ratio 0.125 ;;
    velora) echo --form dense --activations velora ;;
    velora-vd) echo --form dense --activations '*v_proj=velora,*down_proj=velora' ;; # the layers of the paper
    int8) echo --form dense --activations int8 ;;
    lowrank) echo "${pairs[@]}" ;;
    lowrank-silu) echo "${pairs[@]}" --between silu ;;
    lowrank-refactor) echo "${pairs[@]}" --no-adapt-ranks --refactor-every 200 ;;
    tt-refactor) echo "${chains[@]}" --no-adapt-ranks --refactor-every 200 ;;
    tt) echo "${chains[@]}" ;;
    tt-ttm) echo "${chains[@]}" --embedding-form tt ;;
    tt-*) echo "${chains[@]}" --activations "${1#tt-}" ;;
    *)
      echo "memory_shootout.sh: no method '$1'; METHODS are $all" >&2
      exit 2
      ;;
  esac
}

# Rates of the weights of blocks to begin with. Projected gradients take larger ones: their updates are scaled by 1/4.
# Those of AdaLomo are relative to a weight's size. The table of words has AdamW at one rate in all methods (TABLE_RATE),
# the best of 3e-3, 1e-2, 3e-2 and 1e-1 for dense AdamW. If it had the rate of the blocks, that rate would decide the
# order of the methods.
rates_of() { # METHOD
  ! "$smoke" || { echo 1e-3 && return; }
  case $1 in
    adalomo) echo 3e-3 1e-2 3e-2 ;;
    galore* | compact-*) echo 3e-3 1e-2 3e-2 ;;
    tt* | lowrank* | apollo-mini) echo 1e-3 3e-3 1e-2 ;;
    *) echo 1e-4 3e-4 1e-3 ;;
  esac
}

# A run that diverges (exit code 1) is marked and not tried again.
train() { # FOLDER METHOD RATE SEED STEPS
  finished "$1" || [ -f "$1/diverged" ] && return
  # shellcheck disable=SC2046  # a list of words
  "$comera" pretrain "${model[@]}" --task clm $(options_of "$2") --data "$text/train.txt" --dev "$text/dev.txt" \
    --tokenizer "$text/tokenizer" --steps "$5" --warmup $(($5 / 10)) --schedule cosine \
    --lr-final 0.1 --lr "$3" --lr-cores "$3" --lr-tables "$table_rate" --seed "$4" \
    --isa "${ISA:-auto}" --threads "$threads" --save-every 500 --quiet -o "$1" --resume >&2 && return
  [ $? = 1 ] && touch "$1/diverged"
}

train_short() { # METHOD
  local rate
  for rate in $(rates_of "$1"); do train "$folder/short/$1/$rate" "$1" "$rate" 7 "$short"; done
  if "$smoke"; then return; fi
  while :; do
    rate=$(python3 recipes/memory_shootout_table.py --next "$folder/short/$1")
    [ -n "$rate" ] || return 0
    train "$folder/short/$1/$rate" "$1" "$rate" 7 "$short"
  done
}
train_long() { # METHOD SEED
  local rate
  rate=$(python3 recipes/memory_shootout_table.py --best "$folder/short/$1")
  train "$folder/long/$1/$2" "$1" "$rate" "$2" "$long"
}

for method in $methods; do
  options_of "$method" > /dev/null
done
need_data text/gutenberg16.txt.zst
require_program
books=("$text" 4000)
! "$smoke" || books=(--smoke "$text" 40)
COMERA=$comera recipes/books.sh "${books[@]}"
for method in $methods; do train_short "$method"; done
if [ "$long" != 0 ]; then
  for method in $methods; do
    for seed in $seeds; do train_long "$method" "$seed"; done
  done
  best=$(python3 recipes/memory_shootout_table.py --best-methods "$best_methods" "$folder/long" "${seeds%% *}")
  for method in $best; do
    for seed in $more_seeds; do train_long "$method" "$seed"; done
  done
fi
page_of_runs "$folder/compared.html" "$folder/$([ "$long" = 0 ] && echo short || echo long)"/*/*
publish "$([ "$long" = 0 ] && echo 7 || echo "$seeds" "$more_seeds")" python3 recipes/memory_shootout_table.py "$folder"
