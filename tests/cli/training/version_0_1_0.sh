#!/usr/bin/env bash
# Files of version 0.1.0 (made by v0_1_0/make.sh): its runs resume, recipes without a late stage repeat to the bytes that
# 0.1.0 wrote, and every file is readable. The late stage is another one since: it reaches the same target.
. "$(dirname "$0")/../expect.sh"
cp -r "$tests"/cli/training/v0_1_0/* . && rm make.sh
fixed=(--threads 1 --isa v3)

# resumed VERB NAME: resumes from a checkpoint without checksums, then from one with checksums, which changes nothing.
# Leaves the model in NAME.now.
resumed() {
  cp -r "$2" again
  run "$COMERA" "$1" --resume again "${fixed[@]}"
  expect_exit 0
  expect_err 'is of an older version, which kept no checksums'
  expect_file again/checkpoints/step-00000012/state.json
  cp -r again "$2.now"
  run "$COMERA" "$1" --resume again "${fixed[@]}"
  expect_exit 0
  grep -q 'older version' .err && fail "the checkpoint that was written now has checksums"
  expect_same_bytes again/model.safetensors "$2.now/model.safetensors"
  rm -r again
}
resumed finetune healed
# Of evaluations with the same accuracy 0.1.0 kept the first one, and now the one with the smallest loss is kept.
run "$COMERA" evaluate healed.now --data train.tsv --text text --label label --json "${fixed[@]}"
expect_json "(lambda old: d['accuracy'] == old['accuracy'] and \
    d['loss'] < old['loss'])(json.load(open('answers/healed.whole.evaluate.json')))"
resumed pretrain ranks # before the ranks fall
resumed pretrain late  # while they fall
for name in ranks late; do
  run "$COMERA" inspect "$name.now" --json
  expect_exit 0
  expect_json "d['totals']['ratio'] >= 1.19" # --target-ratio 1.2
done

# The option --recompute is now --activations. Recipes with the old option resume to the same bytes.
for word in cheap block; do
  cp -r ranks again
  sed -i "s/^recompute = .*/recompute = \"$word\"/" again/recipe.toml
  grep -q "\"$word\"" again/recipe.toml || fail "the recipe names $word"
  run "$COMERA" pretrain --resume again "${fixed[@]}"
  expect_exit 0
  expect_same_bytes again/model.safetensors ranks.now/model.safetensors
  rm -r again
done

# The measures and tensors of its models.
cat >compare.py <<'E2'
import json, struct, sys
def tensors(path):
    data = open(path, "rb").read()
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    header.pop("__metadata__", None)
    for name, one in sorted(header.items()):
        begin, stop = one["data_offsets"]
        yield name, one["shape"], struct.unpack(f"<{(stop - begin) // 4}f", data[end + begin:end + stop])
new, old = list(tensors(sys.argv[1])), list(tensors(sys.argv[2]))
assert [t[:2] for t in new] == [t[:2] for t in old]
# Products of chains may be summed in another order: at most some ten float roundings of numbers below 1.
assert all(abs(a - b) <= 2e-6 for (_, _, x), (_, _, y) in zip(new, old) for a, b in zip(x, y))
E2
for model in dense tensorized healed.whole ranks.whole; do
  run "$COMERA" evaluate "$model" --data train.tsv --text text --label label --json "${fixed[@]}"
  expect_exit 0
  expect_json "(lambda old: abs(d['loss'] - old['loss']) < 1e-6 \
      and d['accuracy'] == old['accuracy'])(json.load(open('answers/$model.evaluate.json')))"
  run_with $'round red\nsquare green\n' "$COMERA" predict "$model" "${fixed[@]}"
  expect_exit 0
  expect_same_bytes .out "answers/$model.predict"
  run "$COMERA" inspect "$model" --json
  expect_exit 0
  expect_json "(lambda old: all(d['totals'][k] == v for k, v \
      in old['totals'].items()))(json.load(open('answers/$model.inspect.json')))"
  run "$COMERA" export "$model" --to safetensors -o "$model.plain" "${fixed[@]}"
  expect_exit 0
  run python3 compare.py "$model.plain/model.safetensors" "answers/$model.safetensors"
  expect_exit 0
  run "$COMERA" export "$model" -o "$model.onnx" "${fixed[@]}"
  expect_exit 0
done
run_with $'the green thing\n\nround 7\n' "$COMERA" tokenizer encode --tokenizer wordpiece --json
expect_exit 0
expect_json "d['lines'] == json.load(open('answers/wordpiece.json'))['lines']"
run "$COMERA" inspect --runs dense
expect_exit 0
expect_out '^dense +12 '

# Option files, a recipe, a plan; a model as the start of another run.
run "$COMERA" pretrain --config options.toml -o fresh --dry-run
expect_exit 0
run "$COMERA" pretrain --config dense/recipe.toml -o repeated --quiet
expect_exit 0
expect_same_bytes repeated/model.safetensors dense/checkpoints/step-00000012/model.safetensors
run "$COMERA" tensorize wide --plan plan.json -o planned "${fixed[@]}"
expect_exit 0
run "$COMERA" inspect planned --json
expect_json "d['totals']['parameters'] == json.load(open('answers/tensorized.inspect.json'))['totals']['parameters']"
run "$COMERA" finetune tensorized --data train.tsv --text text --label label --seq 8 --batch 4 --steps 2 --quiet \
  -o further
expect_exit 0

# The errors that 0.1.0 certified are computed again.
run "$COMERA" inspect tensorized --verify wide
expect_exit 0

# An older run is replaced. Unfinished work of that version is refused, because it has no mark.
run "$COMERA" pretrain --config dense/recipe.toml -o late --force --quiet
expect_exit 0
expect_same_bytes late/model.safetensors dense/checkpoints/step-00000012/model.safetensors
run "$COMERA" tensorize wide -o unfinished --ratio 1.3
expect_refused "unfinished.partial: .* none of this program's; move it, or name another output"
expect_file unfinished.partial/key

# Without checksums a missing file is still an error.
cp -r ranks lost && rm lost/checkpoints/step-00000006/optimizer.safetensors
run "$COMERA" pretrain --resume lost --quiet
expect_refused 'step-00000006/optimizer.safetensors'
cp -r ranks newer && sed -i 's/"schema_version": 1/"schema_version": 3/' newer/checkpoints/step-00000006/state.json
run "$COMERA" pretrain --resume newer
expect_refused 'step-00000006/state.json'
finish
