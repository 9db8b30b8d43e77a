#!/usr/bin/env bash
# The most frequent rows of a table are stored exactly: in the folder, through training, and in every export.
. "$(dirname "$0")/../expect.sh"
make="python3 $tests/../scripts/make_checkpoint.py"
small="--layers 2 --hidden 64 --intermediate 128 --vocabulary 400 --heads 4"
# shellcheck disable=SC2086  # lists of words
{
  $make bert $small --architecture bert --shards 1 --type F16
  $make llama $small --architecture llama --shards 2 --type BF16
}
letters=({a..z})
{
  printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' "${letters[@]}"
  for i in $(seq 369); do echo "w$i"; done
} >bert/vocab.txt
for i in $(seq 150); do  # letter frequencies: a is the most frequent, then b, ...
  for j in $(seq 0 $((i % 26))); do printf '%s ' "${letters[$j]}"; done
  echo
done >text.txt
words=embeddings.word_embeddings
bytes() { cat "$1"/*.safetensors | wc -c; }
# Runs Python code with the tensors of safetensors files by name.
with_tensors() {
  run python3 - "$@" <<'E2'
import json, struct, sys
def read(folder):
    import glob
    all = {}
    for path in glob.glob(folder + '/*.safetensors'):
        data = open(path, 'rb').read()
        n = struct.unpack('<Q', data[:8])[0]
        for k, v in json.loads(data[8:8 + n]).items():
            if k != '__metadata__':
                all[k] = (v['dtype'], v['shape'], data[8 + n:][v['data_offsets'][0]:v['data_offsets'][1]])
    return all
exec(sys.argv[1])
E2
  expect_exit 0
}

run "$COMERA" tensorize bert -o small --ratio 2 --calibrate text.txt --exact-rows 12
expect_exit 0
expect_out 'lowrank \+ 12 exact'
[ $(($(bytes small) * 2)) -le "$(bytes bert)" ] || fail "half of the bytes, exact rows counted"
with_tensors "
made, dense = read('small'), read('bert')
name = '$words'
kind, shape, ids = made[name + '.exact.ids']
ids = struct.unpack('<12i', ids)
assert kind == 'I32' and list(ids) == sorted(ids), ids
# [CLS] and [SEP] occur in every line; the first letters are next.
assert set(ids) == {2, 3, *range(5, 15)}, ids
kind, shape, rows = made[name + '.exact.rows']
assert kind == 'F16' and shape == [12, 64], (kind, shape)
whole = dense[name + '.weight'][2]
assert rows == b''.join(whole[128 * i:128 * i + 128] for i in ids)
entry = json.load(open('small/config.json'))['comera']['tensors'][name]
assert entry['exact'] == 12, entry
line = [l for l in json.load(open('small/report.json'))['layers'] if name in l['name']][0]
assert line['exact_rows'] == 12 and line['form'] == 'lowrank', line
assert line['bytes'] == sum(len(v[2]) for k, v in made.items() if k.startswith(name)), line"
run "$COMERA" inspect small
expect_out 'lowrank \+ 12 exact'
run "$COMERA" inspect small --json
expect_json "[l['exact_rows'] for l in d['layers'] if l['name'] == '$words.weight'] == [12]"
run "$COMERA" inspect small --verify bert --calibrate text.txt
expect_exit 0

# inspect --verify detects a changed exact row.
for part in rows ids; do
  rm -rf broken
  cp -r small broken
  change_byte broken/model.safetensors "$words.exact.$part"
  run "$COMERA" inspect broken --verify bert
  expect_exit 1
  expect_out "the cores or exact rows are not the ones that were written"
done

# The plan lists the exact rows. A plan file and a rule keep them, and several ratios have the same rows.
run "$COMERA" tensorize bert --ratio 2 --calibrate text.txt --exact-rows 12 --dump-plan plan.json
expect_exit 0
expect_out '\+ 12 exact'
run "$COMERA" tensorize bert -o planned --plan plan.json --calibrate text.txt
expect_exit 0
expect_same_bytes planned/model.safetensors small/model.safetensors
run "$COMERA" tensorize bert -o ruled --ratio 2 --calibrate text.txt --layer '*word*=exact:12'
expect_same_bytes ruled/model.safetensors small/model.safetensors
run "$COMERA" tensorize bert -o many --ratio 2,3 --calibrate text.txt --exact-rows 12
expect_exit 0
expect_same_bytes many/ratio-2/model.safetensors small/model.safetensors
run "$COMERA" tensorize bert -o none --ratio 2 --calibrate text.txt --exact-rows 12 --layer '*word*=exact:0'
expect_exit 0
run "$COMERA" inspect none --json
expect_json "not any('exact_rows' in l for l in d['layers'])"
run "$COMERA" tensorize bert -o used --rank 4 --calibrate text.txt --exact-rows 300
expect_exit 0
expect_err 'the text uses 27 rows; those are kept'  # one letter occurs only in held-out lines

# One number for all tables: a table of no more rows stays dense, and one that the text does not count has none.
run "$COMERA" tensorize bert -o tables --rank 4 --calibrate text.txt --exact-rows 12 --include '*embeddings*' \
  --refine=never
expect_exit 0
expect_out '--exact-rows 12 keeps each of its 2 rows'
expect_err 'position_embeddings: the text does not say how often each of its rows is used; it gets no exact rows'
run "$COMERA" inspect tables --json
expect_json "{l['name'].split('.')[1]: (l['form'], l.get('exact_rows', 0)) for l in d['layers'] if 'embeddings' in l['name'] \
    and len(l['shape']) == 2} == {'word_embeddings': ('lowrank', 12), 'position_embeddings': ('lowrank', 0), \
    'token_type_embeddings': ('dense', 0)}"
run "$COMERA" tensorize bert --rank 4 --calibrate text.txt --exact-rows 400 --dry-run
expect_exit 0
expect_out '--exact-rows 400 keeps each of its 400 rows'

# A killed run resumes, and ends with the same bytes.
for at in 9 40; do
  rm -rf resumed resumed.partial
  run env COMERA_FAULT_AT=$at "$COMERA" tensorize bert -o resumed --ratio 2 --calibrate text.txt --exact-rows 12
  expect_no_file resumed/model.safetensors
  run "$COMERA" tensorize bert -o resumed --ratio 2 --calibrate text.txt --exact-rows 12
  expect_exit 0
  expect_same_bytes resumed/model.safetensors small/model.safetensors
done

# The dense folder has the exact rows bit for bit, and gives the same embeddings as the compressed folder.
run "$COMERA" export small -o dense --to safetensors
expect_exit 0
with_tensors "
made, dense = read('dense')['$words.weight'][2], read('bert')['$words.weight'][2]
rows = [made[128 * i:128 * i + 128] == dense[128 * i:128 * i + 128] for i in range(400)]
assert all(rows[i] for i in (2, 3, *range(5, 15))) and sum(rows) < 40, rows"
for folder in small dense; do "$COMERA" predict "$folder" --json <<<'a b c x y z' >"$folder.json"; done
run python3 -c "
import json
a, b = (json.load(open(name + '.json'))['embeddings'][0] for name in ('small', 'dense'))
assert max(abs(x - y) for x, y in zip(a, b)) < 1e-2, (a, b)" # the dense folder rounds its other rows to half precision
expect_exit 0
run "$COMERA" inspect dense --json
expect_json "all(l['form'] == 'dense' for l in d['layers'])"

# Graphs in every form and for several opsets. A budget of the graph counts the exact rows.
for form in tt factors dense; do
  for dtype in fp32 fp16; do
    run "$COMERA" export small -o "$form-$dtype.onnx" --form "$form" --dtype "$dtype"
    expect_exit 0
    expect_out 'largest difference from the model'
  done
done
for opset in 13 16 18 21; do
  run "$COMERA" export small -o "opset$opset.onnx" --opset "$opset"
  expect_exit 0
done
run "$COMERA" tensorize bert -o counted --budget-of onnx --budget 250000 --calibrate text.txt --exact-rows 12 --json
expect_exit 0
planned=$(python3 -c "import json; print(json.load(open('.out'))['totals']['onnx_bytes'])")
run "$COMERA" export counted -o counted.onnx
expect_equal "$(stat -c %s counted.onnx)" "$planned"
[ "$planned" -le 250000 ] || fail "the graph is within the budget"

# Training updates the exact rows like other weights. They stay after a resume, with and without rank adaptation.
go=(--task embed --teacher bert --distill hidden --seq 16 --batch 4 --steps 6 --lr 1e-3 --lr-cores 1e-3 --save-every 3
  --threads 2 --quiet --data text.txt)
run "$COMERA" finetune small "${go[@]}" -o healed
expect_exit 0
with_tensors "
before, after = read('small'), read('healed')
name = '$words'
assert after[name + '.exact.ids'] == before[name + '.exact.ids']
old = struct.unpack('<768e', before[name + '.exact.rows'][2])
kind, shape, data = after[name + '.exact.rows']
new = struct.unpack('<768' + {'F32': 'f', 'F16': 'e'}[kind], data)
assert 0 < max(abs(a - b) for a, b in zip(old, new)) < 0.1
assert json.load(open('healed/config.json'))['comera']['tensors'][name]['exact'] == 12"
cp -r healed whole
rm -r healed/checkpoints/step-*6 healed/model.safetensors
run "$COMERA" finetune --resume healed --quiet
expect_exit 0
expect_same_bytes healed/model.safetensors whole/model.safetensors
run "$COMERA" finetune small "${go[@]}" --steps 20 --target-fraction 0.6 -o fallen
expect_exit 0
with_tensors "
before, after = read('small'), read('fallen')
assert after['$words.exact.ids'] == before['$words.exact.ids'] and after['$words.exact.rows'][1] == [12, 64]
assert after['$words.tt.0'][1][3] < before['$words.tt.0'][1][3], after['$words.tt.0'][1]"
run "$COMERA" finetune small "${go[@]}" --dry-run --json
expect_exit 0
run "$COMERA" export fallen -o fallen.onnx
expect_exit 0

# Refused with one line of message and no output.
refused() {
  run "$COMERA" tensorize "${@:2}"
  expect_refused "$1"
  expect_no_file out
  expect_no_file out.partial
}
refused 'give text with --calibrate' bert -o out --ratio 2 --exact-rows 12
refused 'give text with --calibrate' bert -o out --plan plan.json
refused '400 exact rows are not between 0 and 399' bert -o out --ratio 2 --calibrate text.txt --layer '*word*=exact:400'
refused 'exact-rows' bert -o out --ratio 2 --calibrate text.txt --exact-rows -1
refused 'a linear layer has none' bert -o out --ratio 2 --calibrate text.txt --layer '*query=exact:3'
refused "exact: \(a number of rows\)" bert -o out --ratio 2 --calibrate text.txt --layer '*word*=exact:x'
refused 'does not say how often each of its rows is used' bert -o out --ratio 2 --calibrate text.txt --exact-rows 3 \
  --include '*position*'
refused 'give text with --calibrate' dense-fp32.onnx -o out.onnx --ratio 2 --exact-rows 4
refused 'that is the most' bert -o out --ratio 60 --calibrate text.txt --exact-rows 27

# A decoder with tied embeddings: the table decodes with its exact rows, and its graph gives the same outputs.
if [ -n "${COMERA_DATA:-}" ]; then
  stories=$COMERA_DATA/checkpoints/stories15M
  zstd -dc "$COMERA_DATA/text/tinystories_sample.txt.zst" | grep -v '^ *$' | head -n 40 >stories.txt
  run "$COMERA" tensorize "$stories" -o tale --rank 64 --include '*embed*' --calibrate stories.txt --exact-rows 200
  expect_exit 0
  run "$COMERA" export tale -o tale-dense --to safetensors
  expect_exit 0
  for folder in tale tale-dense; do
    run "$COMERA" evaluate "$folder" --data stories.txt --seq 128 --json
    expect_exit 0
    mv .out "$folder.json"
  done
  run python3 -c "
import json
a, b = (json.load(open(name + '.json'))['perplexity'] for name in ('tale', 'tale-dense'))
assert abs(a - b) < 1e-3 * b, (a, b)"
  expect_exit 0
  for form in tt factors; do
    run "$COMERA" export tale -o "tale-$form.onnx" --form "$form"
    expect_exit 0
  done
else
  echo 'COMERA_DATA is not set: a real decoder is not tried'
fi
finish
