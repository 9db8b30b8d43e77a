#!/usr/bin/env bash
# A signal during an evaluation: the evaluation stops at once, the checkpoint marks it as due, and the resumed run makes
# it.
. "$(dirname "$0")/../expect.sh"
. "$(dirname "$0")/../tiny_task.sh"

{ head -n 1 train.tsv && for _ in $(seq 600); do tail -n +2 train.tsv; done; } >long.tsv
options=("${model[@]}" "${columns[@]}" --tokenizer vocab.txt --seq 8 --batch 2 --steps 4 --lr 1e-2 --lr-cores 1e-2
  --threads 2 --log-every 1
  --data train.tsv --dev long.tsv --eval-every 2)
run "$COMERA" pretrain "${options[@]}" -o whole
expect_exit 0

stopped_at() { # STEP
  : >.err
  "$COMERA" pretrain "${options[@]}" -o "stopped-$1" --resume >.out 2>.err &
  pid=$!
  while kill -0 $pid 2>/dev/null && ! grep -q "step $1/4" .err; do sleep 0.01; done
  sleep 0.05
  kill -s TERM $pid
  wait $pid
  code=$?
  last="pretrain stopped in its evaluation at step $1"
  expect_exit 143
  ! grep -q "step $1  dev" .err || fail "the evaluation at step $1 is stopped"
  grep -q '"evaluation_due": true' "stopped-$1/checkpoints/step-0000000$1/state.json" ||
    fail "the checkpoint marks the evaluation as due"
  run "$COMERA" pretrain --resume "stopped-$1"
  expect_exit 0
  for name in model.safetensors config.json checkpoints/step-00000004/optimizer.safetensors; do
    expect_same_bytes "whole/$name" "stopped-$1/$name"
  done
  for key in loss accuracy; do
    expect_equal "$(grep -o "\"split\":\"dev\".*\"$key\":[^,]*" "stopped-$1/metrics.jsonl" |
      sed 's/.*"loss"/"loss"/')" \
      "$(grep -o "\"split\":\"dev\".*\"$key\":[^,]*" whole/metrics.jsonl | sed 's/.*"loss"/"loss"/')"
  done
}
stopped_at 2
stopped_at 4
finish
