#!/usr/bin/env bash
# Compares the policies of --activations: time and peak memory of a step, and the loss after a short training. Prints a
# table per model: llama-6m dense and in TT form on English books, mnli-6enc in TT form on MNLI. keep, cheap and block
# have the same gradients, so one of them is trained.
#
#   COMERA_DATA=... recipes/activations.sh [FOLDER]      default: runs/activations
#
# COMERA_DATA names a folder with text/gutenberg16.txt.zst and mnli/mnli_{train_subset,dev_matched}.tsv.zst. COMERA names
# the program, ISA its instruction set, THREADS its threads. JOBS (llama-dense llama-tt mnli), TIMED and TRAINED (lists
# of policies), STEPS (200), ROUNDS (3, of the times; they are interleaved) and SEEDS (7) change the job. Existing runs
# are kept, so a stopped job resumes.
set -euo pipefail
cd "$(dirname "$0")/.."

comera=${COMERA:-build/comera}
folder=${1:-runs/activations}
isa=${ISA:-v3}
threads=${THREADS:-$(nproc)}
timed=${TIMED:-keep cheap block bf16 int8 int4 cheap,bf16 cheap,int8 cheap,int4 block,int8}
trained=${TRAINED:-keep bf16 int8 int8-stochastic int4 int4-stochastic}
mkdir -p "$folder/text" "$folder/mnli"

prepare_llama() { COMERA=$comera recipes/books.sh "$folder/text" 4000; }

prepare_mnli() {
  [ -f "$folder/mnli/tokenizer/vocab.txt" ] && return
  zstd -dc "${COMERA_DATA:?a folder with mnli}/mnli/mnli_train_subset.tsv.zst" | awk "NR <= 40001" > "$folder/mnli/train.tsv"
  zstd -dc "$COMERA_DATA/mnli/mnli_dev_matched.tsv.zst" | awk "NR <= 1001" > "$folder/mnli/dev.tsv"
  "$comera" tokenizer train --data "$folder/mnli/train.tsv" --text premise,hypothesis -o "$folder/mnli/tokenizer"
}

# The model and the batch of a job.
shape() {
  case $1 in
    llama-dense) echo --model llama-6m --task clm --form dense --batch 8 --seq 128 ;;
    llama-tt) echo --model llama-6m --task clm --form tt --rank 32 --batch 8 --seq 128 ;;
    mnli) echo --model mnli-6enc --form tt --rank 30 --batch "${2:-32}" --seq 128 --dropout 0.1 ;;
  esac
}

data() {
  case $1 in
    llama-*) echo --data "$folder/text/train.txt" --dev "$folder/text/dev.txt" --tokenizer "$folder/text/tokenizer" ;;
    mnli)
      echo --data "$folder/mnli/train.tsv" --dev "$folder/mnli/dev.tsv" --text premise,hypothesis --label label \
        --tokenizer "$folder/mnli/tokenizer"
      ;;
  esac
}

train() { # JOB POLICY SEED
  # shellcheck disable=SC2046  # lists of words
  "$comera" pretrain $(shape "$1" 8) $(data "$1") --activations "$2" --seed "$3" --steps "${STEPS:-200}" --isa "$isa" \
    --threads "$threads" --save-every 1000000 --quiet -o "$folder/$1/$2-$3" --resume
}

time_step() { # JOB POLICY
  # shellcheck disable=SC2046
  "$comera" bench $(shape "$1") --activations "$2" --isa "$isa" --threads "$threads" --format csv | sed -n 2p |
    awk -F, -v policy="$2" '{ gsub(",", "+", policy); print policy "," $4 "," $10 }'
}

lscpu | sed -n 's/^Model name: *//p'
for job in ${JOBS:-llama-dense llama-tt mnli}; do
  "prepare_${job%%-*}"
  mkdir -p "$folder/$job"
  for seed in ${SEEDS:-7}; do
    for policy in $trained; do train "$job" "$policy" "$seed"; done
  done
  [ -f "$folder/$job/times.csv" ] ||
    for _ in $(seq "${ROUNDS:-3}"); do
      for policy in $timed; do time_step "$job" "$policy"; done
    done > "$folder/$job/times.part"
  [ -f "$folder/$job/times.csv" ] || mv "$folder/$job/times.part" "$folder/$job/times.csv"
  echo
  echo "== $job, $isa, $threads threads, ${STEPS:-200} steps"
  python3 recipes/activations_table.py "$folder/$job"
done
