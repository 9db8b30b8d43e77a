#!/usr/bin/env bash
# --weight-norm-decay: the same bytes for any number of threads and after a resume between two steps that decay, with
# tensor trains, low-rank pairs and ranks that fall; a dense model has nothing that it changes; another value on a resume
# is refused.
. "$(dirname "$0")/../expect.sh"
# shellcheck source=../tiny_task.sh
. "$tests/cli/tiny_task.sh" || exit 1
tiny+=(--steps 12)
decaying=("${tiny[@]}" --save-every 6 --weight-norm-decay 50)

for form in tt lowrank; do
  run "$COMERA" pretrain "${tiny[@]}" --form $form -o plain
  expect_exit 0
  run "$COMERA" pretrain "${decaying[@]}" --form $form --threads 1 -o one
  expect_exit 0
  run "$COMERA" pretrain "${decaying[@]}" --form $form --threads 2 -o two
  expect_exit 0
  expect_same_bytes one/model.safetensors two/model.safetensors
  cmp -s plain/model.safetensors one/model.safetensors && fail "the decay changed nothing ($form)"
  expect_resumes one 12
  rm -rf plain one two again
done

# the share is one of AdamW's rate: cores with another method keep --weight-decay
for form in "tt --optimizer adagrad --lr 1e-2" dense; do
  # shellcheck disable=SC2086
  run "$COMERA" pretrain "${tiny[@]}" --form $form --weight-norm-decay 50 -o nothing
  expect_refused '--weight-norm-decay 50 would decay nothing: .*--weight-decay'
  [ ! -e nothing ] || fail "a refused run left a folder"
  for decay in 0 1; do
    { cat ranks.toml && echo "weight_norm_decay = $decay"; } > decay.toml
    # shellcheck disable=SC2086
    run "$COMERA" pretrain "${tiny[@]}" --form $form --config decay.toml -o "${form%% *}$decay"
    expect_exit 0
  done
  expect_same_bytes "${form%% *}0/model.safetensors" "${form%% *}1/model.safetensors"
done
run "$COMERA" pretrain "${decaying[@]}" --form tt -o one
expect_exit 0
run "$COMERA" pretrain --resume one --weight-norm-decay 2
expect_refused '--weight-norm-decay was 50 and is 2'
run "$COMERA" pretrain "${tiny[@]}" --weight-norm-decay -1 -o two
expect_refused 'weight-norm-decay.*-1'

# removed entries of the diagonals leave smaller cores to the decay
for threads in 1 2; do
  run "$COMERA" pretrain "${tiny[@]}" --form tt --weight-norm-decay 5 --prune-every 3 --target-fraction 0.5 \
    --late-after 6 --lr-ranks 5e-2 --threads $threads -o fallen$threads
  expect_exit 0
done
expect_same_bytes fallen1/model.safetensors fallen2/model.safetensors
