#!/usr/bin/env bash
# Pre-trains a model of code as CoMERA's CodeBERT experiment did: masked words of docstrings with their functions, in a
# first phase of short sequences and a second one of long ones, dense and in TT form; then the compression step of the
# second phase, and fine-tuning on finding the function that belongs to a docstring. Ends with the memory plan and the
# time of a step of the large preset.
#
#   recipes/code.sh [--smoke] [FOLDER]          default: runs/code, or runs/code-smoke
#
# COMERA_DATA names a folder with code/python_functions.jsonl.zst: one JSON object per line with the strings docstring,
# code and split (train, valid or test). COMERA is the program, SEED (1) the seed of all runs. TIME (40m) is the time of
# the first phase: dense and TT run at the same time with half of the cores each. STEPS (600) are the steps of the
# second phase, PAIRS (600) those of the fine-tuning. By the time of its steps it takes two hours and a half on two
# cores; --smoke takes seconds, with a small model on a few functions. FOLDER receives data, tokenizer, a run and a log
# for each model, and results.md and results.json. A second call keeps what is finished and goes on with the rest.
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck source=shared/recipe.sh
. recipes/shared/recipe.sh
start 1 "$@"
half=$((($(nproc) + 1) / 2))

if [ -z "${COMERA_DATA:-}" ]; then
  cat >&2 << 'MESSAGE'
code.sh: COMERA_DATA is not set. Get functions like this, then set it to the folder:
  take the Python functions of CodeSearchNet, or those of any packages; write one JSON object per line with the strings
  docstring, code (the function without its docstring) and split (train, valid, test: whole packages) to
  code/python_functions.jsonl.zst.
MESSAGE
  exit 2
fi
functions=$COMERA_DATA/code/python_functions.jsonl.zst
[ -r "$functions" ] || missing "$functions cannot be read"
require_program
mkdir -p "$folder/data"

# The sizes of both kinds of calls.
vocabulary=8192 batch=32 long_batch=8 short=128 long=512 steps=${STEPS:-600} pairs=${PAIRS:-600}
most_train=1000000 most_valid=1000 most_test=1500 every=10
first_phase=(--steps 1000000 --max-time "${TIME:-40m}")
model=(--model code-small) large=(--model codebert-large-tt --task mlm --batch 1 --seq 128) repetitions=20 rank=()
if "$smoke"; then
  vocabulary=500 batch=8 long_batch=2 short=32 long=64 steps=12 pairs=4 most_train=300 most_valid=40 most_test=100
  every=2
  first_phase=(--steps 8)
  model+=(--layers 1 --hidden 64 --heads 2 --intermediate 128) rank=(--rank 8)
  large+=(--layers 2) repetitions=1
fi

# The functions of a split; zstd is read to its end, so that it is not cut off.
part() { # SPLIT MOST
  zstd -dc "$functions" | awk -v most="$2" -v split_of="\"split\": *\"$1\"" '$0 ~ split_of && ++count <= most' |
    zstd -q -T1 | keep "$folder/data/$1.jsonl.zst"
}
if [ ! -e "$folder/data/test.jsonl.zst" ]; then
  part train "$most_train"
  part valid "$most_valid"
  part test "$most_test"
fi
train=$folder/data/train.jsonl.zst valid=$folder/data/valid.jsonl.zst test=$folder/data/test.jsonl.zst

if [ ! -e "$folder/tokenizer/report.json" ]; then
  echo "== a vocabulary of $vocabulary pieces"
  logged tokenizer "$comera" tokenizer train --data "$train" --text docstring,code --vocab-size "$vocabulary" --cased \
    --sample 40000 --seed "$seed" --force -o "$folder/tokenizer"
fi

# The rates of a run in its form; the first phase begins with random weights, all others with trained ones.
dense=(--lr 5e-4) tt=(--lr 1e-3 --lr-cores 1e-3 --lr-ranks 1e-3)
text="docstring,code"
words=(--task mlm --text "$text" --whole-words --seed "$seed" --schedule constant --log-every "$every" --save-every 10m)

first() { # NAME options...
  local name=$1
  shift
  finished "$folder/$name" || logged "$name" "$comera" pretrain "${model[@]}" "${words[@]}" --data "$train" \
    --tokenizer "$folder/tokenizer" --seq "$short" --first-length $((short / 4)) --batch "$batch" --warmup 100 \
    "${first_phase[@]}" "$@" -o "$folder/$name" --resume
}

# The second phase begins with the positions of the first one.
second() { # NAME FROM options...
  local name=$1 from=$2
  shift 2
  finished "$folder/$name" || logged "$name" "$comera" finetune "$folder/$from" "${words[@]}" --data "$train" --seq "$long" \
    --first-length $((long / 8)) --batch "$long_batch" --steps "$steps" --warmup 10 "$@" -o "$folder/$name" --resume
}

match() { # NAME FROM options...
  local name=$1 from=$2
  shift 2
  finished "$folder/$name" || logged "$name" "$comera" finetune "$folder/$from" --task pairs --text "$text" \
    --data "$train" --seq "$short" --batch "$batch" --seed "$seed" --steps "$pairs" --warmup 10 "$@" \
    -o "$folder/$name" --resume
}

measure() { # NAME options...
  local name=$1
  shift
  [ -s "$folder/$name.evaluation.json" ] ||
    "$comera" evaluate "$folder/$name" "$@" --json 2> "$folder/$name.evaluate.log" |
    keep "$folder/$name.evaluation.json"
}

echo "== first phase: sequences of $short tokens, dense and TT beside each other, $half threads each"
first dense-1 --form dense --threads "$half" "${dense[@]}" &
beside=$!
first tt-1 --form tt --threads "$half" --no-adapt-ranks "${rank[@]}" "${tt[@]}"
wait "$beside"
for name in dense-1 tt-1; do measure "$name" --data "$valid"; done

echo "== second phase: sequences of $long tokens, dense and TT; and TT with a compression step to 60 % of its TT layers"
second dense-2 dense-1 "${dense[@]}"
second tt-2 tt-1 --no-adapt-ranks "${tt[@]}"
second tt-2-smaller tt-1 --target-fraction 0.6 --late-after $((steps / 3)) "${tt[@]}"
for name in dense-2 tt-2 tt-2-smaller; do measure "$name" --data "$valid" --batch "$long_batch"; done

echo "== fine-tuning: the function that belongs to a docstring, among 100"
match dense-match dense-2 --lr 1e-4
match tt-match tt-2 --no-adapt-ranks --lr 1e-4 --core-rates uniform --lr-cores 3e-4
match tt-smaller-match tt-2-smaller --no-adapt-ranks --lr 1e-4 --core-rates uniform --lr-cores 3e-4
for name in dense-match tt-match tt-smaller-match; do measure "$name" --task pairs --data "$test" --batch 100; done

echo "== the large preset: 1 x 128 tokens"
[ -s "$folder/large-dense.plan.json" ] ||
  "$comera" pretrain "${large[@]}" --form dense --dry-run --json | keep "$folder/large-dense.plan.json"
[ -s "$folder/large-tt.plan.json" ] ||
  "$comera" pretrain "${large[@]}" --form tt --dry-run --json | keep "$folder/large-tt.plan.json"
[ -s "$folder/large-tt.bench.json" ] ||
  "$comera" bench "${large[@]}" --form tt --warmup 1 --repetitions "$repetitions" --json |
  keep "$folder/large-tt.bench.json"

python3 recipes/code_table.py "$folder" --program "$comera" --seed "$seed"
