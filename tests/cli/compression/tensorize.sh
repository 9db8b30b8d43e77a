#!/usr/bin/env bash
# Dense checkpoints of every known architecture become smaller, within the requested bytes, and the cost is reported.
. "$(dirname "$0")/../expect.sh"
make="python3 $tests/../scripts/make_checkpoint.py"
small="--layers 2 --hidden 64 --intermediate 128 --vocabulary 100 --heads 4"

# shellcheck disable=SC2086  # lists of words
{
  $make bert $small --architecture bert --shards 1 --type F32
  $make half $small --architecture bert --shards 1 --type F16
  $make llama $small --architecture llama --shards 3 --type BF16
  $make gpt2 $small --architecture gpt2 --shards 1 --type F32
}
printf 'MIT\n' >bert/LICENSE
mkdir bert/1_Pooling
printf '{}' >bert/1_Pooling/config.json
printf 'x' >bert/pytorch_model.bin
bytes() { cat "$1"/*.safetensors | wc -c; }

run "$COMERA" tensorize bert -o small --ratio 2
expect_exit 0
expect_out 'bert|small'
expect_file small/report.html
expect_file small/LICENSE
expect_file small/1_Pooling/config.json
expect_no_file small/pytorch_model.bin
expect_no_file small.partial
[ $(($(bytes small) * 2)) -le "$(bytes bert)" ] || fail "half of the bytes"
run python3 -c "
import json
d = json.load(open('small/report.json'))
assert d['left_out'] == ['pytorch_model.bin'] and d['totals']['file_ratio'] >= 2, d
for l in d['layers']:
    assert 0 <= l['rel_error'] < 1 and l['bytes'] <= l['bytes_dense'], l
    if l['form'] != 'dense': assert l['optimum'] <= l['rel_error'] * (1 + 1e-6) and l['above_optimum'] < 1e-3, l
assert sum(l['form'] == 'lowrank' for l in d['layers']) > 5"
expect_exit 0
run "$COMERA" inspect small
expect_exit 0
expect_out 'lowrank'
# Both verbs use the same name for a form, also for tables, and count all weights.
run "$COMERA" inspect small --json
expect_json "all(d['totals'][key] == json.load(open('small/report.json'))['totals'][key] \
    for key in ('parameters', 'parameters_dense'))"
expect_json "(lambda made, shown: all(shown[name] == form for name, form in made.items()) \
    and 'lowrank' in made.values())(*({l['name']: l['form'] for l in r['layers']} \
    for r in (json.load(open('small/report.json')), d)))"
run "$COMERA" inspect small --verify bert
expect_exit 0

# The element type of the weights and the shards are kept; tied weights are stored once.
run "$COMERA" tensorize llama -o small_llama --ratio 1.5 --exclude '*embed*'
expect_exit 0
expect_file small_llama/model-00003-of-00003.safetensors
run "$COMERA" inspect small_llama --json
expect_json "any(l['form'] == 'lowrank' for l in d['layers']) \
    and all(l['form'] == 'dense' for l in d['layers'] if 'embed' in l['name'])"
run "$COMERA" inspect small_llama --verify llama
expect_exit 0
run "$COMERA" tensorize half -o small_half --rank 4 --form lowrank
expect_exit 0
expect_equal "$(grep -a -c '"F32"' small_half/model.safetensors)" 0
run "$COMERA" tensorize gpt2 -o small_gpt2 --rank 4 --exclude '*wte'
expect_exit 0
run "$COMERA" inspect small_gpt2 --verify gpt2
expect_exit 0
grep -q '"conv1d": true' small_gpt2/config.json || fail "the chain is marked as Conv1D"

# Every form; a tolerance; the same command gives the same bytes.
for form in tt ttm lowrank auto; do
  run "$COMERA" tensorize bert -o "form_$form" --rank 6 --form "$form"
  expect_exit 0
  case $form in
    tt) expect_err 'form tt is a form of linear layers; tables take ttm' ;;
    ttm) expect_err 'form ttm is a form of tables; linear layers take tt' ;;
    *) if grep -q 'is a form of' .err; then fail "no hint for this form"; fi ;;
  esac
  run "$COMERA" inspect "form_$form" --verify bert
  expect_exit 0
done
run "$COMERA" tensorize bert --rank 6 --form tt --exclude '*embeddings*' --dry-run
if grep -q 'is a form of' .err; then fail "no hint without tables"; fi
run "$COMERA" tensorize bert --rank 6 --form tt --layer '*embeddings*=form:dense' --dry-run
if grep -q 'is a form of' .err; then fail "the rule selects the form of tables, so no hint is printed"; fi
run "$COMERA" tensorize bert -o again_auto --rank 6 --threads 1
expect_same_bytes form_auto/model.safetensors again_auto/model.safetensors
expect_same_bytes form_auto/config.json again_auto/config.json
run "$COMERA" tensorize bert -o tolerant --tol 0.9 --json
expect_exit 0
expect_json "d['schema_version'] == 1 and all(l['rel_error'] <= 0.9 + 1e-6 for l in d['layers'])"
for plan in --dry-run '--dump-plan plan.json'; do
  # shellcheck disable=SC2086
  run "$COMERA" tensorize bert --rank 2 --max-error 0.01 $plan
  expect_refused 'max-error has no effect: a plan has no errors'
done
run "$COMERA" tensorize bert -o failing --rank 2 --max-error 0.01
expect_exit 1
expect_err 'max-error'

# Rules and plans.
run "$COMERA" tensorize bert --ratio 1.5 --dump-plan plan.json --layer '*query=rank:5' --layer '*key=form:dense' \
  --layer '*value=form:tt;modes:8x8|64;rank:7'
expect_exit 0
expect_no_file small2
run "$COMERA" tensorize bert -o planned --plan plan.json
expect_exit 0
run "$COMERA" inspect planned --json
expect_json "[l['ranks'] for l in d['layers'] if '.query.weight' in l['name']] == [[1, 5, 1]] * 2"
expect_json "all(l['form'] == 'dense' for l in d['layers'] if '.key.weight' in l['name'])"
expect_json "all(l['modes'] == [8, 8, 64] for l in d['layers'] if '.value.weight' in l['name'])"
run "$COMERA" tensorize bert --ratio 2 --dump-plan dumped.json
run "$COMERA" tensorize bert -o from_plan --plan dumped.json
expect_exit 0
run "$COMERA" tensorize bert -o direct --ratio 2
expect_same_bytes from_plan/model.safetensors direct/model.safetensors
expect_same_bytes from_plan/config.json direct/config.json
run "$COMERA" tensorize bert --ratio 2 --form tt --order 3 --dump-plan order3.json
run "$COMERA" tensorize bert --plan order3.json --dump-plan order3_again.json
expect_same_bytes order3.json order3_again.json
for goal in '--ratio 2 --form tt --order 3' '--plan order3.json'; do
  # shellcheck disable=SC2086  # options
  run "$COMERA" tensorize bert -o "order3_${goal:2:4}" $goal
  expect_exit 0
done
expect_same_bytes order3_rati/model.safetensors order3_plan/model.safetensors
run python3 -c "
import json
plan = json.load(open('order3.json'))
for layer in plan['layers']:
    if layer['form'] == 'tt': layer['ranks'][1:4] = [min(a, b) for a, b in zip(layer['ranks'][1:4], [3, 8, 12])]
json.dump(plan, open('edited.json', 'w'))"
run "$COMERA" tensorize bert -o edited --plan edited.json
expect_exit 0
run "$COMERA" inspect edited --json
expect_json "any(l['form'] == 'tt' for l in d['layers'])"
run python3 -c "
import json
plan = {l['name'] + '.weight': l for l in json.load(open('edited.json'))['layers'] if l['form'] == 'tt'}
ranks = {l['name']: l['ranks'] for l in json.load(open('edited/report.json'))['layers']}
assert plan and all(ranks[name] == layer['ranks'] for name, layer in plan.items()), (plan, ranks)"
expect_exit 0
run "$COMERA" tensorize bert --ratio 3 --dry-run
expect_exit 0
expect_out 'weights file'
run "$COMERA" tensorize bert --ratio 3 --dry-run --json
expect_json "d['plans'][0]['file_bytes'] * 3 <= d['plans'][0]['file_bytes_dense']"
expect_json "0 < d['seconds']['fits'] < d['seconds']['all'] and d['seconds']['text'] == d['seconds']['refinement'] == 0"

# A budget for the exported graph: never exceeded, and exact to the byte before the graph is written.
printf 'a b c d e f g h i j k\n%.0s' {1..40} >text.txt
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' a b c d e f g h i j k >bert/vocab.txt
cp bert/vocab.txt half/
# The time of a run by samples: text and refinement take some only where there is text.
for options in '--bits 4' '--bits 3 --refine' '--rank 4' '--rank 4 --form tt --no-sequential'; do
  # shellcheck disable=SC2086
  run "$COMERA" tensorize bert $options --calibrate text.txt --dry-run --json
  expect_exit 0
  expect_json "min(d['seconds']['fits'], d['seconds']['text']) > 0 and (d['seconds']['refinement'] > 0) == \
      ('--refine' in '$options' or '$options' == '--rank 4')"
done
run "$COMERA" tensorize bert --bits 3 --calibrate text.txt --dry-run
expect_out 'the run would take about .* here: .* for the plan, .* for fits, .* for passes of the text'
run "$COMERA" tensorize bert --rank 4 --dump-plan sampled.json --json
expect_json "'seconds' not in d"
for case in 'bert 120000' 'half 120000' 'bert 80000 --calibrate text.txt' 'bert 130000 --form tt --order 3' \
  'half 100000 --layer *query=form:dense' 'llama 150000'; do
  rm -rf counted counted.onnx
  # shellcheck disable=SC2086  # a model, a budget and options
  run "$COMERA" tensorize ${case%% *} -o counted --budget-of onnx --budget ${case#* } --json
  expect_exit 0
  planned=$(python3 -c "import json; print(json.load(open('.out'))['totals']['onnx_bytes'])")
  run "$COMERA" export counted -o counted.onnx
  expect_exit 0
  expect_equal "$(stat -c %s counted.onnx)" "$planned"
  budget=${case#* }
  [ "$planned" -le "${budget%% *}" ] || fail "$case: the graph is within the budget"
  # The planner keeps a reserve for chains of three cores, so the budget is not used completely.
  [ "$((planned * 100))" -ge "$((${budget%% *} * 75))" ] || fail "$case: the budget is used"
done
run "$COMERA" tensorize bert -o none --budget 4096 --budget-of onnx
expect_refused 'rank 1 everywhere'

# Several ratios: one folder each, and one page for all.
run "$COMERA" tensorize bert -o many --ratio 1.5,2,4
expect_exit 0
expect_file many/report.html
for ratio in 1.5 2 4; do expect_file "many/ratio-$ratio/model.safetensors"; done
expect_same_bytes many/ratio-2/model.safetensors small/model.safetensors

# The same with calibration text. The ratios share the fit of the first block and the tables.
for choice in '' '--exclude *embed*'; do
  rm -rf many_aware one_aware
  for output in 'many_aware --ratio 1.5,2,3' 'one_aware --ratio 2'; do
    # shellcheck disable=SC2086  # an output and options
    run "$COMERA" tensorize bert -o $output --calibrate text.txt $choice
    expect_exit 0
  done
  expect_same_bytes many_aware/ratio-2/model.safetensors one_aware/model.safetensors
  run "$COMERA" inspect many_aware/ratio-3 --verify bert --calibrate text.txt
  expect_exit 0
done

# The certificate records the number of tokens read. Another --calibrate-tokens is refused.
for tokens in 100 150 333; do
  rm -rf less
  run "$COMERA" tensorize bert -o less --ratio 2 --calibrate text.txt --calibrate-tokens "$tokens" --quiet
  expect_exit 0
  run "$COMERA" inspect less --verify bert --calibrate text.txt --quiet
  expect_exit 0
  run "$COMERA" inspect less --verify bert --calibrate text.txt --calibrate-tokens "$tokens" --quiet
  expect_exit 0
done
run "$COMERA" inspect less --verify bert --calibrate text.txt --calibrate-tokens 100 --quiet
expect_exit 2
expect_err 'leave out --calibrate-tokens'
head -n 1 text.txt | cat - text.txt >other.txt
run "$COMERA" inspect less --verify bert --calibrate other.txt --quiet
expect_exit 2
expect_err 'give the same --calibrate'

# inspect --verify detects a changed core.
cp -r small broken
python3 - <<'E2'
data = bytearray(open('broken/model.safetensors', 'rb').read())
data[-3] ^= 4
open('broken/model.safetensors', 'wb').write(data)
E2
run "$COMERA" inspect broken --verify bert
expect_exit 1
expect_err 'not as certified'

# It also detects, by name, any other tensor that differs from the dense model, an additional tensor, and another type.
cat >edit.py <<'E2'
import json, struct, sys
source, target, name, what = sys.argv[1:]
raw = open(source + '/model.safetensors', 'rb').read()
length = struct.unpack('<Q', raw[:8])[0]
header, data = json.loads(raw[8:8 + length]), bytearray(raw[8 + length:])
begin, end = header[name]['data_offsets']
if what == 'bit': data[end - 1] ^= 1
if what == 'shape': header[name]['shape'] = [1, *header[name]['shape']]
if what == 'added':
    header['stranger.bias'] = {'dtype': 'U8', 'shape': [4], 'data_offsets': [len(data), len(data) + 4]}
    data += b'abcd'
if what == 'missing':
    del header[name], data[begin:end]
    for tensor in header.values():
        if 'data_offsets' in tensor and tensor['data_offsets'][0] >= end:
            tensor['data_offsets'] = [offset - (end - begin) for offset in tensor['data_offsets']]
text = json.dumps(header).encode()
open(target + '/model.safetensors', 'wb').write(struct.pack('<Q', len(text)) + text + data)
E2
run "$COMERA" inspect small --verify bert
expect_exit 0
expect_err 'more tensors are those of bert, byte for byte'
for case in 'bit:its numbers are not' 'shape:it is .*, the dense model' 'missing:here it is missing' \
  'added:no certificate lists it'; do
  for tensor in embeddings.LayerNorm.weight encoder.layer.1.output.dense.bias; do
    run python3 edit.py small broken "$tensor" "${case%%:*}"
    expect_exit 0
    [ "${case%%:*}" = added ] && tensor=stranger.bias
    run "$COMERA" inspect broken --verify bert
    expect_exit 1
    expect_err "broken: $tensor is not that of bert: .*${case#*:}"
  done
done
run "$COMERA" inspect broken --verify bert --json
expect_exit 1
expect_json "not d['holds'] and [l['name'] for l in d['layers'] if l['fault']] == ['stranger.bias'] \
    and d['other_tensors'] > 5"
# Compressed in two calls: the tensors that the second call left dense still equal those of the first dense model.
run "$COMERA" tensorize bert -o once --rank 4 --include '*query'
run "$COMERA" tensorize once -o twice --rank 4 --include '*key' --again
expect_exit 0
run "$COMERA" inspect twice --verify bert
expect_exit 0
run "$COMERA" inspect small --verify half
[ "$code" != 0 ] || fail "another dense model is refused"

# Weights of any name, if --include matches them. Exported to a dense folder, they have their original names.
python3 - <<'E2'
import json, struct
values = {'blk.in_proj_weight': (48, 16), 'text_projection': (32, 32), 'blk.bias': (48,)}
header, body = {}, b''
for name, shape in values.items():
    count = shape[0] * (shape[1] if len(shape) > 1 else 1)
    data = struct.pack(f'<{count}f', *(((i * 7919 + i * i) % 1009) / 1009 - 0.5 for i in range(count)))
    header[name] = {'dtype': 'F32', 'shape': shape, 'data_offsets': [len(body), len(body) + len(data)]}
    body += data
text = json.dumps(header).encode()
open('odd.safetensors', 'wb').write(struct.pack('<Q', len(text)) + text + body)
E2
run "$COMERA" tensorize odd.safetensors -o odd --include '*proj*' --rank 3
expect_exit 0
run "$COMERA" inspect odd --json
expect_json "sorted(l['name'] for l in d['layers'] if l['form'] == 'lowrank') == ['blk.in_proj_weight', \
    'text_projection']"
run "$COMERA" inspect odd --verify odd.safetensors
expect_exit 0
run "$COMERA" export odd -o odd-dense --to safetensors
expect_exit 0
run "$COMERA" inspect odd-dense --json
expect_json "{l['name']: tuple(l['shape']) for l in d['layers']} == {'blk.in_proj_weight': (48, 16), \
    'text_projection': (32, 32), 'blk.bias': (48,)}"

# A killed run resumes to the same bytes.
for at in 9 25 60; do
  rm -rf resumed resumed.partial
  run env COMERA_FAULT_AT=$at "$COMERA" tensorize bert -o resumed --ratio 2
  expect_no_file resumed/model.safetensors
  run "$COMERA" tensorize bert -o resumed --ratio 2
  expect_exit 0
  expect_same_bytes resumed/model.safetensors small/model.safetensors
  expect_no_file resumed.partial
done
finish
