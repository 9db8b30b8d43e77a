#!/usr/bin/env bash
# A signal at any time during compression, comparison and export: the program stops within two seconds. A resumed
# tensorize ends with the same bytes.
. "$(dirname "$0")/../expect.sh"
# shellcheck source=../interrupted.sh
. "$tests/cli/interrupted.sh" || exit 1

python3 "$tests/../scripts/make_checkpoint.py" bert --architecture bert --layers 3 --hidden 128 --intermediate 512 \
  --vocabulary 400 --heads 4 --shards 1 --type F32
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' a e i o u s t n r d l h c m the of and cat mat dog \
  >bert/vocab.txt
for letter in b f g j k p q v w x y z; do printf '%s\n##%s\n' "$letter" "$letter"; done >>bert/vocab.txt
seq 20000 | awk '{ print "the cat of dog " $1 " sat of the mat and the dog of cat " $1 * 7 % 1300 }' >text.txt

going_on='stopping; what is done is kept, and the same command goes on there; again to quit now'
options=(bert --ratio "1.7,2.5" --calibrate text.txt --calibrate-tokens 12000 --threads 2)
run "$COMERA" tensorize "${options[@]}" -o whole
expect_exit 0
kept=./small.partial
for moment in 0 0.4 1.2; do  # while it reads, and while it measures the layers
  interrupted INT $moment "$answer|$going_on" "$COMERA" tensorize "${options[@]}" -o small
done
# While it fits layers: all of the first block at both sizes, those of the second block at the first size.
"$COMERA" tensorize "${options[@]}" -o small >.out 2>.err &
pid=$!
finished() { find small.partial -name 'plan-*' 2>/dev/null | wc -l; }
while kill -0 $pid 2>/dev/null && [ "$(finished)" -lt 19 ]; do sleep 0.01; done
start=$(date +%s%N)
kill -s TERM $pid
wait $pid
code=$?
took=$((($(date +%s%N) - start) / 1000000))
last='tensorize while it fits layers'
expect_exit 143
[ $took -lt $limit ] || fail "it ends within $limit ms; it took $took"
expect_err "^$going_on\$"
ls small.partial/plan-* >/dev/null 2>&1 || fail "finished work is kept"
run "$COMERA" tensorize "${options[@]}" -o small
expect_exit 0
for ratio in 1.7 2.5; do
  expect_same_bytes whole/ratio-$ratio/model.safetensors small/ratio-$ratio/model.safetensors
done
kept=none
expect_no_file small.partial

for moment in 0 1; do
  interrupted INT $moment "$answer" "$COMERA" evaluate small/ratio-1.7 --against bert --data text.txt
done
interrupted TERM 0.3 "$answer" "$COMERA" inspect small/ratio-1.7 --verify bert --calibrate text.txt

python3 "$tests/../scripts/make_checkpoint.py" large --architecture bert --layers 4 --hidden 512 --intermediate 2048 \
  --vocabulary 2000 --heads 4 --shards 1 --type F32
run "$COMERA" tensorize large -o chains --rank 64 --exclude '*embed*'
expect_exit 0
for moment in 0 0.8; do
  interrupted INT $moment "$answer" "$COMERA" export large -o graph.onnx
done
interrupted TERM 0.4 "$answer" "$COMERA" export large -o graph
interrupted TERM 0.2 "$answer" "$COMERA" export chains -o dense --to safetensors
finish
