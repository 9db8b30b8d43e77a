# shellcheck shell=bash disable=SC2034
# Sourced after expect.sh: a task and a model that train in milliseconds.
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' red green blue round square and >vocab.txt
{
  printf 'label\ttext\tsecond\n'
  for i in $(seq 20); do
    printf 'red\tround red %s\tand\ngreen\tsquare green\tand\nblue\tround blue blue\tand\n' "$((i % 3))"
  done
} >train.tsv
cp train.tsv dev.tsv
printf 'round red\n\nsquare blue round red\nround round\n' >corpus.txt
# Options of a file are for many calls: those with --form dense have no ranks.
printf '%s = %s\n' rank 4 embedding-rank 4 order 2 embedding-order 2 >ranks.toml
model=(--config ranks.toml --model encoder-small --layers 1 --hidden 32 --heads 2 --intermediate 64 --positions 16)
words=(--tokenizer vocab.txt --seq 8 --batch 4 --steps 4 --quiet)
columns=(--text text --label label)
tiny=("${model[@]}" "${words[@]}" "${columns[@]}" --data train.tsv --dev dev.tsv)

# refuses REGEX OPTION...: pretrain with the model, the vocabulary and these options is refused and writes no file.
refuses() {
  local message=$1
  shift
  run "$COMERA" pretrain "${model[@]}" "${words[@]}" -o new "$@"
  expect_refused "$message"
  expect_no_file new
  rm -rf new
}

# expect_resumes RUN [STEP]: without its last checkpoint, after STEP (4), the run ends with the same bytes again. Leaves
# `again`.
expect_resumes() {
  rm -rf again
  cp -r "$1" again
  rm -r "again/checkpoints/step-$(printf %08d "${2:-4}")" again/model.safetensors
  run "$COMERA" pretrain --resume again
  expect_exit 0
  expect_same_bytes "$1/model.safetensors" again/model.safetensors
}
