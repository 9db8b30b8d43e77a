#!/usr/bin/env bash
# --refactor-every: the same bytes for any number of threads and after a resume; refused where ranks adapt or no weight
# has factors.
. "$(dirname "$0")/../expect.sh"
# shellcheck source=../tiny_task.sh
. "$tests/cli/tiny_task.sh" || exit 1

for form in tt lowrank; do
  fixed=("${tiny[@]}" --form "$form" --no-adapt-ranks --save-every 2)
  run "$COMERA" pretrain "${fixed[@]}" -o plain
  expect_exit 0
  for threads in 1 2; do
    run "$COMERA" pretrain "${fixed[@]}" --refactor-every 2 --threads $threads -o run$threads
    expect_exit 0
  done
  expect_same_bytes run1/model.safetensors run2/model.safetensors
  cmp -s plain/model.safetensors run1/model.safetensors && fail "a new factorisation changed nothing ($form)"
  expect_resumes run1
  rm -rf plain run1 run2 again
done

refuses '--refactor-every .* add --no-adapt-ranks' --data train.tsv "${columns[@]}" --form tt --refactor-every 2
refuses 'no weight in tensor-train form; use --form lowrank or tt' --data train.tsv "${columns[@]}" --form dense \
  --no-adapt-ranks --refactor-every 2
refuses 'has an activation between its factors' --data train.tsv "${columns[@]}" --form lowrank --between silu \
  --no-adapt-ranks --refactor-every 2

# Chains of comera tensorize store no diagonals.
run "$COMERA" pretrain "${tiny[@]}" --form dense -o dense
expect_exit 0
run "$COMERA" tensorize dense --no-gauge --rank 4 -o cut
expect_exit 0
run "$COMERA" finetune cut --data train.tsv --dev dev.tsv "${columns[@]}" --steps 4 --refactor-every 2 -o finetuned
expect_exit 0
finish
