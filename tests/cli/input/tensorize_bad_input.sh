#!/usr/bin/env bash
# tensorize refuses invalid input with one line of message, and leaves no files.
. "$(dirname "$0")/../expect.sh"
make="python3 $tests/../scripts/make_checkpoint.py"
small="--layers 1 --hidden 32 --intermediate 64 --vocabulary 40 --heads 2"
# shellcheck disable=SC2086
{
  $make bert $small --architecture bert --shards 1 --type F32
  $make llama $small --architecture llama --shards 2 --type F32
}
refused() {
  run "$COMERA" tensorize "${@:2}"
  expect_refused "$1"
  expect_no_file out
  expect_no_file out.partial
}

refused 'exactly one' bert -o out
refused '--ratio and --rank came; give exactly one of' bert -o out --ratio 2 --rank 4
refused 'output is missing' bert --ratio 2
refused 'no such file' missing -o out --ratio 2
refused 'ratio 0.5' bert -o out --ratio 0.5
refused 'a ratio of [0-9.]+; that is the most' bert -o out --ratio 1000
refused 'a ratio of [0-9.]+; that is the most' bert -o out --budget 100
refused "no weight to compress is named like 'nothing" bert -o out --ratio 2 --layer 'nothing*=rank:3'
refused 'matches no matrix' bert -o out --ratio 2 --include 'nothing*'
refused 'none of its weights is left' bert -o out --ratio 2 --exclude '*'
refused 'modes multiply' bert -o out --ratio 2 --layer '*query=form:tt;modes:3x5|32'
refused 'no form' bert -o out --ratio 2 --layer '*query=form:cp'
refused "query=modes:4x8|32': .*query has form auto, which has no modes; add form:tt" bert -o out --ratio 2 \
  --layer '*query=modes:4x8|32'
refused "query=rank:4': a rank beside bits is that of a correction" bert -o out --bits 4 --layer '*query=rank:4'
refused 'no grid of --bits has an error within --tol 0.0001; 8 bits have the least' bert -o out --bits 4 --tol 0.0001
refused 'sweeps has no effect without --bits auto[|]2[|]3[|]4[|]8 or --plan or --layer; add it' bert -o out --ratio 2 --sweeps 3
refused 'calibrate-tokens has no effect without --calibrate; add it' bert -o out --ratio 2 --calibrate-tokens 100
refused 'sweeps has no effect without --calibrate; add it' bert -o out --bits 4 --sweeps 3
refused 'chat has no effect without --calibrate; add it' bert -o out --ratio 2 --chat
for option in '--order 3' --no-gauge --allow-slower; do
  # shellcheck disable=SC2086
  refused 'has no effect without --bits none or --layer; add it' bert -o out --bits 4 $option
done
refused 'order has no effect without --form tt[|]ttm or --calibrate or --layer' bert -o out --ratio 2 --order 3
refused 'order has no effect without --form auto[|]tt[|]ttm' bert -o out --ratio 2 --order 3 --form lowrank \
  --calibrate bert/config.json
refused 'refine-steps has no effect without --refine auto[|]always' bert -o out --ratio 2 --refine never \
  --calibrate bert/config.json --refine-steps 3
refused 'uniform has no effect without --ratio or --budget; add it' bert -o out --rank 4 --uniform
refused "rank 40 is not between 1 and 32" bert -o out --ratio 2 --layer '*query=rank:40'
mkdir taken
printf x >taken/file
run "$COMERA" tensorize bert -o taken --ratio 2
expect_refused 'exists already'

# Invalid plans.
plan() { printf '%s' "$1" >plan.json; }
plan '{"comera_plan": 1, "layers": [{"name": "encoder.layer.0.output.dense", "form": "lowrank", "rank": 3, "rnk": 1}]}'
refused 'plan.json: layers\[0\]: unknown key "rnk"; did you mean rank' bert -o out --plan plan.json
plan '{"comera_plan": 1, "layers": [{"name": "encoder.layer.7.output.dense", "form": "lowrank", "rank": 3}]}'
refused 'has no such weight' bert -o out --plan plan.json
plan '{"comera_plan": 1, "layers": [{"name": "encoder.layer.0.output.dense", "form": "lowrank", "rank": 300}]}'
refused 'rank 300 is not between 1 and 32' bert -o out --plan plan.json
plan '{"comera_plan": 2, "layers": []}'
refused 'comera_plan' bert -o out --plan plan.json
plan '[['
refused 'plan.json' bert -o out --plan plan.json

# The plan sets everything, so options that would set it too are refused.
plan '{"comera_plan": 1, "layers": [{"name": "encoder.layer.0.output.dense", "form": "lowrank", "rank": 3}]}'
for beside in '--layer *key=rank:3' '--form auto' '--order 2' '--gauge' '--no-gauge' '--uniform' '--floor 0.5' \
  '--allow-slower' '--exact-rows 0' '--exclude *key' '--bits 4'; do
  # shellcheck disable=SC2086  # an option and its value
  refused "the plan defines every layer completely; edit it, or leave out --[a-z-]*$" bert -o out \
    --plan plan.json $beside
done
refused 'leave out --layer, --uniform$' bert -o out --plan plan.json --uniform --layer '*key=rank:3'

# Text that is too short.
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' hi >bert/vocab.txt
printf 'hi\nhi hi hi\n' >short.txt
refused '1 lines of 4 tokens or more \(with \[CLS\]\), and 1 shorter ones, which do not count; 8 or more are needed' \
  bert -o out --ratio 2 --calibrate short.txt

# Invalid weights.
spoil() {  # spoil FOLDER TENSOR PYTHON: Python changes `data` (the tensor's bytes) or `header`
  rm -rf bad
  cp -r "$1" bad
  python3 - "$2" "$3" <<'E2'
import glob, json, struct, sys
name, change = sys.argv[1:]
for path in glob.glob('bad/*.safetensors'):
    raw = open(path, 'rb').read()
    size = struct.unpack('<Q', raw[:8])[0]
    header, body = json.loads(raw[8:8 + size]), bytearray(raw[8 + size:])
    if name not in header: continue
    begin, end = header[name]['data_offsets']
    data = bytearray(body[begin:end])
    exec(change)
    body[begin:end] = data
    text = json.dumps(header).encode()
    open(path, 'wb').write(struct.pack('<Q', len(text)) + text + body)
E2
}
spoil bert encoder.layer.0.output.dense.weight "data[8:12] = struct.pack('<f', float('nan'))"
refused 'encoder.layer.0.output.dense.weight: its element 2 is nan' bad -o out --ratio 2
spoil bert encoder.layer.0.output.LayerNorm.weight "data[0:4] = struct.pack('<f', float('inf'))"
refused 'encoder.layer.0.output.LayerNorm.weight: its element 0 is inf' bad -o out --ratio 1.2 --quiet
spoil llama model.layers.0.mlp.up_proj.weight "header['x'] = header.pop(name)"
refused 'model.layers.0.mlp.up_proj.weight is not in' bad -o out --ratio 2
spoil llama model.layers.0.mlp.up_proj.weight "header[name]['shape'] = header[name]['shape'][::-1]"
refused 'up_proj.weight has shape .32, 64., but .64, 32. was wanted.*give the .safetensors file with --include' bad \
  -o out --ratio 2
spoil bert encoder.layer.0.output.dense.bias "header['x'] = header.pop(name)"
refused 'encoder.layer.0.output.dense.bias is missing' bad -o out --ratio 2
spoil bert encoder.layer.0.output.dense.bias "header[name]['dtype'] = 'I32'"
refused 'encoder.layer.0.output.dense.bias holds I32' bad -o out --ratio 2
run "$COMERA" tensorize bad/model.safetensors -o by-name --rank 3 --include '*output.dense'
expect_exit 0
refused 'bad/model.safetensors: a file of weights alone does not say its architecture; give the folder bad, or name' \
  bad/model.safetensors -o out --ratio 2
mkdir alone && cp bert/model.safetensors alone/
run "$COMERA" tensorize bert/model.safetensors -o by-file --rank 3 --include '*output.dense'
expect_exit 0
expect_out '^cost: not measured: .*bert/model.safetensors: a file of weights alone has no tokenizer; give the folder [^;]*$'
refused 'alone/model.safetensors: a file of weights without a config.json .*--include' alone/model.safetensors -o out \
  --ratio 2
for change in hidden_size=-32 'hidden_size="32"' num_attention_heads=7 num_hidden_layers=5 vocab_size=1000 \
  'hidden_act="swish"'; do
  spoil bert encoder.layer.0.output.dense.weight ""
  python3 - "$change" <<'E2'
import json, sys
key, value = sys.argv[1].split('=')
config = json.load(open('bad/config.json'))
json.dump({**config, key: json.loads(value)}, open('bad/config.json', 'w'))
E2
  refused "${change%%=*}|shape|is missing" bad -o out --ratio 2
done
spoil llama model.layers.0.mlp.up_proj.weight ""
rm bad/model-00002-of-00002.safetensors
refused 'model-00002-of-00002.safetensors' bad -o out --ratio 2
spoil llama model.layers.0.mlp.up_proj.weight ""
sed -i 's/"tie_word_embeddings": false/"tie_word_embeddings": true/' bad/config.json
refused 'are tied by config.json, but their numbers differ' bad -o out --ratio 2
spoil bert encoder.layer.0.output.dense.weight ""
sed -i 's/"bert"/"strange"/' bad/config.json
refused 'this architecture is not known; name the weights with --include' bad -o out --ratio 2
run "$COMERA" tensorize bad -o named --include '*dense' --rank 3
expect_exit 0

# A model that is tensorized already.
run "$COMERA" tensorize bert -o once --rank 3 --exclude '*query'
expect_exit 0
refused 'is tensorized already.*--again' once -o out --rank 3
run "$COMERA" tensorize once -o twice --again --rank 2 --include '*query'
expect_exit 0
run "$COMERA" inspect twice --json
expect_json "all(l['form'] != 'dense' for l in d['layers'] if 'query.weight' in l['name'] or 'output.dense.weight' \
    in l['name'])"
finish
