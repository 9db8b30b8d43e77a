#!/usr/bin/env bash
# --optimizer adagrad, sgd, muon, adamw8bit, galore, galore8bit, apollo-mini, lomo, adalomo, and by name: the same bytes
# for any number of threads and after a resume, fewer bytes of state, through a removal of ranks; refused where it has
# nothing to do and on a resume of another optimiser. AdamW's default rates are named where they are not for a method.
. "$(dirname "$0")/../expect.sh"
# shellcheck source=../tiny_task.sh
. "$tests/cli/tiny_task.sh" || exit 1
wide=("${tiny[@]}" --hidden 64 --intermediate 128 --save-every 2)
subspaces=(--galore-rank 8 --galore-refresh 3)

# expect_states RUN STATE ONLY NOT: weights whose names match ONLY and not NOT have this state of their shape, the others
# AdamW's moments; and ranks were removed
expect_states() {
  python3 - "$@" <<'PY' || fail "$2 is the state of the weights that the method takes, in their shape"
import json, re, struct, sys
run, state, only, but = sys.argv[1:]
def shapes(name):
    with open(f"{run}/checkpoints/step-00000012/{name}.safetensors", "rb") as file:
        tensors = json.loads(file.read(*struct.unpack("<Q", file.read(8))))
        return {key: one["shape"] for key, one in tensors.items() if key != "__metadata__"}
weights, states = shapes("model"), shapes("optimizer")
for key in weights:
    found = {one for one in ("moment1", "moment2", state) if f"{one}.{key}" in states}
    taken = re.search(only, key) and not re.search(but, key)
    assert found == ({state} if taken else {"moment1", "moment2"}), (key, found)
    assert not taken or ".tt." not in key or states[f"{state}.{key}"] == weights[key], key
assert any(".rank." in key and shape != [4] for key, shape in weights.items()), weights
PY
}

named='adamw8bit,*attention*=apollo-mini,*output.dense=galore'
for method in adagrad sgd '*=muon' adamw8bit galore galore8bit apollo-mini lomo adalomo "$named"; do for form in dense tt; do
  # of the model in TT form the pooler's and the classifier's weights are too small or chains, so one layer stays dense
  [ $form = dense ] && forms=(--form dense) || forms=(--form tt --layer '*output.dense=form:dense')
  run "$COMERA" pretrain "${wide[@]}" "${forms[@]}" --optimizer adamw -o plain
  expect_exit 0
  [[ $method == *galore* ]] && forms+=("${subspaces[@]}")
  run "$COMERA" pretrain "${wide[@]}" "${forms[@]}" --optimizer "$method" --threads 1 -o one
  expect_exit 0
  run "$COMERA" pretrain "${wide[@]}" "${forms[@]}" --optimizer "$method" --threads 2 -o two
  expect_exit 0
  expect_same_bytes one/model.safetensors two/model.safetensors
  cmp -s plain/model.safetensors one/model.safetensors && fail "$method changed nothing ($form)"
  state=checkpoints/step-00000004/optimizer.safetensors
  [ "$(stat -c %s one/$state)" -lt "$(stat -c %s plain/$state)" ] || fail "the state of $method is smaller ($form)"
  expect_resumes one
  expect_same_bytes one/$state again/$state
  run "$COMERA" pretrain --resume plain --optimizer "$method"
  expect_refused "--optimizer was adamw and is (adamw,)?${method//\*/[*]}"
  rm -rf plain one two again
done; done

# The state of another optimiser is told.
run "$COMERA" pretrain "${wide[@]}" --form tt --optimizer muon -o moments
expect_exit 0
run "$COMERA" pretrain --resume moments --optimizer adamw --steps 8 --override
expect_exit 2
expect_err 'optimizer.safetensors: has no moment1.*: the state is that of another --optimizer, or .*; resume with those in recipe.toml'

# entries of diagonals are removed, the moments of dense weights stay
run "$COMERA" pretrain "${wide[@]}" --form tt --layer '*output.dense=form:dense' --optimizer adamw8bit --steps 12 \
  --prune-every 3 --target-fraction 0.5 --late-after 6 --lr-ranks 5e-2 -o pruned
expect_exit 0

# entries of cores and their sums of squares are removed together; threads and a resume in the late stage change nothing
falling=("${wide[@]}" --form tt --optimizer adagrad --steps 12 --prune-every 3 --target-fraction 0.5 --late-after 6
  --lr-ranks 5e-2)
for threads in 1 2; do
  run "$COMERA" pretrain "${falling[@]}" --threads $threads -o fallen$threads
  expect_exit 0
done
expect_same_bytes fallen1/model.safetensors fallen2/model.safetensors
expect_states fallen1 square_sum '.' '\.rank\.'
rm -r fallen2/checkpoints/step-00000012 fallen2/model.safetensors
run "$COMERA" pretrain --resume fallen2
expect_exit 0
expect_same_bytes fallen1/model.safetensors fallen2/model.safetensors

# cores have Muon without a name, tables and diagonals AdamW; a removal of ranks slices the momentum, and a resume in the
# late stage changes nothing
run "$COMERA" pretrain "${falling[@]/adagrad/muon}" -o turned
expect_exit 0
expect_states turned momentum '\.tt\.' 'embeddings'
cp turned/model.safetensors turned.safetensors
rm -r turned/checkpoints/step-00000012 turned/model.safetensors
run "$COMERA" pretrain --resume turned
expect_exit 0
expect_same_bytes turned.safetensors turned/model.safetensors

# the default follows the form, and a word by name leaves it to the other weights
optimizer_of() { # options...
  run "$COMERA" pretrain "${wide[@]}" "$@" --steps 1 -o settled --force
  expect_exit 0
  sed -n 's/^optimizer = //p' settled/recipe.toml
}
expect_equal "$(optimizer_of --form dense)" '["adamw"]'
expect_equal "$(optimizer_of --form tt)" '["muon"]'
expect_equal "$(optimizer_of --form tt --layer '*output.dense=form:dense' --optimizer '*output.dense=adamw8bit')" \
  '["muon", "*output.dense=adamw8bit"]'

# a basis is a state: a resume between two of them has it, and a later one comes from the gradient of its step
run "$COMERA" pretrain "${wide[@]}" "${subspaces[@]}" --form dense --optimizer galore -o one
expect_exit 0
strings one/checkpoints/step-00000004/optimizer.safetensors | grep -q '"basis\.' || fail 'the basis is in the checkpoint'
run "$COMERA" pretrain --resume one --galore-rank 4
expect_refused '--galore-rank was 8 and is 4'
rm -r one

for method in adagrad '*dense*=sgd'; do
  run "$COMERA" pretrain "${wide[@]}" --form dense --optimizer "$method" -o rates --force
  expect_err "warning: --optimizer (adagrad|sgd) with the default rates, which are AdamW's"
  run "$COMERA" pretrain "${wide[@]}" --form dense --optimizer "$method" --lr 1e-2 -o rates --force
  expect_no_err
done

refuses 'adagrad needs whole gradients' --data train.tsv "${columns[@]}" --form dense --hidden 64 \
  --optimizer adagrad --lr 1e-2 --activations compact
refuses 'galore needs whole gradients' --data train.tsv "${columns[@]}" --form dense --hidden 64 \
  --optimizer galore --galore-rank 4 --activations compact
refuses "galore-rank 128: '.*' is 64 x 64" --data train.tsv "${columns[@]}" --form dense --hidden 64 --optimizer galore
refuses 'galore-rank has no effect without --optimizer galore or galore8bit; add it, or leave out --galore-rank' \
  --data train.tsv "${columns[@]}" --optimizer '*dense=adamw8bit' --galore-rank 4
refuses 'lomo-clip has no effect without --optimizer lomo;' --data train.tsv "${columns[@]}" --optimizer adalomo \
  --lomo-clip 2
# AdamW's settings, where no weight has it; rank diagonals have
for options in 'sgd --beta1 0.8' 'adagrad --beta2 0.9' 'sgd,*dense=adagrad --epsilon 1e-6'; do
  name=${options#* --}
  # shellcheck disable=SC2086
  refuses "${name% *} has no effect: it is AdamW's, and all weights have (sgd|adagrad|sgd or adagrad); leave it out" \
    --data train.tsv "${columns[@]}" --form dense --lr 1e-2 --optimizer $options
done
run "$COMERA" pretrain "${wide[@]}" --form tt --optimizer sgd --lr 1e-2 --beta1 0.8 -o diagonals
expect_exit 0
refuses 'no layer of the model matches; its layers are' --data train.tsv "${columns[@]}" --form dense \
  --optimizer 'nothing*=galore'
refuses 'what matches has no dense linear weight' --data train.tsv "${columns[@]}" --form tt --hidden 64 \
  --optimizer '*attention*=galore'
refuses "no linear weight in TT or low-rank form; use --form tt or lowrank, or name dense linear weights" \
  --data train.tsv "${columns[@]}" --form dense --optimizer muon
refuses 'optimizer adamw8bit: has no effect, because the last word' --data train.tsv "${columns[@]}" --form dense \
  --hidden 64 --optimizer 'adamw8bit,*=adamw'
run "$COMERA" pretrain "${wide[@]}" --form dense --optimizer '*=adamw8bit' --dry-run # beside AdamW by default
expect_exit 0
refuses "no method 'galor'; did you mean galore" --data train.tsv "${columns[@]}" --optimizer galor
refuses 'has no dense linear weight of 4096 elements or more in a block' --data train.tsv "${columns[@]}" --form tt \
  --hidden 64 --optimizer galore
# gradients that are applied in the backward are no memory of the step, and the micro-batch stays whole
peak() { "$COMERA" pretrain "${wide[@]}" --form dense --dry-run "$@" | sed -n 's/^gradients  *gradients  *\([0-9]*\) .*/\1/p'; }
[ "$(peak --optimizer adalomo)" -lt "$(peak --optimizer adamw)" ] || fail 'adalomo keeps fewer gradients'
dense=(--data train.tsv "${columns[@]}" --form dense --hidden 64)
refuses 'lomo updates weights in the backward, before the norm of all gradients is known, and --clip is 1; use --clip 0 with --lomo-clip' \
  "${dense[@]}" --optimizer lomo --clip 1
refuses 'adalomo updates .*use --clip 0: adalomo limits each update' "${dense[@]}" --optimizer adalomo --clip 1
refuses '--accumulate 2 is not one step; use --accumulate 1' "${dense[@]}" --optimizer adalomo --accumulate 2
refuses 'leave out the target, or use adamw8bit for the dense weights' --data train.tsv "${columns[@]}" --form tt \
  --layer '*output.dense=form:dense' --hidden 64 --intermediate 128 --optimizer lomo --target-fraction 0.5
refuses 'lomo needs whole gradients' "${dense[@]}" --optimizer lomo --activations compact
refuses "has no dense linear weight of 4096 elements or more in a block" "${dense[@]}" --optimizer 'classifier=lomo'
least() { "$COMERA" pretrain "${wide[@]}" --form dense --optimizer "$1" --fit 1KiB --dry-run 2>&1 | grep -o -e '--accumulate [0-9]'; }
expect_equal "$(least adamw8bit)" '--accumulate 2'
expect_equal "$(least adalomo)" '--accumulate 1'
run "$COMERA" bench --model encoder-small --form dense --layers 1 --hidden 64 --intermediate 128 --batch 2 --seq 8 \
  --optimizer adalomo --repetitions 1 --warmup 1
expect_exit 0
run "$COMERA" bench --model encoder-small --galore-rank 4
expect_refused 'galore-rank has no effect without --optimizer galore or galore8bit'
refuses 'apollo-mini needs whole gradients' --data train.tsv "${columns[@]}" --form dense --hidden 64 \
  --optimizer apollo-mini --activations compact
refuses 'the model has no dense linear weight of 4096 elements' --data train.tsv "${columns[@]}" --form tt \
  --optimizer adamw8bit
finish
