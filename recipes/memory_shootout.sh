#!/usr/bin/env bash
# Trains llama-6m on English books with every method that saves memory of training: same tokens, same schedule. Each
# learning rate of a method's grid is tried for SHORT steps of 8 x 128 tokens; the best one, by the loss on the dev set,
# is trained for LONG steps. Prints a table: loss and perplexity on the dev set, planned memory by kind, time, file.
#
#   COMERA_DATA=... recipes/memory_shootout.sh [FOLDER]      default: runs/memory_shootout
#
# COMERA_DATA names a folder with text/gutenberg16.txt.zst. METHODS (see options_of), SHORT (200), LONG (2000; 0: only
# the short runs), SEEDS (7, of the long runs), TABLE_RATE (3e-2), COMERA, ISA and THREADS change the job. Finished runs
# are kept and begun ones resume. Times are those of the runs, so a busy machine shows in them.
set -euo pipefail
cd "$(dirname "$0")/.."

comera=${COMERA:-build/comera}
folder=${1:-runs/memory_shootout}
short=${SHORT:-200}
long=${LONG:-2000}
all='adamw adamw8bit galore galore8bit apollo-mini adalomo compact-2 compact-4 compact-8 velora velora-vd
  int8 lowrank lowrank-silu lowrank-refactor tt tt-int8 tt-int4 tt-compact tt-refactor'
methods=${METHODS:-$all}
text=$folder/text

options_of() { # METHOD
  case $1 in
    adamw) echo --form dense ;;
    adamw8bit | apollo-mini) echo --form dense --optimizer "$1" ;;
    galore | galore8bit) echo --form dense --optimizer "$1" --galore-rank 64 ;; # a quarter of the width
    adalomo) echo --form dense --optimizer adalomo ;;
    compact-2) echo --form dense --activations compact --compact-ratio 0.5 ;;
    compact-4) echo --form dense --activations compact --compact-ratio 0.25 ;;
    compact-8) echo --form dense --activations compact --compact-ratio 0.125 ;;
    velora) echo --form dense --activations velora ;;
    velora-vd) echo --form dense --activations '*v_proj=velora,*down_proj=velora' ;; # the layers of the paper
    int8) echo --form dense --activations int8 ;;
    lowrank) echo --form lowrank --rank 64 ;;
    lowrank-silu) echo --form lowrank --rank 64 --between silu ;;
    lowrank-refactor) echo --form lowrank --rank 64 --no-adapt-ranks --refactor-every 200 ;;
    tt-refactor) echo --form tt --rank 32 --no-adapt-ranks --refactor-every 200 ;;
    tt) echo --form tt --rank 32 ;;
    tt-*) echo --form tt --rank 32 --activations "${1#tt-}" ;;
    *)
      echo "memory_shootout.sh: no method '$1'; METHODS are $all" >&2
      exit 2
      ;;
  esac
}

# Rates of the weights of blocks. Projected gradients take larger ones: their updates are scaled by 1/4. Those of
# AdaLomo are relative to a weight's size. The table of words has AdamW at one rate in all methods (TABLE_RATE), the best
# of 3e-3, 1e-2, 3e-2 and 1e-1 for dense AdamW. If it had the rate of the blocks, that rate would decide the order of
# the methods.
rates_of() { # METHOD
  case $1 in
    adalomo) echo 1e-2 3e-2 1e-1 ;;
    galore* | compact-* | tt* | lowrank*) echo 1e-3 3e-3 1e-2 ;;
    *) echo 3e-4 1e-3 3e-3 ;;
  esac
}

# A run that diverges (exit code 1) is marked and not tried again.
train() { # FOLDER METHOD RATE SEED STEPS
  [ -f "$1/report.json" ] || [ -f "$1/diverged" ] && return
  # shellcheck disable=SC2046  # a list of words
  "$comera" pretrain --model llama-6m --task clm $(options_of "$2") --data "$text/train.txt" --dev "$text/dev.txt" \
    --tokenizer "$text/tokenizer" --batch 8 --seq 128 --steps "$5" --warmup $(($5 / 10)) --schedule cosine \
    --lr-final 0.1 --lr "$3" --lr-cores "$3" --lr-tables "${TABLE_RATE:-3e-2}" --seed "$4" \
    --isa "${ISA:-auto}" --threads "${THREADS:-$(nproc)}" --save-every 500 --quiet -o "$1" --resume >&2 && return
  [ $? = 1 ] && touch "$1/diverged"
}

for method in $methods; do
  options_of "$method" > /dev/null
done
COMERA=$comera recipes/books.sh "$text" 4000
for method in $methods; do
  for rate in $(rates_of "$method"); do
    train "$folder/short/$method/$rate" "$method" "$rate" 7 "$short"
  done
  [ "$long" = 0 ] && continue
  rate=$(python3 recipes/memory_shootout_table.py --best "$folder/short/$method")
  for seed in ${SEEDS:-7}; do
    train "$folder/long/$method/$seed" "$method" "$rate" "$seed" "$long"
  done
done
lscpu | sed -n 's/^Model name: *//p'
python3 recipes/memory_shootout_table.py "$folder"
