#!/usr/bin/env bash
# Compares two kinds of weight decay of models in TT form: of the cores (--weight-decay) and of the weights' norm
# (--weight-norm-decay). encoder-small learns the glosses of WordNet, llama-6m a text, once per seed, length and decay.
# Ends with a table of losses per job.
#
#   recipes/weight_decay.sh [--smoke] [FOLDER]      default: runs/weight_decay, or runs/weight_decay-smoke
#
# COMERA names the program. JOBS ("glosses text") selects, SEEDS ("7 8 9") are the seeds of glosses; text has the first
# alone. STEPS ("160 500 1500") are the lengths of a run of glosses, the second of them has all seeds and the others the
# first; TEXT_STEPS (400) is that of text. DECAYS ("cores:0.01 cores:0.1 cores:0.3 norm:0.3 norm:1 norm:2 norm:3")
# are what is compared. One run per core of the machine at a time (WORKERS), one thread each. glosses needs Debian's
# package wordnet-base, text COMERA_DATA with text/gutenberg16.txt.zst. About a quarter of an hour for each job on two
# cores; --smoke takes seconds. FOLDER receives data, the reports of the runs, and results.md and results.json. A second
# call keeps what is finished and goes on with the rest.
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck source=shared/recipe.sh
. recipes/shared/recipe.sh
read -ra seeds <<< "${SEEDS:-7 8 9}"
SEED=${seeds[0]}
start 1 "$@"
jobs=${JOBS:-glosses text} text_steps=${TEXT_STEPS:-400}
read -ra lengths <<< "${STEPS:-160 500 1500}"
decays=${DECAYS:-cores:0.01 cores:0.1 cores:0.3 norm:0.3 norm:1 norm:2 norm:3}
encoder=(--model encoder-small --seq 64 --positions 64 --rank 16)
decoder=(--model llama-6m --seq 128 --batch 8 --rank 32)
books=("$folder/text") pieces=()
if "$smoke"; then
  seeds=("${seeds[0]}") lengths=(2 3) text_steps=2 decays=${DECAYS:-cores:0.01 norm:1}
  encoder=(--model encoder-small --layers 1 --hidden 32 --intermediate 64 --heads 2 --seq 16 --positions 16 --batch 2
    --rank 4)
  decoder=(--model llama-6m --layers 1 --hidden 32 --intermediate 64 --heads 2 --seq 32 --batch 2 --rank 4)
  books=(--smoke "$folder/text" 40) pieces=(--vocab-size 1000)
fi
settings=(text_steps="$text_steps" workers="$workers")
for decay in $decays; do
  [[ $decay =~ ^(cores|norm):[0-9.]+$ ]] || missing "no decay '$decay'"
done
[[ $jobs != *glosses* ]] || need_nouns
[[ $jobs != *text* ]] || need_data text/gutenberg16.txt.zst
require_program

run() { # JOB LENGTH SEED DECAY: the report into JOB-LENGTH-SEED-DECAY.json
  local name=$1-$2-$3-${4/:/-} options=(--weight-decay 0 --weight-norm-decay "${4#*:}") data=$folder/$1 suffix=tsv
  [[ $4 == norm:* ]] || options=(--weight-decay "${4#*:}" --weight-norm-decay 0)
  if [ "$1" = glosses ]; then options+=("${encoder[@]}" --task classify); else
    options+=("${decoder[@]}" --task clm) suffix=txt
  fi
  kept_report "$name" "${options[@]}" --form tt --steps "$2" --seed "$3" --data "$data/train.$suffix" \
    --dev "$data/dev.$suffix" --tokenizer "$data/tokenizer" --lr 1e-3 --lr-cores 2e-3
}

# The lines LENGTH SEED of a job.
settings_of() {
  [ "$1" = glosses ] || { echo "$text_steps ${seeds[0]}" && return; }
  local length seed
  for length in "${lengths[@]}"; do
    for seed in "${seeds[@]}"; do
      [ "$seed" != "${seeds[0]}" ] && [ "$length" != "${lengths[1]:-${lengths[0]}}" ] || echo "$length $seed"
    done
  done
}

for job in $jobs; do
  if [ "$job" = glosses ]; then learn_glosses "$folder/glosses" "${pieces[@]}"; else
    COMERA=$comera recipes/books.sh "${books[@]}"
  fi
  echo "== $job: a run per length, seed and decay; $folder/$job-*.log show their progress"
  while read -r length seed; do
    for decay in $decays; do
      begin run "$job" "$length" "$seed" "$decay"
    done
  done < <(settings_of "$job")
  end_all
done
publish "${seeds[*]}" recipes/weight_decay_table.py "$folder" "$jobs" "$decays"
