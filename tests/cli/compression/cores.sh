#!/usr/bin/env bash
# Factors and corrections in few bits: every verb reads them, and the certificate and the predicted bytes hold.
. "$(dirname "$0")/../expect.sh"
. "$(dirname "$0")/../small_checkpoint.sh"
small="--layers 2 --hidden 96 --intermediate 128 --vocabulary 100 --heads 4"
# shellcheck disable=SC2086  # lists of words
$make bert $small --architecture bert --shards 1 --type F32

# Factors in 8 and in 16 bits have the same errors, in 4 bits larger ones; the bytes are those of the dry run.
for bits in 4 8 16; do
  run "$COMERA" tensorize bert -o "rank$bits" --rank 16 --exclude '*embed*' --layer "*=form:lowrank;cores:$bits" \
    "${text[@]}" --refine=never
  expect_exit 0
  run "$COMERA" inspect "rank$bits" --verify bert "${text[@]:0:4}"
  expect_exit 0
done
run python3 -c "
import json
layers = {bits: json.load(open(f'rank{bits}/report.json'))['layers'] for bits in (4, 8, 16)}
cut = {bits: [l for l in layers[bits] if l['form'].startswith('lowrank')] for bits in layers}
assert len(cut[4]) == len(cut[8]) == len(cut[16]) == 12, cut
assert {l['form'] for l in cut[8]} == {'lowrank:q8_0'} and {l['form'] for l in cut[4]} == {'lowrank:q4_0'}
for four, eight, sixteen in zip(cut[4], cut[8], cut[16]):
  assert abs(eight['rel_error'] - sixteen['rel_error']) < .01 and four['rel_error'] > eight['rel_error']
  assert four['bytes'] < eight['bytes'] * .56 and eight['bytes'] < sixteen['bytes'] * .32, (four, eight, sixteen)"
expect_exit 0

# A dense copy has the same numbers; a graph and a trained folder are made from them.
run "$COMERA" export rank8 -o dense --to safetensors
expect_exit 0
printf 'red round and green\nblue square\n' >some.txt
run "$COMERA" predict rank8 --tokenizer vocab.txt --data some.txt --json
expect_exit 0
cp .out compressed.json
run "$COMERA" predict dense --tokenizer vocab.txt --data some.txt --json
expect_exit 0
cp .out dense.json
run python3 -c "
import json
a, b = (json.load(open(name))['embeddings'] for name in ('compressed.json', 'dense.json'))
assert max(abs(x - y) for p, q in zip(a, b) for x, y in zip(p, q)) < 1e-4"
expect_exit 0
run "$COMERA" export rank8 -o rank8.onnx
expect_exit 0
expect_err 'and 11 more: cores on a grid become floating-point numbers, because the graph has no such cores'

# A plan file keeps the bits of the factors, and the same bytes come of it.
run "$COMERA" tensorize bert --rank 16 --exclude '*embed*' --layer '*=form:lowrank;cores:8' "${text[@]}" --refine=never \
  --dump-plan plan.json
expect_exit 0
run "$COMERA" tensorize bert --plan plan.json "${text[@]}" --refine=never -o planned
expect_exit 0
run "$COMERA" inspect planned rank8 --format csv
expect_exit 0
expect_equal "$(stat -c %s planned/model.safetensors)" "$(stat -c %s rank8/model.safetensors)"
sed 's/"q8_0"/"q9_0"/' plan.json >broken.json
run "$COMERA" tensorize bert --plan broken.json "${text[@]}" -o no
expect_exit 2
expect_err "there is no grid 'q9_0' for cores"

# Corrections have 8 bits, unless another program is to read them.
run "$COMERA" tensorize bert -o corrected --bits 3 --rank 8 --exclude '*embed*' "${text[@]}" --refine=never
expect_exit 0
run "$COMERA" inspect corrected --json
expect_json "sum(l['form'] == 'q3_0+lowrank:q8_0' for l in d['layers']) == 12"
run "$COMERA" inspect corrected --verify bert "${text[@]:0:4}"
expect_exit 0
run "$COMERA" export corrected -o peft --to peft
expect_exit 0
run "$COMERA" tensorize bert -o for-onnx --bits 4 --rank 8 --exclude '*embed*' --for onnx "${text[@]}" --refine=never
expect_exit 0
run "$COMERA" inspect for-onnx --json
expect_json "sum(l['form'] == 'q4_0+lowrank' for l in d['layers']) == 12"

refused() { # MESSAGE OPTION...
  local message=$1
  shift
  run "$COMERA" tensorize bert -o no "$@"
  expect_exit 2
  expect_err "$message"
  expect_no_file no
}
refused "'cores:3' is not known" --rank 8 --layer '*=cores:3'
refused 'the numbers of cores are floating-point; use cores:16' --rank 8 --for onnx --layer '*=cores:8'
