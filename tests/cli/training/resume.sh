#!/usr/bin/env bash
# A run that is stopped or killed at any time resumes to the bytes of an uninterrupted run.
. "$(dirname "$0")/../expect.sh"

# 200 rows of three labels, made of the letters of a vocabulary of 40 pieces.
awk 'BEGIN {
  srand(5); print "text\tlabel"
  for (i = 0; i < 200; i++) {
    words = ""
    for (n = 2 + int(rand() * 6); n > 0; n--) words = words sprintf("%c ", 97 + int(rand() * 26))
    print words "\t" "class" (substr(words, 1, 1) < "j" ? 0 : substr(words, 1, 1) < "s" ? 1 : 2)
  }
}' >train.tsv
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' {a..z} >vocab.txt

options=(--model encoder-small --layers 1 --hidden 64 --heads 2 --intermediate 128 --positions 16 --seq 16 --form tt
  --rank 8 --embedding-rank 8
  --task classify --data train.tsv --dev train.tsv --text text --label label --tokenizer vocab.txt --batch 8 \
    --accumulate 2 --steps 40 --seed 3
  --lr 1e-3 --lr-cores 1e-3 --lr-ranks 5e-2 --warmup 4 --prune-every 5 --target-fraction 0.6 --late-after 15 \
    --save-every 10 --eval-every 10 --keep 2)

run "$COMERA" pretrain "${options[@]}" -o whole
expect_exit 0
expect_file whole/model.safetensors

same_as_whole() {
  expect_same_bytes whole/model.safetensors "$1/model.safetensors"
  expect_same_bytes whole/config.json "$1/config.json"
  expect_same_bytes whole/checkpoints/step-00000040/optimizer.safetensors \
    "$1/checkpoints/step-00000040/optimizer.safetensors"
}

# --resume starts a new run if there is none, and does not change a finished one.
run "$COMERA" pretrain "${options[@]}" -o once --resume
expect_exit 0
run "$COMERA" pretrain --resume once
expect_exit 0
same_as_whole once

# A run that takes no further step keeps its recipe, whatever the call asks for.
cp once/recipe.toml before.toml
run "$COMERA" pretrain --resume once --override --lr 0.5
expect_exit 0
expect_err 'no step followed: its recipe stays, and changed options had no effect'
expect_same_bytes before.toml once/recipe.toml
run "$COMERA" pretrain --resume once
expect_exit 0
same_as_whole once
run "$COMERA" pretrain --resume once --override --steps 41
expect_exit 0
grep -q '^steps = 41' once/recipe.toml || fail "the recipe has the options of the further steps"

# SIGTERM and SIGINT: the run finishes the step, saves a checkpoint and ends with 128 + n.
for signal in TERM:143 INT:130; do
  name=stopped-${signal%:*}
  : >.err
  "$COMERA" pretrain "${options[@]}" --log-every 1 -o "$name" >.out 2>.err &
  pid=$!
  while kill -0 $pid 2>/dev/null && ! grep -q 'step 20/40' .err; do sleep 0.01; done
  kill -s "${signal%:*}" $pid 2>/dev/null
  wait $pid
  code=$?
  last="pretrain stopped by $signal"
  [ "$code" = 0 ] || expect_exit "${signal#*:}"
  run "$COMERA" pretrain --resume "$name"
  expect_exit 0
  same_as_whole "$name"
done

# A step that takes seconds is abandoned, and repeated by the resumed run. Before its first step a run is stopped too.
long=("${options[@]}" --device reference --hidden 256 --intermediate 1024 --rank 32 --accumulate 25 --steps 2
  --target-fraction 1 --late-after 1 --eval-every 2 --log-every 1)
run "$COMERA" pretrain "${long[@]}" -o long
expect_exit 0
for moment in 0/2 1/2; do
  name=abandoned-${moment%/2}
  : >.err # the loop must not read what an earlier run wrote
  "$COMERA" pretrain "${long[@]}" -o "$name" >.out 2>.err &
  pid=$!
  if [ $moment = 1/2 ]; then line='step 1/2'; else line="$name/checkpoints"; fi
  while kill -0 $pid 2>/dev/null && ! grep -q "$line" .err && [ ! -d "$line" ]; do sleep 0.01; done
  kill -s INT $pid
  wait $pid
  code=$?
  last="pretrain stopped in the step behind $moment"
  expect_exit 130
  expect_err '^stopping; the steps done are kept; again to quit now$'
  expect_err "stopped by signal 2 after step ${moment%/2}; continue with"
  run "$COMERA" pretrain --resume "$name"
  expect_exit 0
  expect_same_bytes long/checkpoints/step-00000002/optimizer.safetensors \
    "$name/checkpoints/step-00000002/optimizer.safetensors"
done

# SIGKILL at random times of one run, which resumes each time.
RANDOM=11
for _ in $(seq 20); do
  "$COMERA" pretrain "${options[@]}" -o killed --resume >.out 2>.err &
  pid=$!
  sleep "0.$(printf %03d $((RANDOM % 400)))"
  kill -s KILL $pid 2>/dev/null
  wait $pid 2>/dev/null
done
run "$COMERA" pretrain "${options[@]}" -o killed --resume
expect_exit 0
same_as_whole killed

# Abort at every 7th write, fsync or rename.
for ((fault = 1; fault < 1000; fault += 7)); do
  last="pretrain with COMERA_FAULT_AT=$fault"
  COMERA_FAULT_AT=$fault "$COMERA" pretrain "${options[@]}" -o faulty --force >.out 2>.err
  code=$?
  [ "$code" = 0 ] && break
  expect_exit 137
  run "$COMERA" pretrain "${options[@]}" -o faulty --resume
  expect_exit 0
  same_as_whole faulty
done

# Options that would change the result are refused by name; other data is refused too.
run "$COMERA" pretrain "${options[@]}" --lr 2e-3 -o whole --resume
expect_refused '--lr was 0.001 and is 0.002'
run "$COMERA" pretrain "${options[@]}" -o whole
expect_refused 'whole is not empty; --resume .* --force'
sed -i '2s/class./class1/;3s/class./class0/' train.tsv
run "$COMERA" pretrain --resume whole
expect_refused 'training data changed'

# A file name that a recipe cannot store is refused before the run, because no run could be resumed from it.
cp train.tsv $'tr\xffain.tsv'
run "$COMERA" pretrain "${options[@]}" --data $'tr\xffain.tsv' -o unreadable
expect_refused 'is no UTF-8, which a recipe must be'
expect_no_file unreadable
finish
