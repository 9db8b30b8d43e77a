#!/usr/bin/env bash
# --between: low-rank weights with an activation between their factors train, resume, lose ranks, are evaluated and
# trained further; whatever needs a matrix refuses them.
. "$(dirname "$0")/../expect.sh"
# shellcheck source=../tiny_task.sh
. "$tests/cli/tiny_task.sh" || exit 1
bent=("${tiny[@]}" --form lowrank --between silu --save-every 2)

run "$COMERA" pretrain "${tiny[@]}" --form lowrank -o straight
expect_exit 0
for threads in 1 2; do
  run "$COMERA" pretrain "${bent[@]}" --threads $threads -o run$threads
  expect_exit 0
done
expect_same_bytes run1/model.safetensors run2/model.safetensors
cmp -s straight/model.safetensors run1/model.safetensors && fail 'the activation changed nothing'
expect_resumes run1
for policy in cheap block; do # the same gradients
  run "$COMERA" pretrain "${bent[@]}" --activations $policy -o run-$policy
  expect_exit 0
  expect_same_bytes run1/model.safetensors run-$policy/model.safetensors
done
for policy in int8 compact; do
  run "$COMERA" pretrain "${bent[@]}" --activations $policy -o run-$policy
  expect_exit 0
done

# the folder has what a reader needs
run "$COMERA" inspect run1
expect_out 'lowrank[+]silu'
grep -q '"between": *"silu"' run1/config.json || fail 'config.json names the activation'
run "$COMERA" evaluate run1 --data dev.tsv "${columns[@]}"
expect_exit 0
expect_out 'accuracy'
run_with 'round red' "$COMERA" predict run1
expect_exit 0
run "$COMERA" finetune run1 "${columns[@]}" --data train.tsv --steps 2 --batch 4 --quiet -o further
expect_exit 0
grep -q '"between": *"silu"' further/config.json || fail 'finetune keeps the activation'
run "$COMERA" pretrain "${bent[@]}" --steps 12 --prune-every 3 --target-fraction 0.5 --late-after 6 --lr-ranks 5e-2 -o pruned
expect_exit 0

for format in onnx safetensors; do
  run "$COMERA" export run1 --to $format -o exported
  expect_exit 2
  expect_err 'has silu between its two factors, so it is no matrix'
  expect_no_file exported
done
refuses 'no linear weight is in low-rank form; use --form lowrank' --data train.tsv "${columns[@]}" --form tt --between silu
sed -i 's/"between": *"silu"/"between": "relu"/' run1/config.json
run "$COMERA" inspect run1
expect_refused '"between" is "relu", which this program does not know'
finish
