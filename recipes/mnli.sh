#!/usr/bin/env bash
# The paper's six-encoder transformer on MNLI: dense and TT for the same time, then a late stage that halves the TT layers; one table.
#
#   recipes/mnli.sh [FOLDER]            default: runs/mnli
#
# COMERA_DATA names a folder with mnli/mnli_train_subset.tsv.zst, mnli/mnli_dev_matched.tsv.zst and tokenizers/bert-base-uncased-vocab.txt.
# TIME (40m) is the time of each run, COMERA the program, THREADS the threads, BATCH the sequences per step.
set -euo pipefail
cd "$(dirname "$0")/.."

comera=${COMERA:-build/comera}
folder=${1:-runs/mnli}
time=${TIME:-40m}
threads=${THREADS:-$(nproc)}
batch=${BATCH:-32}

if [ -z "${COMERA_DATA:-}" ]; then
  cat >&2 << 'MESSAGE'
mnli.sh: COMERA_DATA is not set. Get MNLI like this, then set it to the folder:
  fetch https://cims.nyu.edu/~sbowman/multinli/multinli_1.0.zip and unpack it;
  write the columns sentence1, sentence2, gold_label of multinli_1.0_train.txt as premise, hypothesis, label to mnli/mnli_train_subset.tsv.zst,
  those of multinli_1.0_dev_matched.txt to mnli/mnli_dev_matched.tsv.zst (rows whose label is "-" left out, with a header line);
  put BERT's uncased vocab.txt at tokenizers/bert-base-uncased-vocab.txt.
MESSAGE
  exit 2
fi
for file in mnli/mnli_train_subset.tsv.zst mnli/mnli_dev_matched.tsv.zst tokenizers/bert-base-uncased-vocab.txt; do
  [ -r "$COMERA_DATA/$file" ] || { echo "mnli.sh: $COMERA_DATA/$file cannot be read" >&2 && exit 2; }
done

run() { # NAME options...
  local name=$1
  shift
  echo
  echo "== $name"
  "$comera" pretrain --model mnli-6enc --task classify --data "$COMERA_DATA/mnli/mnli_train_subset.tsv.zst" \
    --dev "$COMERA_DATA/mnli/mnli_dev_matched.tsv.zst" --text premise,hypothesis --label label \
    --tokenizer "$COMERA_DATA/tokenizers/bert-base-uncased-vocab.txt" --seq 128 --batch "$batch" --seed 7 --threads "$threads" \
    --schedule constant --warmup 200 --weight-decay 0 --log-every 50 --save-every 10m "$@" -o "$folder/$name" --resume
}

run dense --form dense --lr 1e-4 --steps 1000000 --max-time "$time" --eval-every 10m
run tt --form tt --rank 30 --embedding-rank 32 --lr 5e-4 --lr-cores 5e-4 --lr-ranks 1e-3 --recompute cheap \
  --steps 1000000 --max-time "$time" --eval-every 10m

echo
echo "== at equal time: dense and TT"
"$comera" inspect --runs "$folder/dense" "$folder/tt"
echo "the curves of both: $comera inspect $folder/dense $folder/tt --format html > $folder/compared.html"
"$comera" inspect "$folder/dense" "$folder/tt" --format html > "$folder/compared.html"

# The late stage: as many steps again as the dense run took, half early, half towards half of the tensorised size.
steps=$(sed -n 's/^  "step": \([0-9]*\),$/\1/p' "$folder/dense/report.json" | head -n 1)
run tt-half --form tt --rank 30 --embedding-rank 32 --lr 5e-4 --lr-cores 5e-4 --lr-ranks 2e-3 --recompute cheap \
  --steps $((3 * steps)) --late-after $((2 * steps)) --target-fraction 0.5 --eval-every "$steps"

echo
echo "== after the late stage"
"$comera" inspect --runs "$folder/dense" "$folder/tt" "$folder/tt-half"
"$comera" inspect "$folder/tt-half"
