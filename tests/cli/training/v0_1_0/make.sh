#!/usr/bin/env bash
# Makes the files beside this script with the program of version 0.1.0 (commit 4c8db834f239):
# COMERA=path/to/its/comera make.sh
# tests/cli/version_0_1_0.sh reads them with the current program. NAME is a killed run, NAME.whole the model of the same
# run when 0.1.0 completed it.
set -euo pipefail
: "${COMERA:?names the program of version 0.1.0}"
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' red green blue round square and >vocab.txt
{
  printf 'label\ttext\n'
  for i in 0 1 2 3; do printf 'red\tround red %s\ngreen\tsquare green\nblue\tround blue blue\n' "$i"; done
} >train.tsv
for i in $(seq 30); do printf 'the red round thing %s and the green square one\n' "$i"; done >corpus.txt
fixed=(--isa v3 --threads 1 --quiet)
sizes=(--model encoder-small --layers 1 --hidden 8 --heads 2 --intermediate 16 --positions 8)
data=(--data train.tsv --dev train.tsv --text text --label label)
steps=(--seq 8 --batch 4 --steps 12 --save-every 3 --eval-every 3 --keep 1 --lr 1e-2)
ranks=(--form tt --rank 4 --embedding-rank 4 --order 2 --embedding-order 2 --target-ratio 1.2 --lr-ranks 0.05)

# killed NAME STEP VERB ARGUMENTS...: keeps the run as it was at the checkpoint of STEP, and the model at its end.
killed() {
  local name=$1 step=$2 verb=$3
  shift 3
  for ((fault = 1; ; ++fault)); do
    rm -rf "$name"
    COMERA_FAULT_AT=$fault "$COMERA" "$verb" "$@" "${fixed[@]}" -o "$name" 2>.err || [ $? = 137 ]
    [ -e "$name/checkpoints/step-0000000$step/state.json" ] && break
  done
  cp -r "$name" whole
  "$COMERA" "$verb" --resume whole "${fixed[@]}" >.out
  mkdir "$name.whole"
  cp whole/model.safetensors whole/config.json "$name.whole"
  rm -rf whole "$name"/checkpoints/*.tmp "$name"/*.tmp
}
killed ranks 6 pretrain "${sizes[@]}" "${ranks[@]}" --tokenizer vocab.txt "${data[@]}" "${steps[@]}"
killed late 9 pretrain "${sizes[@]}" "${ranks[@]}" --tokenizer vocab.txt "${data[@]}" "${steps[@]}"
"$COMERA" pretrain "${sizes[@]}" --form dense --tokenizer vocab.txt "${data[@]}" "${steps[@]}" "${fixed[@]}" -o dense \
  >.out
killed healed 6 finetune dense "${data[@]}" "${steps[@]}"
wide=(--model encoder-small --layers 1 --hidden 32 --heads 2 --intermediate 64 --positions 8 --form dense)
"$COMERA" pretrain "${wide[@]}" --tokenizer vocab.txt "${data[@]}" --seq 8 --batch 4 --steps 4 "${fixed[@]}" -o wide \
  >.out
rm -r wide/checkpoints wide/report.json wide/metrics.jsonl wide/recipe.toml
"$COMERA" tensorize wide -o tensorized --ratio 1.3 "${fixed[@]}" >.out
"$COMERA" tensorize wide --ratio 1.3 --dump-plan plan.json "${fixed[@]}" >.out
"$COMERA" pretrain "${sizes[@]}" "${ranks[@]}" --tokenizer vocab.txt "${data[@]}" "${steps[@]}" \
  --dump-config >options.toml
"$COMERA" tokenizer train --data corpus.txt --vocab-size 60 -o wordpiece --quiet >.out
for fault in $(seq 4 40); do
  COMERA_FAULT_AT=$fault "$COMERA" tensorize wide -o unfinished --ratio 1.3 "${fixed[@]}" >.out 2>.err && break
  [ -e unfinished.partial/key ] && break
done

# Answers of 0.1.0.
mkdir answers
for model in dense tensorized healed.whole ranks.whole; do
  cp -n dense/vocab.txt dense/tokenizer_config.json "$model" || true
  "$COMERA" evaluate "$model" --data train.tsv --text text --label label --json "${fixed[@]}" \
    >"answers/$model.evaluate.json"
  printf 'round red\nsquare green\n' | "$COMERA" predict "$model" "${fixed[@]}" >"answers/$model.predict"
  "$COMERA" inspect "$model" --json >"answers/$model.inspect.json"
  "$COMERA" export "$model" --to safetensors -o plain "${fixed[@]}" >.out
  cp plain/model.safetensors "answers/$model.safetensors"
  rm -r plain
done
printf 'the green thing\n\nround 7\n' | "$COMERA" tokenizer encode --tokenizer wordpiece --json >answers/wordpiece.json
find . -name report.html -delete
rm -f .out .err
find "$here" -mindepth 1 -maxdepth 1 -not -name make.sh -exec rm -r {} +
cp -r . "$here"
