#!/usr/bin/env bash
# The paper's six-encoder transformer on MNLI: dense and TT side by side for the same time, then a late stage that halves the TT layers.
#
#   recipes/mnli.sh [FOLDER]            default: runs/mnli
#
# COMERA_DATA names a folder with mnli/mnli_train_subset.tsv.zst, mnli/mnli_dev_matched.tsv.zst and tokenizers/bert-base-uncased-vocab.txt.
# TIME (40m) is the time of both runs, LATE (2000) the steps of the late stage, COMERA the program, BATCH the sequences per step.
# Dense and TT run at the same time with half of the cores each, so that both see the same machine. FOLDER gets the runs, a log of each and
# compared.html; called again, it goes on where it was.
set -euo pipefail
cd "$(dirname "$0")/.."

comera=${COMERA:-build/comera}
folder=${1:-runs/mnli}
time=${TIME:-40m}
late=${LATE:-2000}
batch=${BATCH:-32}
half=$((($(nproc) + 1) / 2))

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
train=$COMERA_DATA/mnli/mnli_train_subset.tsv.zst
dev=$COMERA_DATA/mnli/mnli_dev_matched.tsv.zst
vocab=$COMERA_DATA/tokenizers/bert-base-uncased-vocab.txt
for file in "$train" "$dev" "$vocab"; do
  [ -r "$file" ] || { echo "mnli.sh: $file cannot be read" >&2 && exit 2; }
done

# The curves are drawn on the first 2,000 rows of dev; all of it is evaluated at the end.
mkdir -p "$folder"
zstd -dc "$dev" | sed -n '1,2001p' > "$folder/dev-2000.tsv"

run() { # NAME options...
  local name=$1
  shift
  "$comera" pretrain --model mnli-6enc --task classify --data "$train" --dev "$folder/dev-2000.tsv" --text premise,hypothesis --label label \
    --tokenizer "$vocab" --seq 128 --batch "$batch" --seed 7 --schedule constant --warmup 200 --weight-decay 0 --position-deviation 0.1 \
    --log-every 50 --save-every 10m "$@" -o "$folder/$name" --resume
}
tt=(--form tt --rank 30 --embedding-rank 32 --lr 1e-4 --lr-cores 2e-4 --lr-ranks 1e-3)
dense=(--form dense --lr 1e-4)

# The first number behind a key of a run's report.json.
number() { sed -n "s/^ *\"$2\": \([0-9.]*\),*$/\1/p" "$folder/$1/report.json" | head -n 1; }

# A command whose output goes into a log; when it fails, the log's end is shown.
logged() { # NAME command...
  local name=$1
  shift
  "$@" > "$folder/$name.log" 2>&1 || { tail -n 5 "$folder/$name.log" >&2 && echo "mnli.sh: $name failed; see $folder/$name.log" >&2 && exit 1; }
}

evaluate() {
  local name report
  printf '%-10s %10s %7s\n' run accuracy loss
  for name in "$@"; do
    report=$("$comera" evaluate "$folder/$name" --data "$dev" --json 2> "$folder/$name.evaluate.log" | tr -d ' ,"')
    printf '%-10s %8.2f %% %7.4f\n' "$name" "$(sed -n 's/^accuracy:\(.*\)/\1/p' <<< "$report" | awk 'NR == 1 { print 100 * $1 }')" \
      "$(sed -n 's/^loss:\(.*\)/\1/p' <<< "$report" | head -n 1)"
  done
}

echo "== dense and TT, $time each, $half threads each; $folder/*.log show how far they are"
logged dense run dense "${dense[@]}" --threads "$half" --steps 1000000 --max-time "$time" --eval-every 10m &
first=$!
logged tt run tt "${tt[@]}" --threads "$half" --steps 1000000 --max-time "$time" --eval-every 10m &
wait "$first"
wait "$!"
"$comera" inspect "$folder/dense" "$folder/tt" --format html > "$folder/compared.html"
"$comera" inspect --runs "$folder/dense" "$folder/tt"
echo "the curves of both, by steps and by time: $folder/compared.html"

echo
echo "== TT at the steps that dense reached"
logged tt-steps run tt-steps "${tt[@]}" --steps "$(number dense step)"
"$comera" inspect --runs "$folder/dense" "$folder/tt-steps"

echo
echo "== the late stage: $late more steps of the TT run, towards half of its size"
[ -d "$folder/tt-half" ] || cp -r "$folder/tt" "$folder/tt-half"
before=$(number tt step)
logged tt-half "$comera" pretrain --resume "$folder/tt-half" --override --max-time 10h --steps $((before + late)) --late-after "$before" \
  --target-fraction 0.5 --threads "$(nproc)" --eval-every "$late"
grep -E 'late stage begins|target is' "$folder/tt-half.log"
"$comera" inspect --runs "$folder/dense" "$folder/tt" "$folder/tt-half"
echo
echo "== what is left of the layers in TT form"
"$comera" inspect "$folder/tt-half" | grep -vE ' dense +- '

echo
echo "== all of dev_matched"
evaluate dense tt tt-steps tt-half
