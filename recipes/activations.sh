#!/usr/bin/env bash
# Compares the policies of --activations: time and peak memory of a step, and the loss after a short training. Ends with
# a table per model: llama-6m dense and in TT form on English books, mnli-6enc in TT form on MNLI. keep, cheap and block
# have the same gradients, so one of them is trained. A policy that a model has no values for is left out of its table:
# velora is for dense layers, act2bit for those with GELU.
#
#   COMERA_DATA=... recipes/activations.sh [--smoke] [FOLDER]      default: runs/activations, or runs/activations-smoke
#
# COMERA_DATA names a folder with text/gutenberg16.txt.zst and mnli/mnli_{train_subset,dev_matched}.tsv.zst. COMERA
# names the program, ISA its instruction set, THREADS its threads. JOBS (llama-dense llama-tt mnli; also mnli-dense), TIMED and TRAINED
# (lists of policies), STEPS (200), ROUNDS (3, of the times; they are interleaved) and SEEDS (7) change the job. By the
# time of its steps it takes about half an hour on two cores; --smoke takes seconds, with smaller models and few
# policies. FOLDER receives texts, runs, compared.html with charts, results.md and results.json. Existing runs are kept,
# so a stopped job resumes.
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck source=shared/recipe.sh
. recipes/shared/recipe.sh
start 1 "$@"
isa=${ISA:-v3}
jobs=${JOBS:-llama-dense llama-tt mnli}
seeds=${SEEDS:-7}
steps=${STEPS:-200}
rounds=${ROUNDS:-3}
timed=${TIMED:-keep cheap share block bf16 int8 int8-stochastic int4 int4-stochastic cheap,bf16 cheap,int8 share,int8
  share,int4 block,int8 compact velora act2bit}
trained=${TRAINED:-keep share bf16 int8 int8-stochastic int4 int4-stochastic compact velora act2bit}
books=("$folder/text" 4000) most_train=40000 most_dev=1000 few=() few_mnli=() repetitions=() files=()
rank=32 rank_mnli=30
if "$smoke"; then
  steps=${STEPS:-2} rounds=${ROUNDS:-1} timed=${TIMED:-keep block cheap,int8} trained=${TRAINED:-keep int8}
  books=(--smoke "$folder/text" 40) most_train=40 most_dev=40 repetitions=(--warmup 1 --repetitions 1)
  few=(--layers 1 --hidden 64 --heads 2 --intermediate 128 --batch 2 --seq 32) few_mnli=(--positions 32 --embedding-rank 4)
  rank=8 rank_mnli=8
fi
settings=(isa="$isa" threads="$threads" steps="$steps" rounds="$rounds")
for job in $jobs; do
  case $job in
    llama-dense | llama-tt) files+=(text/gutenberg16.txt.zst) ;;
    mnli | mnli-dense) files+=(mnli/mnli_train_subset.tsv.zst mnli/mnli_dev_matched.tsv.zst) ;;
    *) missing "there is no job '$job'" ;;
  esac
done
need_data "${files[@]}"
require_program
mkdir -p "$folder/mnli"

prepare_llama() { COMERA=$comera recipes/books.sh "${books[@]}"; }

prepare_mnli() {
  [ -f "$folder/mnli/tokenizer/vocab.txt" ] && return
  zstd -dc "$COMERA_DATA/mnli/mnli_train_subset.tsv.zst" | awk "NR <= $most_train + 1" > "$folder/mnli/train.tsv"
  zstd -dc "$COMERA_DATA/mnli/mnli_dev_matched.tsv.zst" | awk "NR <= $most_dev + 1" > "$folder/mnli/dev.tsv"
  "$comera" tokenizer train --data "$folder/mnli/train.tsv" --text premise,hypothesis -o "$folder/mnli/tokenizer"
}

# The model and the batch of a job.
shape() {
  case $1 in
    llama-dense) echo --model llama-6m --task clm --form dense --batch 8 --seq 128 "${few[@]}" ;;
    llama-tt) echo --model llama-6m --task clm --form tt --rank "$rank" --batch 8 --seq 128 "${few[@]}" ;;
    mnli)
      echo --model mnli-6enc --form tt --rank "$rank_mnli" --batch "${2:-32}" --seq 128 --dropout 0.1 "${few[@]}" \
        "${few_mnli[@]}"
      ;;
    mnli-dense) echo --model mnli-6enc --form dense --batch "${2:-32}" --seq 128 --dropout 0.1 "${few[@]}" ;;
  esac
}

data() {
  case $1 in
    llama-*) echo --data "$folder/text/train.txt" --dev "$folder/text/dev.txt" --tokenizer "$folder/text/tokenizer" ;;
    mnli*)
      echo --data "$folder/mnli/train.tsv" --dev "$folder/mnli/dev.tsv" --text premise,hypothesis --label label \
        --tokenizer "$folder/mnli/tokenizer"
      ;;
  esac
}

# The policies of a list that are possible for a job's model.
possible() { # JOB POLICY...
  local policy error
  for policy in "${@:2}"; do
    # shellcheck disable=SC2046
    if error=$("$comera" pretrain $(shape "$1" 8) --activations "$policy" --dry-run 2>&1 > /dev/null) ||
      [[ "$error" != *"--activations"* ]]; then
      echo "$policy"
    else
      echo "$1 without $policy: $error" >&2
    fi
  done
}

train() { # JOB POLICY SEED
  finished "$folder/$1/$2-$3" && return
  # shellcheck disable=SC2046  # lists of words
  "$comera" pretrain $(shape "$1" 8) $(data "$1") --activations "$2" --seed "$3" --steps "$steps" --isa "$isa" \
    --threads "$threads" --save-every 1000000 --quiet -o "$folder/$1/$2-$3" --resume
}

time_step() { # JOB POLICY
  # shellcheck disable=SC2046
  "$comera" bench $(shape "$1") --activations "$2" --isa "$isa" --threads "$threads" "${repetitions[@]}" --format csv |
    sed -n 2p |
    awk -F, -v policy="$2" '{ gsub(",", "+", policy); print policy "," $4 "," $10 }'
}

for job in $jobs; do
  "prepare_${job%%-*}"
  mkdir -p "$folder/$job"
  # shellcheck disable=SC2086  # lists of words
  trained_here=$(possible "$job" $trained) timed_here=$(possible "$job" $timed)
  for seed in $seeds; do
    for policy in $trained_here; do train "$job" "$policy" "$seed"; done
  done
  [ -f "$folder/$job/times.csv" ] ||
    for _ in $(seq "$rounds"); do
      for policy in $timed_here; do time_step "$job" "$policy"; done
    done > "$folder/$job/times.part"
  [ -f "$folder/$job/times.csv" ] || mv "$folder/$job/times.part" "$folder/$job/times.csv"
  page_of_runs "$folder/$job/compared.html" "$folder/$job"/*-*
done

tables() {
  for job in $jobs; do
    echo
    echo "== $job, $isa, $threads threads, $steps steps"
    echo
    python3 recipes/activations_table.py "$folder/$job"
  done
}
publish "$seeds" tables
