#!/usr/bin/env bash
# Trains the paper's six-encoder transformer on MNLI. On the CPU: dense and TT for the same time, then a late stage that
# halves the TT layers. On a GPU the paper's whole schedule: 30 epochs dense; 20 early epochs in TT form, followed by 10
# late ones towards 0.8, 0.5 and 0.2 of the TT layers' size.
#
#   recipes/mnli.sh [FOLDER]                    default: runs/mnli
#   recipes/mnli.sh --device cuda [FOLDER]      default: runs/mnli-cuda; the same as DEVICE=cuda
#
# COMERA_DATA names a folder with mnli/mnli_train_subset.tsv.zst, mnli/mnli_dev_matched.tsv.zst and
# tokenizers/bert-base-uncased-vocab.txt. COMERA is the program, SEED (7) the seed of all runs, BATCH (32, on a GPU
# 128) the sequences per step. On the CPU TIME (40m) is the time of both runs and LATE (2000) the steps of the late
# stage. Dense and TT run at the same time with half of the cores each, under the same conditions. On a GPU EARLY (20)
# and LATE (10) are epochs, runs follow each other, and DTYPE (bf16) is their activation dtype. The recipe ends with
# accuracy, bytes, time per epoch and memory beside the paper's table, and a table of ranks, time and memory by epoch.
# FOLDER receives the runs, a log of each and compared.html with curves. A second call resumes stopped runs.
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck source=shared/recipe.sh
. recipes/shared/recipe.sh
device=${DEVICE:-cpu}
[ "${1:-}" != --device ] || { device=${2:?a device, such as cuda} && shift 2; }
if [ $# -gt 1 ] || [[ "${1:-}" == -* ]]; then
  sed -n '2,15s/^# \{0,1\}//p' recipes/mnli.sh >&2
  exit 2
fi
case $device in cpu) on_card=false ;; *) on_card=true ;; esac
folder=${1:-$("$on_card" && echo runs/mnli-cuda || echo runs/mnli)}
batch=${BATCH:-$("$on_card" && echo 128 || echo 32)}
half=$((($(nproc) + 1) / 2))

if [ -z "${COMERA_DATA:-}" ]; then
  cat >&2 << 'MESSAGE'
mnli.sh: COMERA_DATA is not set. Get MNLI like this, then set it to the folder:
  fetch https://cims.nyu.edu/~sbowman/multinli/multinli_1.0.zip and unpack it;
  write the columns sentence1, sentence2, gold_label of multinli_1.0_train.txt as premise, hypothesis, label to
  mnli/mnli_train_subset.tsv.zst, those of multinli_1.0_dev_matched.txt to mnli/mnli_dev_matched.tsv.zst
  (rows whose label is "-" left out, with a header line);
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

# Curves use the first 2,000 rows of dev; the final evaluation uses all of it.
mkdir -p "$folder"
zstd -dc "$dev" | sed -n '1,2001p' > "$folder/dev-2000.tsv"

run() { # NAME options...
  local name=$1
  shift
  "$comera" pretrain --model mnli-6enc --task classify --data "$train" --dev "$folder/dev-2000.tsv" \
    --text premise,hypothesis --label label --tokenizer "$vocab" --seq 128 --batch "$batch" --seed "${SEED:-7}" \
    --device "$device" --schedule constant --warmup 200 --weight-decay 0 --position-deviation 0.1 --log-every 50 \
    --save-every 10m "$@" -o "$folder/$name" --resume
}
tt=(--form tt --rank 30 --embedding-rank 32 --lr 1e-4 --lr-cores 2e-4 --lr-ranks 1e-3)
dense=(--form dense --lr 1e-4)

# The first number of a key in a run's report.json.
number() { sed -n "s/^ *\"$2\": \([0-9.]*\),*$/\1/p" "$folder/$1/report.json" | head -n 1; }

evaluate() {
  local name report
  printf '%-10s %10s %7s\n' run accuracy loss
  for name in "$@"; do
    report=$("$comera" evaluate "$folder/$name" --data "$dev" --json 2> "$folder/$name.evaluate.log" | tr -d ' ,"')
    printf '%-10s %8.2f %% %7.4f\n' "$name" \
      "$(sed -n 's/^accuracy:\(.*\)/\1/p' <<< "$report" | awk 'NR == 1 { print 100 * $1 }')" \
      "$(sed -n 's/^loss:\(.*\)/\1/p' <<< "$report" | head -n 1)"
  done
}

in_equal_time() {
  local time=${TIME:-40m} late=${LATE:-2000} first before
  echo "== dense and TT, $time each, $half threads each; $folder/*.log show their progress"
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
  logged tt-half "$comera" pretrain --resume "$folder/tt-half" --override --max-time 10h --steps $((before + late)) \
    --late-after "$before" --target-fraction 0.5 --threads "$(nproc)" --eval-every "$late"
  grep -E 'late stage begins|target is' "$folder/tt-half.log"
  "$comera" inspect --runs "$folder/dense" "$folder/tt" "$folder/tt-half"
  echo
  echo "== the layers in TT form after the late stage"
  "$comera" inspect "$folder/tt-half" | grep -vE ' dense +- '

  echo
  echo "== all of dev_matched"
  evaluate dense tt tt-steps tt-half
}

# A late run starts as a copy of the early run. The copy is renamed when it is complete, so a recipe that was stopped
# finds a whole copy or none.
late_run() { # TARGET
  local name=late-$1
  if [ ! -d "$folder/$name" ]; then
    rm -rf "$folder/$name.new"
    cp -r "$folder/early" "$folder/$name.new"
    mv "$folder/$name.new" "$folder/$name"
  fi
  logged "$name" "$comera" pretrain --resume "$folder/$name" --override --epochs $((early + late)) \
    --late-after "${early}e" --target-fraction "$1"
}

in_epochs() {
  local early=${EARLY:-20} late=${LATE:-10} target name
  local names=(dense early late-0.8 late-0.5 late-0.2) precision=(--dtype "${DTYPE:-bf16}" --eval-every 1e)
  echo "== dense, $((early + late)) epochs; TT, $early epochs; $folder/*.log show their progress"
  logged dense run dense "${dense[@]}" "${precision[@]}" --epochs $((early + late))
  logged early run early "${tt[@]}" "${precision[@]}" --epochs "$early"
  for target in 0.8 0.5 0.2; do
    echo "== $late late epochs towards $target of the size of the TT layers"
    late_run "$target"
  done
  "$comera" inspect "$folder/dense" "$folder/late-0.2" --format html > "$folder/compared.html"
  for name in "${names[@]}"; do
    "$comera" evaluate "$folder/$name" --data "$dev" --device "$device" --json \
      > "$folder/$name.evaluate.json" 2> "$folder/$name.evaluate.log"
  done
  echo
  recipes/mnli_table.py "$folder" "$early"
  echo "ranks, time and memory by steps: $folder/late-*/report.html"
  echo "dense and the smallest, by steps and by time: $folder/compared.html"
}

if "$on_card"; then in_epochs; else in_equal_time; fi
