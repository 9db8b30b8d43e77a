#!/usr/bin/env bash
# --activations: exact policies give the same bytes, copies give the same bytes for any number of threads and after a
# resume, a changed copy is refused on resume, and nonsense is refused before any work.
. "$(dirname "$0")/../expect.sh"
# shellcheck source=../tiny_task.sh
. "$tests/cli/tiny_task.sh" || exit 1

for policy in keep cheap block; do
  run "$COMERA" pretrain "${tiny[@]}" --form tt --activations $policy -o "$policy"
  expect_exit 0
done
expect_same_bytes keep/model.safetensors cheap/model.safetensors
expect_same_bytes keep/model.safetensors block/model.safetensors

for policy in int8 'cheap,int4-stochastic' 'int8,*attention*=int4' 'block,int8'; do
  rm -rf one two again
  run "$COMERA" pretrain "${tiny[@]}" --form tt --save-every 2 --activations "$policy" --threads 1 -o one
  expect_exit 0
  run "$COMERA" pretrain "${tiny[@]}" --form tt --save-every 2 --activations "$policy" --threads 2 -o two
  expect_exit 0
  expect_same_bytes one/model.safetensors two/model.safetensors
  cmp -s keep/model.safetensors one/model.safetensors && fail "--activations $policy changed nothing"
  cp -r one again
  rm -r again/checkpoints/step-00000004 again/model.safetensors
  run "$COMERA" pretrain --resume again
  expect_exit 0
  expect_same_bytes one/model.safetensors again/model.safetensors
done

# a resume may recompute more, but not change a copy
run "$COMERA" pretrain --resume one --activations keep,int8
expect_exit 0
run "$COMERA" pretrain --resume one --activations int4
expect_refused '--activations was .*int8 and is int4'

# projections, with cores, with dense weights whose moments are in the subspace, and with moments of 8 bits
for choice in '--form tt --activations compact' '--form dense --activations compact,int8 --compact-sketch orthonormal' \
  '--form dense --activations cheap,compact --compact-shared --compact-refresh 2' \
  '--form dense --hidden 128 --intermediate 256 --activations compact --compact-ratio 0.5 --optimizer adamw8bit'; do
  rm -rf with-1 with-2 again
  # shellcheck disable=SC2086  # a list of words
  for threads in 1 2; do
    run "$COMERA" pretrain "${tiny[@]}" $choice --save-every 2 --threads $threads -o "with-$threads"
    expect_exit 0
  done
  expect_same_bytes with-1/model.safetensors with-2/model.safetensors
  cmp -s keep/model.safetensors with-1/model.safetensors && fail "$choice changed nothing"
  cp -r with-1 again
  rm -r again/checkpoints/step-00000004 again/model.safetensors
  run "$COMERA" pretrain --resume again
  expect_exit 0
  expect_same_bytes with-1/model.safetensors again/model.safetensors
  run "$COMERA" pretrain --resume with-1 --compact-refresh 7
  expect_refused '--compact-refresh was'
done
refuses 'compact-ratio' --data train.tsv "${columns[@]}" --activations compact --compact-ratio 1.5
refuses 'no input of a linear layer is projected' --data train.tsv "${columns[@]}" --activations compact --compact-rank 999
refuses 'a projection needs at least one column' --data train.tsv "${columns[@]}" --activations compact --compact-ratio 0

refuses "there is no policy 'int9'; did you mean int" --data train.tsv "${columns[@]}" --activations int9
refuses "'cheap' is for all layers" --data train.tsv "${columns[@]}" --activations '*dense=cheap'
refuses 'no layer of the model matches; its layers are' --data train.tsv "${columns[@]}" --activations 'decoder*=int8'

finish
