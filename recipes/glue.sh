#!/usr/bin/env bash
# Fine-tunes encoders on five tasks of GLUE (SST-2, MRPC, RTE, CoLA, STS-B as numbers) and measures each on its dev set
# with the task's own measures: accuracy, F1, Matthews' correlation, Pearson's and Spearman's correlation.
#
#   recipes/glue.sh [--smoke] [FOLDER [MODEL...]]    default: runs/glue, or runs/glue-smoke
#
# MODEL is a folder of any encoder. Without one, COMERA_DATA's checkpoints/all-MiniLM-L6-v2 is taken, dense and
# tensorized to three ratios; its word table stays dense, so that 1.9 is the limit. COMERA_DATA names a folder with
# glue/TASK/train.tsv.zst and dev.tsv.zst for SST-2, MRPC, RTE, CoLA and STS-B as GLUE has them. COMERA is the
# program, SEED (1) the seed of all runs, SST2 (10000) the rows of SST-2, EPOCHS (2) the passes over each task's rows,
# DTYPE (fp32) the activation dtype of fine-tuning, THREADS those of all. In bf16 it takes an hour on one core of a
# fast processor; --smoke takes a minute, on a few rows and without calibration. Dense models are also rounded to 8
# and 4 bits after their fine-tuning. FOLDER receives data, models, a run and a log for each, and results.md and
# results.json. A second call keeps what is finished and goes on with the rest.
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck source=shared/recipe.sh
. recipes/shared/recipe.sh
start 1000 "$@"

if [ -z "${COMERA_DATA:-}" ]; then
  cat >&2 << 'MESSAGE'
glue.sh: COMERA_DATA is not set. Get the data like this, then set it to the folder:
  fetch SST-2, MRPC, RTE, CoLA and STS-B of https://gluebenchmark.com/tasks and write their train.tsv and dev.tsv,
  compressed by zstd, to glue/SST-2/train.tsv.zst and so on;
  name the folder of an encoder, or put sentence-transformers/all-MiniLM-L6-v2 into checkpoints/all-MiniLM-L6-v2.
MESSAGE
  exit 2
fi
tasks=(SST-2 MRPC RTE CoLA STS-B)
for task in "${tasks[@]}"; do
  for part in train dev; do
    file=$COMERA_DATA/glue/$task/$part.tsv.zst
    [ -r "$file" ] || missing "$file cannot be read"
  done
done
minilm=$COMERA_DATA/checkpoints/all-MiniLM-L6-v2
[ ${#rest[@]} -gt 0 ] || [ -r "$minilm/config.json" ] ||
  missing "$minilm cannot be read; name the folder of an encoder"
require_program
mkdir -p "$folder/data"
length=(--epochs "${EPOCHS:-2}" --dtype "${DTYPE:-fp32}") most=${SST2:-10000}
calibration=(--calibrate "$folder/data/texts.tsv" --text "first,second" --calibrate-tokens 20480)
! "$smoke" || { length=(--steps 3) && calibration=(); }

# The first rows of a part with a header. CoLA has none.
rows() { # TASK PART
  local limit=1000000
  [ "$1 $2" != "SST-2 train" ] || limit=$most
  ! "$smoke" || limit=60
  {
    [ "$1" != CoLA ] || printf 'source\tlabel\tstar\tsentence\n'
    zstd -dc "$COMERA_DATA/glue/$1/$2.tsv.zst"
  } | awk -v most="$limit" 'NR == 1 { gsub(/#1 String/, "#1_String"); gsub(/#2 String/, "#2_String") } NR <= most + 1'
}
for task in "${tasks[@]}"; do
  for part in train dev; do
    [ -e "$folder/data/$task.$part.tsv" ] || rows "$task" "$part" | keep "$folder/data/$task.$part.tsv"
  done
done

# Texts of all tasks in turn, one or two in a row, as the tasks have them. On single sentences alone nothing would be
# fitted to second texts.
texts() {
  local task part
  for task in SST-2:1 CoLA:4 'MRPC:4,5' 'RTE:2,3' 'STS-B:8,9'; do # the task and its columns of text
    part=$folder/data/${task%:*}.texts
    # head before cut: a file that is closed early ends no pipe with an error.
    head -n 201 "$folder/data/${task%:*}.train.tsv" | cut -f "${task#*:}" | awk -F '\t' 'NR > 1 { print $1 "\t" $2 }' > "$part"
  done
  printf 'first\tsecond\n'
  paste -d '\n' "$folder"/data/*.texts | awk -F '\t' '$1 != ""'
  rm "$folder"/data/*.texts
}

# MiniLM, dense and at three ratios.
make_models() {
  local ratio
  [ -e "$folder/data/texts.tsv" ] || texts | keep "$folder/data/texts.tsv"
  for ratio in 1.2 1.4 1.6; do
    [ ! -e "$folder/minilm-$ratio/report.json" ] || continue
    rm -rf "$folder/minilm-$ratio"
    logged "minilm-$ratio" "$comera" tensorize "$minilm" --ratio "$ratio" --exclude '*embeddings*' \
      "${calibration[@]}" --threads "$threads" -o "$folder/minilm-$ratio"
  done
}
models=("${rest[@]}")
if [ ${#models[@]} -eq 0 ]; then
  make_models
  models=("$minilm" "$folder/minilm-1.2" "$folder/minilm-1.4" "$folder/minilm-1.6")
fi

columns_of() {
  case $1 in
    SST-2) echo --text sentence --label label --task classify ;;
    MRPC) echo --text "#1_String,#2_String" --label Quality --task classify ;;
    RTE) echo --text sentence1,sentence2 --label label --task classify ;;
    CoLA) echo --text sentence --label label --task classify ;;
    STS-B) echo --text sentence1,sentence2 --label score --task regression ;;
  esac
}

tune() { # MODEL TASK
  local name columns
  name=$(basename "$1")-$2
  read -r -a columns <<< "$(columns_of "$2")"
  [ ! -s "$folder/$name.evaluation.json" ] || return 0
  logged "$name" "$comera" finetune "$1" "${columns[@]}" --data "$folder/data/$2.train.tsv" --new-head --seq 128 \
    --batch 32 --seed "$seed" --lr 1e-4 --no-adapt-ranks "${length[@]}" --save-every 10m \
    --threads "$threads" -o "$folder/$name" --resume
  "$comera" evaluate "$folder/$name" --data "$folder/data/$2.dev.tsv" --threads "$threads" --json \
    2> "$folder/$name.evaluate.log" |
    keep "$folder/$name.evaluation.json"
}
is_dense() { ! "$comera" inspect "$1" --json | grep -qE '"form": *"(tt|ttm|lowrank)"'; }
# The plain alternative: the tuned model with its weights rounded to whole numbers of a few bits, not trained again.
round() { # MODEL TASK BITS
  local tuned rounded
  tuned=$(basename "$1")-$2 rounded=$(basename "$1")-$3-bits-$2
  [ ! -s "$folder/$rounded.evaluation.json" ] || return 0
  rm -rf "${folder:?}/$rounded"
  logged "$rounded" "$comera" tensorize "$folder/$tuned" --bits "$3" --threads "$threads" -o "$folder/$rounded"
  "$comera" evaluate "$folder/$rounded" --data "$folder/data/$2.dev.tsv" --threads "$threads" --json \
    2> "$folder/$rounded.evaluate.log" |
    keep "$folder/$rounded.evaluation.json"
}
for model in "${models[@]}"; do
  for task in "${tasks[@]}"; do
    echo "== $(basename "$model"): $task"
    tune "$model" "$task"
    ! is_dense "$model" || for bits in 8 4; do round "$model" "$task" "$bits"; done
  done
done

python3 recipes/glue_table.py "$folder" --program "$comera" --seed "$seed" "${models[@]}"
