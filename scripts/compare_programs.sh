#!/usr/bin/env bash
# Runs two programs through the same commands and compares every file and every answer, byte for byte except for times,
# versions and dates: compare_programs.sh OLD NEW [ISA]. For changes that must not change what the program computes.
# Covers training (classification, masked and causal language models, rank adaptation to a target, a resume), finetune,
# tensorize with and without text, export in all forms, inspect, evaluate and predict, on models that train in seconds.
# With COMERA_DATA also tensorize and export of all-MiniLM-L6-v2.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,6s/^# //p' "$0"; exit 2; }
# shellcheck disable=SC2034  # read by name below
old=$(realpath "$1") new=$(realpath "$2") isa=${3:-v3}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap '[ -n "${KEEP:-}" ] || rm -rf "$work"' EXIT
export COMERA_THREADS=2 COMERA_ISA=$isa

# all PROGRAM: every command, in the current folder. The program has one name, since recipes hold the command line.
all() {
  mkdir bin && ln -s "$1" bin/comera
  local comera=bin/comera
  printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' red green blue round square the thing and >vocab.txt
  {
    printf 'label\ttext\n'
    for i in $(seq 20); do
      printf 'red\tround red %s\ngreen\tsquare green\nblue\tround blue blue\n' "$((i % 3))"
    done
  } >train.tsv
  for i in $(seq 120); do printf 'the red round thing %s and the green square one\n' "$((i % 7))"; done >corpus.txt
  local encoder=(--model encoder-small --layers 2 --hidden 64 --heads 2 --intermediate 128 --positions 32)
  local ranks=(--form tt --rank 8 --embedding-rank 8 --order 2 --embedding-order 2 --target-ratio 1.5 --lr-ranks 0.05)
  local table=(--data train.tsv --dev train.tsv --text text --label label --seq 16 --batch 8)
  local steps=(--steps 40 --save-every 10 --eval-every 10 --lr 1e-2 --quiet)
  "$comera" pretrain "${encoder[@]}" "${ranks[@]}" --tokenizer vocab.txt "${table[@]}" "${steps[@]}" -o ranks
  "$comera" pretrain "${encoder[@]}" --form dense --tokenizer vocab.txt "${table[@]}" "${steps[@]}" -o dense
  "$comera" pretrain "${encoder[@]}" --task mlm --order 3 --rank 8 --embedding-rank 4 --tokenizer vocab.txt \
    --data corpus.txt --dev corpus.txt --seq 16 --batch 8 "${steps[@]}" -o masked
  "$comera" tokenizer train --data corpus.txt --vocab-size 60 --kind sentencepiece-bpe -o pieces --quiet
  "$comera" pretrain --model llama-6m --layers 2 --hidden 64 --heads 2 --key-heads 2 --intermediate 128 --positions 32 \
    --rank 8 --embedding-rank 4 --tokenizer pieces --task clm --data corpus.txt --dev corpus.txt --seq 16 --batch 8 \
    "${steps[@]}" -o causal
  cp -r ranks early && rm -rf early/checkpoints/step-0000003* early/checkpoints/step-0000004* early/best
  "$comera" pretrain --resume early --override --quiet
  "$comera" finetune dense "${table[@]}" "${steps[@]}" -o again
  "$comera" finetune ranks "${table[@]}" "${steps[@]}" -o ranks-again
  "$comera" tensorize dense -o plain --ratio 1.3 --quiet >plain.out
  "$comera" tensorize dense -o fitted --ratio 1.5 --calibrate train.tsv --text text \
    --layer '*word_embeddings*=form:ttm;rank:4;exact:3' --quiet >fitted.out
  local model form
  for model in ranks dense masked causal plain fitted; do
    [ -e "$model/model.safetensors" ] || { echo "$model is missing"; return 1; }
    "$comera" inspect "$model" --json >"$model.inspect.json"
    "$comera" inspect "$model" >"$model.inspect.txt"
    "$comera" export "$model" --to safetensors -o "$model.safe" --quiet
    for form in tt factors dense; do
      "$comera" export "$model" --form "$form" -o "$model.$form.onnx" --quiet
    done
    case $model in
      masked | causal) "$comera" evaluate "$model" --data corpus.txt --json --quiet >"$model.evaluate.json" ;;
      *)
        "$comera" evaluate "$model" --data train.tsv --text text --label label --json --quiet >"$model.evaluate.json"
        printf 'round red\nsquare green\n' | "$comera" predict "$model" --quiet >"$model.predict.txt" ;;
    esac
  done
  if [ -n "${COMERA_DATA:-}" ]; then
    local mini=$COMERA_DATA/checkpoints/all-MiniLM-L6-v2
    "$comera" tensorize "$mini" -o mini --ratio 2 --quiet >mini.out
    "$comera" export mini -o mini.onnx --quiet
    "$comera" export mini --to safetensors -o mini.safe --quiet
  fi
}
for side in old new; do
  mkdir "$work/$side"
  (cd "$work/$side" && all "${!side}" >log.txt 2>&1) &  # in the background, where `set -e` holds inside it
  wait $! || { tail -5 "$work/$side/log.txt"; echo "$side: failed"; exit 1; }
done
python3 "$here/compare_folders.py" "$work/old" "$work/new"
