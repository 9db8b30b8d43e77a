#!/usr/bin/env bash
# Trains the paper's six-encoder transformer on MNLI. On the CPU: dense and TT for the same time, then late stages of the
# TT run towards 0.8, 0.5 and 0.2 of the TT layers' size, and at 0.5 what else there is: CoMERA's objective, one cut in
# the last step, and the small rank from the start. On a GPU the paper's whole
# schedule: 30 epochs dense; 20 early epochs in TT form, followed by 10 late ones towards 0.8, 0.5 and 0.2.
#
#   recipes/mnli.sh [--smoke] [FOLDER]                    default: runs/mnli, or runs/mnli-smoke
#   recipes/mnli.sh [--smoke] --device cuda [FOLDER]      default: runs/mnli-cuda; the same as DEVICE=cuda
#
# COMERA_DATA names a folder with mnli/mnli_train_subset.tsv.zst, mnli/mnli_dev_matched.tsv.zst and
# tokenizers/bert-base-uncased-vocab.txt. COMERA is the program, SEED (7) the seed of all runs, BATCH (32, on a GPU 128)
# the sequences per step. On the CPU TIME (40m) is the time of both runs and LATE (2000) the steps of a late stage.
# Dense and TT run at the same time with half of the cores each, under the same conditions. On a GPU EARLY (20) and LATE
# (10) are epochs, runs follow each other, and DTYPE (bf16) is their activation dtype. The recipe ends with accuracy,
# bytes, time and memory beside the paper's table and beside two bags of words (if PYTHON, by default python3, has
# scikit-learn), and on a GPU a table of ranks, time and memory by epoch. It takes about two and a half hours on two
# cores; --smoke takes seconds, with a small model. FOLDER receives the runs, a log of each, compared.html with the
# curves of dense and TT, runs.html with accuracy against bytes and the ranks of each layer, and results.md and
# results.json. A second call keeps what is finished and goes on with the rest.
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck source=shared/recipe.sh
. recipes/shared/recipe.sh
device=${DEVICE:-cpu}
words=()
while [ $# -gt 0 ]; do
  case $1 in
    --device) device=${2:?a device, such as cuda} && shift ;;
    *) words+=("$1") ;;
  esac
  shift
done
SEED=${SEED:-7}
case $device in cpu) on_card=false ;; *) on_card=true ;; esac
start 1 "${words[@]}"
"$named" || ! "$on_card" || folder+=-cuda
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
  [ -r "$file" ] || missing "$file cannot be read"
done
require_program

# Curves use the first 2,000 rows of dev; the final evaluation uses all of it.
mkdir -p "$folder"
[ -s "$folder/dev-2000.tsv" ] || zstd -dc "$dev" | sed -n '1,2001p' | keep "$folder/dev-2000.tsv"

model=(--model mnli-6enc --seq 128 --batch "$batch")
tt=(--form tt --rank 30 --embedding-rank 32 --lr 1e-4 --lr-ranks 1e-3)
if "$on_card"; then # as in the paper: AdamW, one rate for all cores and no decay
  tt+=(--optimizer adamw --lr-cores 2e-4 --lr-table-cores 2e-4 --core-rates uniform --weight-norm-decay 0)
else # the program's defaults, at a rate that moves a weight as far
  tt+=(--lr-cores 4e-4)
fi
dense=(--form dense --lr 1e-4)
small=("${tt[@]}" --rank 17) # as many parameters as the late stage leaves at target 0.5
time=${TIME:-40m} early=${EARLY:-20} late=${LATE:-$("$on_card" && echo 10 || echo 2000)}
by_time=(--steps 1000000 --max-time "$time" --eval-every 10m) by_steps=(--eval-every 1e) every=50
if "$smoke"; then
  model=(--model encoder-small --layers 1 --hidden 64 --heads 2 --intermediate 128 --positions 32 --seq 32 --batch 8)
  tt+=(--rank 4 --embedding-rank 4)
  small+=(--rank 2 --embedding-rank 2)
  late=${LATE:-6} early=${EARLY:-1} by_time=(--steps 6) every=1
  # A GPU's schedule counts epochs, of a few rows here.
  [ -s "$folder/train.tsv" ] || zstd -dc "$train" | sed -n '1,41p' | keep "$folder/train.tsv"
  [ -s "$folder/dev.tsv" ] || sed -n '1,41p' "$folder/dev-2000.tsv" | keep "$folder/dev.tsv"
  train=$folder/train.tsv dev=$folder/dev.tsv
fi
settings=(device="$device" batch="$batch" late="$late")

run() { # NAME options...
  local name=$1
  shift
  finished "$folder/$name" || logged "$name" "$comera" pretrain "${model[@]}" --task classify --data "$train" \
    --dev "$folder/dev-2000.tsv" --text premise,hypothesis --label label --tokenizer "$vocab" --seed "$seed" \
    --device "$device" --schedule constant --warmup 200 --weight-decay 0 --position-deviation 0.1 --log-every "$every" \
    --save-every 10m "$@" -o "$folder/$name" --resume
}

# The first number of a key in a run's report.json.
number() { sed -n "s/^ *\"$2\": \([0-9.]*\),*$/\1/p" "$folder/$1/report.json" | head -n 1; }

evaluate() { # NAME...
  local name
  for name in "$@"; do
    [ -s "$folder/$name.evaluate.json" ] ||
      "$comera" evaluate "$folder/$name" --data "$dev" --device "$device" --json 2> "$folder/$name.evaluate.log" |
      keep "$folder/$name.evaluate.json"
  done
}

# late_run NAME FROM options...: a copy of the run FROM goes on. It is renamed when it is complete, so a recipe that was
# stopped finds a whole copy or none. Its own evaluation marks it as finished, because the copy has FROM's report.
late_run() {
  local name=$1 from=$2
  shift 2
  if [ ! -d "$folder/$name" ]; then
    rm -rf "$folder/$name.new"
    cp -r "$folder/$from" "$folder/$name.new"
    mv "$folder/$name.new" "$folder/$name"
  fi
  [ -s "$folder/$name.evaluate.json" ] || logged "$name" "$comera" pretrain --resume "$folder/$name" --override "$@"
}

unpacked() { case $1 in *.zst) zstd -dc "$1" ;; *) cat "$1" ;; esac }

# The accuracy of two bags of words on the same pairs, into bag-of-words.json.
bags_of_words() {
  local python=${PYTHON:-python3}
  [ ! -s "$folder/bag-of-words.json" ] || return 0
  if ! "$python" -c 'import sklearn' 2> /dev/null; then
    echo "the table has no bags of words: $python lacks scikit-learn (pip install scikit-learn; PYTHON names another)"
    return 0
  fi
  unpacked "$train" > "$folder/bags-train.tsv"
  unpacked "$dev" > "$folder/bags-dev.tsv"
  "$python" recipes/mnli_bag_of_words.py "$folder/bags-train.tsv" "$folder/bags-dev.tsv" |
    keep "$folder/bag-of-words.json"
  rm "$folder/bags-train.tsv" "$folder/bags-dev.tsv"
}

in_equal_time() {
  local first before name late_options target
  local late_names=(late-0.8 late-0.5 late-0.2 objective-0.5 one-cut-0.5)
  echo "== dense and TT, $time each, $half threads each; $folder/*.log show their progress"
  run dense "${dense[@]}" --threads "$half" "${by_time[@]}" &
  first=$!
  run tt "${tt[@]}" --threads "$half" "${by_time[@]}"
  wait "$first"
  "$comera" inspect "$folder/dense" "$folder/tt" --format html > "$folder/compared.html"
  "$comera" inspect --runs "$folder/dense" "$folder/tt"
  echo "the curves of both, by steps and by time: $folder/compared.html"

  echo
  echo "== TT at the steps that dense reached"
  run tt-steps "${tt[@]}" --steps "$(number dense step)"
  "$comera" inspect --runs "$folder/dense" "$folder/tt-steps"

  echo
  before=$(number tt step)
  for name in "${late_names[@]}"; do
    target=${name##*-} late_options=(--late-after "$before")
    case $name in
      # Three classes: the loss falls by a tenth in the early stage, and without a tolerance the late one gives it back.
      objective-*) late_options+=(--scheduled-cuts 0 --loss-tolerance 0.3) ;;
      one-cut-*) late_options=(--late-after $((before + late - 1))) ;;
    esac
    echo "== $name: $late more steps of the TT run, towards $target of its size"
    late_run "$name" tt --max-time 10h --steps $((before + late)) "${late_options[@]}" --target-fraction "$target" \
      --threads "$threads" --eval-every "$late"
    grep -E 'late stage begins|target is|target enforced' "$folder/$name.log" || true # none if no entry is removed
  done
  echo "== small: a small rank from the start, with as many steps in all"
  run small "${small[@]}" --steps $((before + late)) --eval-every "$late"

  echo
  echo "== all of dev_matched"
  evaluate dense tt tt-steps "${late_names[@]}" small
  bags_of_words
  [ -s "$folder/runs.html" ] ||
    page_of_runs "$folder/runs.html" "$folder"/{dense,tt} "${late_names[@]/#/$folder/}" "$folder/small"
  publish "$seed" recipes/mnli_table.py "$folder"
  echo "accuracy against bytes, and the ranks of each layer: $folder/runs.html"
}

in_epochs() {
  local target names=(dense early late-0.8 late-0.5 late-0.2) precision=(--dtype "${DTYPE:-bf16}")
  echo "== dense, $((early + late)) epochs; TT, $early epochs; $folder/*.log show their progress"
  run dense "${dense[@]}" "${precision[@]}" "${by_steps[@]}" --epochs $((early + late))
  run early "${tt[@]}" "${precision[@]}" "${by_steps[@]}" --epochs "$early"
  for target in 0.8 0.5 0.2; do
    echo "== $late late epochs towards $target of the size of the TT layers"
    late_run "late-$target" early --epochs $((early + late)) --late-after "${early}e" --target-fraction "$target"
  done
  "$comera" inspect "$folder/dense" "$folder/late-0.2" --format html > "$folder/compared.html"
  evaluate "${names[@]}"
  echo
  publish "$seed" recipes/mnli_table.py "$folder" "$early"
  echo "ranks, time and memory by steps: $folder/late-*/report.html"
  echo "dense and the smallest, by steps and by time: $folder/compared.html"
}

if "$on_card"; then in_epochs; else in_equal_time; fi
