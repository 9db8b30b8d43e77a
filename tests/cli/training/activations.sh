#!/usr/bin/env bash
# --activations: exact policies give the same bytes, copies give the same bytes for any number of threads and after a
# resume, slopes in two bits likewise, a changed copy is refused on resume, and nonsense is refused before any work.
. "$(dirname "$0")/../expect.sh"
# shellcheck source=../tiny_task.sh
. "$tests/cli/tiny_task.sh" || exit 1

for policy in keep cheap block; do
  run "$COMERA" pretrain "${tiny[@]}" --form tt --activations $policy -o "$policy"
  expect_exit 0
done
run "$COMERA" pretrain "${tiny[@]}" --layers 3 --form tt --save-every 2 -o deep
expect_exit 0
run "$COMERA" pretrain "${tiny[@]}" --layers 3 --form tt --activations '*layer.1.*=block,*layer.0.output*=cheap' -o named
expect_exit 0
expect_same_bytes deep/model.safetensors named/model.safetensors
expect_same_bytes keep/model.safetensors cheap/model.safetensors
expect_same_bytes keep/model.safetensors block/model.safetensors

# expect_repeatable EXACT OPTION...: other bytes than the run EXACT, the same for any number of threads and after a resume
expect_repeatable() {
  local exact=$1
  shift
  rm -rf one two
  run "$COMERA" pretrain "${tiny[@]}" "$@" --save-every 2 --threads 1 -o one
  expect_exit 0
  run "$COMERA" pretrain "${tiny[@]}" "$@" --save-every 2 --threads 2 -o two
  expect_exit 0
  expect_same_bytes one/model.safetensors two/model.safetensors
  cmp -s "$exact/model.safetensors" one/model.safetensors && fail "$* changed nothing"
  expect_resumes one
}

for policy in bf16 'cheap,bf16,*attention*=int8' int8 'cheap,int4-stochastic' 'int8,*attention*=int4' 'block,int8'; do
  expect_repeatable keep --form tt --activations "$policy"
done

run "$COMERA" pretrain "${tiny[@]}" --form lowrank --activations keep -o lowrank
expect_exit 0
expect_repeatable lowrank --form lowrank --activations bf16

# two bits for the slope of GELU: on dense layers, beside copies of the other values
run "$COMERA" pretrain "${tiny[@]}" --form dense --activations keep -o exact
expect_exit 0
expect_repeatable exact --form dense --activations block,bf16
run "$COMERA" pretrain --resume one --activations block,int8
expect_refused '--activations was block,bf16 and is block,int8'
for policy in act2bit act2bit-approxbp 'act2bit,int8' 'cheap,act2bit' 'block,int8,*intermediate*=act2bit'; do
  expect_repeatable exact --form dense --activations "$policy"
done
run "$COMERA" pretrain --resume one --activations block,int8 # without act2bit
expect_refused '--activations was .*act2bit.* and is'
# 30 bits per number of the inputs of GELU in the six layers
saved_bytes() { # POLICY [FORM]
  run "$COMERA" pretrain --model mnli-6enc --form "${2:-dense}" --batch 32 --seq 128 --activations "$1" --dry-run --json
  expect_exit 0
  python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["memory"]["saved"])' .out
}
expect_equal $(($(saved_bytes keep) - $(saved_bytes act2bit))) $((6 * 32 * 128 * 3072 * 30 / 8))

# bf16 halves what is kept, but for the few statistics and the tensors that a layer under way holds beside its copy
for form in dense lowrank tt; do
  kept=$(saved_bytes keep $form)
  halved=$(saved_bytes bf16 $form)
  percent=$((100 * halved / kept))
  case $percent in
    49 | 50) ;;
    *) fail "$form: bf16 keeps $halved of $kept bytes" ;;
  esac
done

run "$COMERA" pretrain "${tiny[@]}" --form tt --save-every 2 --activations 'block,int8' -o eight
expect_exit 0
# a resume may compute more exact values again, but not change a copy or what copies are made of
run "$COMERA" pretrain --resume keep --activations block
expect_exit 0
run "$COMERA" pretrain --resume deep --activations '*layer.[01]=block'
expect_exit 0
run "$COMERA" pretrain --resume eight --activations keep,int8
expect_refused '--activations was block,int8 and is keep,int8'
run "$COMERA" pretrain --resume eight --activations int4
expect_refused '--activations was block,int8 and is int4'

# projections, with cores, with dense weights whose moments are in the subspace, and with moments of 8 bits
wide=(--form dense --hidden 128 --intermediate 256 --optimizer adamw8bit)
run "$COMERA" pretrain "${tiny[@]}" "${wide[@]}" -o wide
expect_exit 0
expect_repeatable keep --form tt --activations compact
expect_repeatable exact --form dense --activations compact,int8 --compact-sketch orthonormal
expect_repeatable exact --form dense --activations cheap,compact --compact-shared --compact-refresh 2
expect_repeatable wide "${wide[@]}" --activations compact --compact-ratio 0.5
run "$COMERA" pretrain --resume one --compact-refresh 7
expect_refused '--compact-refresh was'
run "$COMERA" bench --model encoder-small --layers 1 --form dense --batch 2 --seq 8 --activations compact --isa v3 \
  --optimizer adamw8bit --warmup 1 --repetitions 1
expect_exit 0
run "$COMERA" pretrain --resume one --activations velora --velora-group 4 --override --steps 8
expect_exit 2
expect_err 'optimizer.safetensors: .*: the state is that of another --optimizer, or of other settings of --activations'
run "$COMERA" pretrain --resume one --compact-ratio 0.25 --override --steps 8
expect_exit 2
expect_err 'has shape .*, and this call needs it with shape .*, or of other settings of --activations compact'
refuses 'compact-ratio' --data train.tsv "${columns[@]}" --activations compact --compact-ratio 1.5
refuses 'no input of a linear layer is projected' --data train.tsv "${columns[@]}" --activations compact --compact-rank 999
refuses 'compact-refresh has no effect without --activations compact' --data train.tsv "${columns[@]}" \
  --activations int8 --compact-refresh 3
refuses 'a projection needs at least one column' --data train.tsv "${columns[@]}" --activations compact --compact-ratio 0

# inputs of norms from their outputs: within rounding, so the bytes differ, and a resume may not change it
for policy in share 'share,int8'; do
  expect_repeatable keep --form tt --activations "$policy"
done
run "$COMERA" pretrain --resume one --activations cheap,int8
expect_refused '--activations was share,int8 and is cheap,int8'
expect_repeatable exact --form dense --activations share
run "$COMERA" pretrain --resume one --activations cheap
expect_refused '--activations was share and is '

# products with one vector per dense layer, which the checkpoint has
for policy in velora 'velora,int8' 'block,*intermediate*=velora' 'act2bit,velora'; do
  expect_repeatable exact --form dense --activations "$policy" --velora-group 4
done
python3 - one/checkpoints/step-00000004/optimizer.safetensors <<'END' || fail "no vector in the checkpoint"
import json, sys
data = open(sys.argv[1], "rb").read()
header = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
assert any(k.startswith("direction.") and v["shape"] == [4] for k, v in header.items()), list(header)
END
run "$COMERA" pretrain --resume one --activations act2bit
expect_refused '--activations was .*velora.* and is'
run "$COMERA" pretrain --resume one --velora-group 8
expect_refused '--velora-group was 4 and is 8'
refuses '--velora-group 7: .* has 32 inputs, which it does not divide; use 4 or 8' --form dense --data train.tsv \
  "${columns[@]}" --activations velora --velora-group 7
refuses 'velora: it keeps no value: .* use keep in place of cheap or share' --form dense --data train.tsv \
  "${columns[@]}" --activations cheap,velora
refuses 'no dense linear layer matches; for layers in tensor-train or low-rank form use int4' --form tt \
  --data train.tsv "${columns[@]}" --activations velora
# In each of 6 blocks, for 8 x 128 tokens: the inputs of q, k and v, of gate and up, and of down
saved_bytes_of() { # POLICY [OPTION...]
  run "$COMERA" pretrain --model llama-6m --task clm --form dense --batch 8 --seq 128 --dry-run --json --activations "$@"
  expect_exit 0
  python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["memory"]["saved"])' .out
}
rm -rf four
run "$COMERA" pretrain "${tiny[@]}" --form dense --activations act2bit,velora --velora-group 4 --threads 4 -o four
expect_exit 0
expect_same_bytes one/model.safetensors four/model.safetensors
expect_equal $(($(saved_bytes_of keep) - $(saved_bytes_of velora --velora-group 16))) $((6 * 8 * 128 * 4 * (256 + 256 + 688) * 15 / 16))

# values in host memory: for GPUs, planned without one
for device in cpu reference; do
  refuses "offload: .* --device $device has them there; use cheap" --data train.tsv "${columns[@]}" \
    --activations '*attention*=offload' --device "$device"
done
refuses 'offload-speed 0: a forward would never end' --data train.tsv "${columns[@]}" --activations offload --device cuda \
  --offload-speed 0
peak_of() { # OPTION...: planned bytes on a GPU
  run "$COMERA" pretrain --model llama-6m --task clm --form dense --batch 8 --seq 128 --device cuda --dry-run --json "$@"
  expect_exit 0
  python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["memory"]["peak"])' .out
}
all=$(peak_of --activations keep)
expect_equal "$(peak_of --activations offload --offload-bandwidth 0)" "$all"
expect_equal "$(peak_of --activations offload --offload-memory 0)" "$all"
[ "$(peak_of --activations offload --offload-bandwidth 1000)" -lt "$((all * 2 / 3))" ] || fail 'offload saves too little'

# words without effect
dense=(--form dense --data train.tsv "${columns[@]}")
for idle in '*query=int8,int4' 'int8,int8' '*query=keep,*=int8' 'compact,velora'; do
  refuses 'has no effect, because the last word that is for a value counts, and later words take all that it names' \
    "${dense[@]}" --activations "$idle"
done
rm -rf idle
run "$COMERA" pretrain "${tiny[@]}" --activations int8 --save-every 2 -o idle
expect_exit 0
sed -i 's/^activations = .*/activations = ["int8", "cheap", "int8", "keep"]/' idle/recipe.toml # a run of an earlier program
expect_resumes idle
run "$COMERA" pretrain --resume idle --activations int8,int8 --override
expect_refused 'int8: has no effect'
refuses "keep: without a name it means that nothing is computed again, and leaves 'int8' before it as it is" \
  "${dense[@]}" --activations int8,keep
refuses '[*]query=int8: keeps nothing, because the values that it names are computed again' "${dense[@]}" --layers 2 \
  --activations 'cheap,*layer.1*query=int8'
refuses 'cheap: has no effect, because block after it is for all layers too' "${dense[@]}" --activations cheap,block
refuses "=int8: no layer is named; leave out '='" "${dense[@]}" --activations =int8
refuses 'compact-ratio 0.5: has no effect beside --compact-rank 8' "${dense[@]}" --activations compact \
  --compact-ratio 0.5 --compact-rank 8
refuses 'each has at most as many columns as the projection; use a smaller --compact-ratio' "${dense[@]}" \
  --activations compact --compact-ratio 1
refuses 'compact: no input of a linear layer is projected, because each is kept for another layer or computed again' \
  "${dense[@]/dense/tt}" --activations cheap,compact
for glob in '*attention.output.dense' '*Norm*'; do for policy in compact velora; do
  refuses "$policy: no .*linear layer matches whose input it may keep.* the attention's output .*query" "${dense[@]}" \
    --activations "$glob=$policy"
done; done
refuses 'a layer in tensor-train or low-rank form keeps no input' "${dense[@]/dense/lowrank}" --activations act2bit

refuses "there is no policy 'int9'; did you mean int" --data train.tsv "${columns[@]}" --activations int9
refuses 'no block matches that can run again; the model has none' --data train.tsv "${columns[@]}" \
  --activations '*dense=block'
refuses 'no block matches that can run again; these can, the last one cannot: bert.encoder.layer.0' --layers 2 \
  --data train.tsv "${columns[@]}" --activations '*layer.1=block'
refuses 'no layer matches whose values can be computed again' --layers 2 --data train.tsv "${columns[@]}" \
  --activations '*layer.0=block,*layer.0.*dense=cheap'
refuses 'no layer of the model matches; its layers are' --data train.tsv "${columns[@]}" --activations 'decoder*=int8'
refuses 'no dense layer with GELU or SiLU matches; a layer in tensor-train or low-rank form keeps no input' --form tt \
  --data train.tsv "${columns[@]}" --activations act2bit,int8
run "$COMERA" pretrain --model llama-6m --task clm --form dense --batch 1 --seq 16 --activations act2bit --dry-run
expect_refused 'no dense layer with GELU or SiLU matches.*a gated layer needs its numbers.*use int8'

finish
