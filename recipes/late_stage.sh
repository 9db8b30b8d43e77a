#!/usr/bin/env bash
# Is adapting ranks worth anything? The quickstart's TT model learns definitions, and its ranks are cut to a share of
# their size in four ways, with as many steps in all: by scheduled cuts (the default), by CoMERA's objective, by one cut
# in the last step, and with a small rank from the start. The first three continue one early stage. Ends with a table:
# accuracy on dev by way and share, and how many rank entries fell or were cut.
#
#   recipes/late_stage.sh [--smoke] [FOLDER]      default: runs/late_stage, or runs/late_stage-smoke
#
# COMERA names the program. TARGETS ("0.8 0.5 0.2") are the shares, SEEDS ("7 8 9") the seeds, WAYS ("cuts objective
# one-cut small") the ways, STEPS (1000) the steps of the early stage, a third more those of all, ISA (auto) the
# instruction set. One run per core of the machine at a time (WORKERS), one thread each. The text is Debian's package
# wordnet-base. It takes about 40 minutes on two cores; --smoke takes seconds, with a small model, one share and one
# seed. FOLDER receives data, the reports of the runs, and results.md and results.json. A second call keeps what is
# finished and goes on with the rest.
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck source=shared/recipe.sh
. recipes/shared/recipe.sh
read -ra seeds <<< "${SEEDS:-7 8 9}"
SEED=${seeds[0]}
start 1 "$@"
ways=${WAYS:-cuts objective one-cut small} targets=${TARGETS:-0.8 0.5 0.2}
steps=${STEPS:-1000} pieces=() ranks_of_whole=(24 16)
model=(--model encoder-small --seq 64 --positions 64 --batch 64)
if "$smoke"; then
  seeds=("${seeds[0]}") targets=${TARGETS:-0.5} steps=${STEPS:-6} pieces=(--vocab-size 1000) ranks_of_whole=(8 8)
  model=(--model encoder-small --seq 16 --positions 16 --batch 4 --layers 1 --hidden 64 --heads 2 --intermediate 128)
fi
total=$((steps + steps / 3))
settings=(steps="$total" workers="$workers" isa="${ISA:-auto}")
for way in $ways; do
  [[ $way =~ ^(cuts|objective|one-cut|small)$ ]] || missing "no way '$way'"
done
[[ " $ways " != *" small "* || " $ways " == *" cuts "* ]] || missing "WAYS: small has the size of cuts; name cuts too"
need_nouns
require_program
learn_glosses "$folder/glosses" --text text "${pieces[@]}"

options_of() { # SEED RANK TABLE_RANK
  echo "${model[@]}" --form tt --rank "$2" --embedding-form lowrank --embedding-rank "$3" --lr 2e-3 --lr-cores 2e-3 \
    --lr-ranks 2e-3 --activations cheap --task classify --data "$folder/glosses/train.tsv" \
    --dev "$folder/glosses/dev.tsv" --text text --label label --tokenizer "$folder/glosses/tokenizer" \
    --warmup $((steps / 10)) --schedule linear --weight-decay 0 --seed "$1" --steps "$total" --isa "${ISA:-auto}" \
    --threads 1 --log-every 50 --save-every "$steps" --eval-every "$total"
}

parameters() { # RANK TABLE_RANK
  # shellcheck disable=SC2046  # a list of words
  "$comera" pretrain $(options_of 1 "$1" "$2") --dry-run --json |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["totals"]["parameters"])'
}

# The largest ranks, in the proportion of the whole model's, whose model is not larger than PARAMETERS.
ranks_within() { # PARAMETERS
  local rank table
  for ((rank = ranks_of_whole[0]; rank > 1; rank--)); do
    table=$(((rank * ranks_of_whole[1] + ranks_of_whole[0] / 2) / ranks_of_whole[0]))
    [ "$(parameters "$rank" "$table")" -gt "$1" ] || break
  done
  echo "$rank $table"
}

# Leaves the removals of the run FOLDER/NAME too, as FOLDER/NAME.jsonl.
keep_run() { # NAME
  grep -E '"event": ?"(removal|target)' "$folder/$1/metrics.jsonl" > "$folder/$1.jsonl" || true
  keep_report "$1"
}

early() { # SEED
  finished "$folder/early-$1" && return
  # shellcheck disable=SC2046  # a list of words
  logged "early-$1" "$comera" pretrain $(options_of "$1" "${ranks_of_whole[@]}") -o "$folder/early-$1" --resume
}

# A copy of the early stage goes on.
late() { # WAY TARGET SEED
  local name=$1-$2-$3 options=(--late-after "$steps") checkpoint
  [ ! -s "$folder/$name.json" ] || return 0
  case $1 in
    objective) options+=(--scheduled-cuts 0) ;;
    one-cut) options=(--late-after $((total - 1))) ;;
  esac
  rm -rf "${folder:?}/$name"
  cp -r "$folder/early-$3" "$folder/$name"
  checkpoint=$(printf 'step-%08d' "$total")
  rm -rf "$folder/$name/checkpoints/$checkpoint" "$folder/$name"/{model.safetensors,report.json,report.html}
  logged "$name" "$comera" pretrain --resume "$folder/$name" --override --target-fraction "$2" "${options[@]}"
  keep_run "$name"
}

# As many parameters as the way `cuts` leaves at that share.
small() { # TARGET SEED
  local name=small-$1-$2 ranks
  [ ! -s "$folder/$name.json" ] || return 0
  read -ra ranks <<< "$(ranks_within "$(python3 recipes/late_stage_table.py parameters "$folder/cuts-$1-$2.json")")"
  rm -rf "${folder:?}/$name"
  # shellcheck disable=SC2046  # a list of words
  logged "$name" "$comera" pretrain $(options_of "$2" "${ranks[@]}") -o "$folder/$name"
  keep_run "$name"
}

echo "== an early stage per seed; $folder/*.log show the progress of runs"
for seed in "${seeds[@]}"; do begin early "$seed"; done
end_all
echo "== late stages towards $targets of the size"
for target in $targets; do
  for seed in "${seeds[@]}"; do
    for way in $ways; do [ "$way" = small ] || begin late "$way" "$target" "$seed"; done
  done
done
end_all
if [[ " $ways " == *" small "* ]]; then
  echo "== small ranks from the start"
  for target in $targets; do
    for seed in "${seeds[@]}"; do begin small "$target" "$seed"; done
  done
  end_all
fi
publish "${seeds[*]}" python3 recipes/late_stage_table.py table "$folder" "$ways" "$targets" "${seeds[*]}"
