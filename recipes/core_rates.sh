#!/usr/bin/env bash
# Compares --core-rates uniform and structured: does the rate of cores that is best for one width, rank and order serve
# half and double width, half and double rank, orders 2 and 4, and low-rank pairs? encoder-small learns the glosses of
# WordNet, llama-6m a text, once per layout, rate of the cores, and kind of rates. Ends with a table per job and kind:
# the quality of every run, and what the rate of the base costs each layout against its own best rate.
#
#   recipes/core_rates.sh [--smoke] [FOLDER]      default: runs/core_rates, or runs/core_rates-smoke
#
# COMERA names the program. JOBS ("glosses text"), LAYOUTS ("base half-width double-width half-rank double-rank order-2
# order-4 low-rank"; base is always run) and KINDS ("uniform structured") select, RATES (5e-4 1e-3 2e-3 4e-3) are the
# rates of the cores, STEPS (500) and TEXT_STEPS (400) the length of a run, SEED (7) its seed. One run per core of the
# machine at a time (WORKERS), one thread each. glosses needs Debian's package wordnet-base, text COMERA_DATA with
# text/gutenberg16.txt.zst. By the time of its steps it takes about half an hour for the glosses and an hour and a half
# for the text on two cores; --smoke takes seconds, with small models, two layouts and one rate. FOLDER receives data,
# the reports of the runs, and results.md and results.json. A second call keeps what is finished and goes on with the
# rest.
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck source=shared/recipe.sh
. recipes/shared/recipe.sh
SEED=${SEED:-7}
start 1 "$@"
jobs=${JOBS:-glosses text} kinds=${KINDS:-uniform structured} rates=${RATES:-5e-4 1e-3 2e-3 4e-3}
layouts=${LAYOUTS:-base half-width double-width half-rank double-rank order-2 order-4 low-rank}
steps=${STEPS:-500} text_steps=${TEXT_STEPS:-400}
width=256 heads=4 rank=16 text_rank=32 feed=1024 text_feed=688
encoder=(--model encoder-small --seq 64 --positions 64) decoder=(--model llama-6m --seq 128 --batch 8)
books=("$folder/text") pieces=()
if "$smoke"; then
  layouts=${LAYOUTS:-base order-2} rates=${RATES:-1e-3} steps=${STEPS:-2} text_steps=${TEXT_STEPS:-2}
  width=32 heads=2 rank=4 text_rank=4 feed=64 text_feed=64
  encoder=(--model encoder-small --layers 1 --seq 16 --positions 16 --batch 2)
  decoder=(--model llama-6m --layers 1 --seq 32 --batch 2)
  books=(--smoke "$folder/text" 40) pieces=(--vocab-size 1000)
fi
[[ " $layouts " == *" base "* ]] || layouts="base $layouts"
settings=(steps="$steps" text_steps="$text_steps" workers="$workers")

shape_of() { # LAYOUT HEADS FEED RANK: the options of the model
  local width=$width heads=$2 feed=$3 rank=$4 form=(--form tt --order 3)
  case $1 in
    base) ;;
    half-width) width=$((width / 2)) feed=$((feed / 2)) ;;
    double-width) width=$((width * 2)) feed=$((feed * 2)) heads=$((heads * 2)) ;;
    half-rank) rank=$((rank / 2)) ;;
    double-rank) rank=$((rank * 2)) ;;
    order-[2-4]) form=(--form tt --order "${1#order-}") ;;
    low-rank) form=(--form lowrank) ;;
    *) echo "$recipe: no layout '$1'; see recipes/$recipe --help" >&2 && exit 2 ;;
  esac
  echo "${form[@]}" --hidden "$width" --intermediate "$feed" --heads "$heads" --rank "$rank"
}

for layout in $layouts; do shape_of "$layout" $heads $feed $rank > /dev/null; done
[[ $jobs != *glosses* ]] || need_nouns
[[ $jobs != *text* ]] || need_data text/gutenberg16.txt.zst
require_program

prepare_glosses() { learn_glosses "$folder/glosses" "${pieces[@]}"; }
prepare_text() { COMERA=$comera recipes/books.sh "${books[@]}"; }

run() { # JOB LAYOUT KIND RATE: the report into JOB-LAYOUT-KIND-RATE.json
  local name=$1-$2-$3-$4 options=()
  if [ "$1" = glosses ]; then
    read -ra options <<< "$(shape_of "$2" $heads $feed $rank)"
    options+=("${encoder[@]}" --task classify --steps "$steps")
  else
    read -ra options <<< "$(shape_of "$2" $heads $text_feed $text_rank)"
    options+=("${decoder[@]}" --task clm --steps "$text_steps")
  fi
  local data=$folder/$1 suffix=tsv
  [ "$1" = glosses ] || suffix=txt
  kept_report "$name" "${options[@]}" --data "$data/train.$suffix" --dev "$data/dev.$suffix" \
    --tokenizer "$data/tokenizer" --seed "$seed" --lr 1e-3 --lr-cores "$4" --core-rates "$3"
}

for job in $jobs; do
  "prepare_$job"
  echo "== $job: a run per layout, kind and rate; $folder/$job-*.log show their progress"
  for layout in $layouts; do
    for kind in $kinds; do
      for rate in $rates; do
        begin run "$job" "$layout" "$kind" "$rate"
      done
    done
  done
  end_all
done
publish "$seed" recipes/core_rates_table.py "$folder" "$jobs" "$layouts" "$kinds" "$rates"
