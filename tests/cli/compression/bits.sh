#!/usr/bin/env bash
# Weights on grids: the file has the bytes of its bits, is read by every verb, and its errors are those that it states.
. "$(dirname "$0")/../expect.sh"
. "$(dirname "$0")/../small_checkpoint.sh"
small="--layers 2 --hidden 96 --intermediate 128 --vocabulary 100 --heads 4"
# shellcheck disable=SC2086  # lists of words
$make bert $small --architecture bert --shards 1 --type F32
# shellcheck disable=SC2086
$make llama $small --architecture llama --shards 2 --type BF16
bytes() { cat "$1"/*.safetensors | wc -c; }

# Linear weights of 96 inputs have 3 blocks per line: 54 bytes in place of 384.
run "$COMERA" tensorize bert -o four --bits 4 --exclude '*embed*'
expect_exit 0
expect_out 'q4_0'
run "$COMERA" inspect four --json
expect_json "all(abs(l['bytes'] * 32 * 4 - l['bytes_dense'] * 18) < 1 for l in d['layers'] if l['form'] == 'q4_0') \
    and sum(l['form'] == 'q4_0' for l in d['layers']) == 12"
cp .out four.json
run "$COMERA" inspect bert --json
cp .out dense.json
run "$COMERA" inspect bert four --format csv # A / B is the ratio of one model: of bytes
cp .out pair.csv
run "$COMERA" inspect bert four --format html
cp .out pair.html
run python3 -c "
import csv, json
one, rows = json.load(open('four.json')), {row['name']: row for row in csv.DictReader(open('pair.csv'))}
assert json.load(open('four/report.json'))['totals']['parameters'] == one['totals']['parameters'] \
  == json.load(open('dense.json'))['totals']['parameters'], one['totals']
on_grids = [layer for layer in one['layers'] if layer['form'] == 'q4_0']
assert on_grids and all(abs(float(rows[layer['name']]['ratio']) - layer['ratio']) < 1e-3 for layer in on_grids), rows
assert one['totals']['ratio'] > 1.5 and '{:.2f}x'.format(one['totals']['ratio']) in open('pair.html').read()"
expect_exit 0
run "$COMERA" inspect four --verify bert
expect_exit 0

# Fewer bits, larger errors; tables too.
for bits in 8 3 2; do
  run "$COMERA" tensorize llama -o "llama$bits" --bits "$bits"
  expect_exit 0
  run "$COMERA" inspect "llama$bits" --verify llama
  expect_exit 0
done
run python3 -c "
import json
worst = [max(l['rel_error'] for l in json.load(open(f'llama{bits}/report.json'))['layers']) for bits in (8, 3, 2)]
assert worst[0] < 0.01 < 0.05 < worst[1] < 0.2 < worst[2] < 0.45, worst"
expect_exit 0

# Bits by budget: no larger than asked for, and only as coarse as needed.
run "$COMERA" tensorize bert -o mixed --bits auto --ratio 6
expect_exit 0
[ $(($(bytes mixed) * 6)) -le "$(bytes bert)" ] || fail "a sixth of the bytes"
run "$COMERA" inspect mixed --verify bert
expect_exit 0

# Several sizes: each is what one run of its own gives. Sizes that cannot be are refused before layers are looked at.
third=$(($(bytes bert) / 3)) sixth=$(($(bytes bert) / 6))
run "$COMERA" tensorize bert -o sizes --bits auto --budget "$third,$sixth"
expect_exit 0
run "$COMERA" tensorize bert -o one --bits auto --budget "$sixth"
expect_exit 0
expect_same_bytes "sizes/budget-$sixth/model.safetensors" one/model.safetensors
[ "$(bytes "sizes/budget-$third")" -le "$third" ] || fail "a third of the bytes"
run "$COMERA" tensorize bert -o no --bits auto --budget "$third,$third"
expect_exit 2
expect_err 'two of the sizes are the same'
run "$COMERA" tensorize bert -o no --bits auto --budget 3x
expect_exit 2
expect_err "\-\-budget 3x: expected bytes"
run "$COMERA" tensorize bert -o no --bits auto --budget "$third,1000"
expect_exit 2
expect_err '1000 bytes are wanted, but with the fewest bits everywhere'
grep -q 'looking at layers' .err && fail "refused before layers are looked at"
[ ! -e no ] || fail "nothing is written"

# A rule gives a layer bits of its own; a plan file keeps them.
run "$COMERA" tensorize bert --bits 3 --layer '*value=bits:8' --exclude '*embed*' --dump-plan plan.json
expect_exit 0
run "$COMERA" tensorize bert --plan plan.json -o planned
expect_exit 0
run "$COMERA" inspect planned --json
expect_json "{l['form'] for l in d['layers'] if l['name'].endswith('value.weight')} == {'q8_0'} \
    and sum(l['form'] == 'q3_0' for l in d['layers']) == 10"
sed 's/q3_0/q9_9/' plan.json >broken.json
run "$COMERA" tensorize bert --plan broken.json -o no
expect_exit 2
expect_err "there is no grid 'q9_9'"

# A plan with text makes what the run that dumped it makes, the decoder of words included.
run "$COMERA" tensorize llama --bits 3 "${text[@]}" -o direct
expect_exit 0
run "$COMERA" tensorize llama --bits 3 "${text[@]}" --dump-plan text-plan.json
expect_exit 0
run "$COMERA" tensorize llama --plan text-plan.json "${text[@]}" -o planned-text
expect_exit 0
grep -q lm_head text-plan.json || fail "the plan has the decoder of words"
for file in direct/*.safetensors; do
  expect_equal "$(tensors_of "$file")" "$(tensors_of "planned-text/$(basename "$file")")"
done

# Passes after GPTQ are no part of a plan. Corrections are.
run "$COMERA" tensorize llama --bits 3 "${text[@]}" --sweeps 0 -o unswept
expect_exit 0
run "$COMERA" tensorize llama --plan text-plan.json "${text[@]}" --sweeps 0 -o planned-unswept
expect_exit 0
for file in direct/*.safetensors; do
  name=$(basename "$file")
  expect_equal "$(tensors_of "unswept/$name")" "$(tensors_of "planned-unswept/$name")"
done
for file in direct/*.safetensors; do tensors_of "$file"; done >with-passes
for file in unswept/*.safetensors; do tensors_of "$file"; done >without
cmp -s with-passes without && fail "passes change the numbers"
run "$COMERA" tensorize llama --plan text-plan.json "${text[@]}" --exclude lm_head -o no
expect_exit 2
expect_err 'the plan defines every layer completely; edit it, or leave out --exclude'

# Only what another program stores.
run "$COMERA" tensorize bert -o for-gguf --bits auto --ratio 4 --for gguf
expect_exit 0
run "$COMERA" inspect for-gguf --json
expect_json "{l['form'] for l in d['layers']} <= {'dense', 'q8_0', 'q4_1', 'q4_0'}"
run "$COMERA" tensorize bert -o no --bits 3 --for gguf
expect_exit 2
expect_err 'there are no grids of 3 bits; use 4 or 8'
run "$COMERA" tensorize bert -o no --ratio 2 --for gguf
expect_exit 2
expect_err 'use --bits 4, 8 or auto'
run "$COMERA" tensorize bert -o no --bits 4 --layer '*query=bits:2' --for onnx
expect_exit 2
run "$COMERA" tensorize bert -o no --plan plan.json --for gguf
expect_exit 2
expect_err 'plan.json: layer .*: --for gguf: there are no grids of 3 bits'

# Corrections need text.
sed 's/"form": "grid"/"form": "grid", "rank": 5/; /"rank": 0/d' plan.json >ranked.json
run "$COMERA" tensorize bert --plan ranked.json -o no
expect_exit 2
expect_err 'a correction of rank 5 is fitted to text; add --calibrate'
run "$COMERA" tensorize bert --bits 4 --rank 8 -o no
expect_exit 2
expect_err 'corrections are fitted to text'

# A changed byte of a line is found.
change_byte four/model.safetensors '*.base'
run "$COMERA" inspect four --verify bert
expect_exit 1
expect_out 'not the ones that were written'

# A dense copy has the type of the original and the same numbers.
run "$COMERA" export llama8 -o dense --to safetensors
expect_exit 0
run "$COMERA" inspect dense --json
expect_json "all(l['form'] == 'dense' for l in d['layers'])"
expect_equal "$(grep -a -c '"F32"' dense/model.safetensors)" 0
run "$COMERA" inspect llama8 --json
on_grids=$(python3 -c "
import json
layers = json.load(open('.out'))['layers']
print(json.dumps(sorted(l['name'].removesuffix('.weight') for l in layers if l['form'] == 'q8_0')))")
run "$COMERA" export llama8 -o again --to safetensors --dry-run --json
expect_json "len(d['dense']) == d['chains'] and sorted(d['dense']) == $on_grids"

# A graph that keeps the grids is smaller than one that does not.
run "$COMERA" export mixed -o mixed.onnx
expect_exit 0
expect_err 'weights on grids become dense in the graph; --quantized qdq keeps them small: [a-z0-9._]+ and [0-9]+ more'
run "$COMERA" inspect mixed --json
# Names of layers by the first letters of their forms.
of_form() { python3 -c "
import json, sys
layers = json.load(open('.out'))['layers']
print(json.dumps(sorted(l['name'].removesuffix('.weight') for l in layers if l['form'].startswith(tuple(sys.argv[1:])))))
" "$@"; }
narrow=$(of_form q2 q3) all=$(of_form q)
if [ "$narrow" = '[]' ] || [ "$narrow" = "$all" ]; then fail "there are weights of 2 or 3 bits, and others"; fi
for grids in qdq nbits; do
  run "$COMERA" export mixed -o "$grids.onnx" --quantized "$grids" --json
  expect_exit 0
  expect_json "d['opset'] == 21 and d['largest_difference'] <= d['bound'] and d['bytes'] * 3 < $(stat -c %s mixed.onnx)"
  expect_json "sorted(d['widened']) == $narrow and d['dense'] == []"
done
run "$COMERA" export mixed -o no.onnx --quantized qdq --dry-run
expect_exit 0
expect_err '[0-9]+ more: 2 and 3 bits become 4 with the same numbers'
run "$COMERA" export mixed -o no.onnx --dry-run --json
expect_exit 0
expect_json "d['widened'] == [] and sorted(d['dense']) == $all"
run "$COMERA" export mixed -o no.onnx --quantized qdq --opset 17
expect_exit 2
expect_err 'needs --opset 21 or newer'
run "$COMERA" export mixed -o no.onnx --quantized nbits --form dense
expect_exit 2
run "$COMERA" export bert -o no.onnx --quantized nbits
expect_exit 2
expect_err 'has no weights on grids'
expect_no_file no.onnx

# What cannot be done is refused.
run "$COMERA" tensorize llama -o no --bits 4 --form tt
expect_exit 2
expect_err 'weights on grids have no --form'
run "$COMERA" tensorize llama -o no --bits auto
expect_exit 2
run "$COMERA" tensorize llama -o no --bits auto --rank 8
expect_exit 2
expect_err 'auto needs --ratio or --budget'
run "$COMERA" tensorize llama8 -o no --bits 4
expect_exit 2
expect_err 'is tensorized already'
refused() { # MESSAGE OPTION...
  local message=$1
  shift
  run "$COMERA" tensorize llama -o no "$@"
  expect_exit 2
  expect_err "$message"
  expect_no_file no
}
refused "'1' is none of" --bits 1
refused "'bits:1' is not known" --layer '*up_proj=bits:1' --ratio 2
# Corrections belong to what has the rank.
refused '\-\-rank 4096: no weight has a rank above 96' --bits 4 --rank 4096 "${text[@]}"
refused '\-\-for hf: transformers has no weights in tensor-train or low-rank form' --ratio 2 --for hf
run "$COMERA" tensorize llama -o for-hf --bits auto --ratio 5 --for hf --dry-run
expect_exit 0
expect_out 'q[23]_0'
sed 's/"q8_0"/"q9_9"/' llama8/config.json >changed && mv changed llama8/config.json
run "$COMERA" inspect llama8
expect_exit 2
expect_err '"base" is "q9_9", which this program does not know'

# Unfinished work is for the same settings and tokens alone: after a kill, another format and another tokenizer begin anew.
ranked=(--bits 4 --rank 8 --refine=never "${text[@]}")
run "$COMERA" tensorize bert -o for-hf-alone "${ranked[@]}" --for hf
expect_exit 0
run env COMERA_FAULT_AT=40 "$COMERA" tensorize bert -o killed "${ranked[@]}"
expect_no_file killed
run "$COMERA" tensorize bert -o killed "${ranked[@]}" --for hf
expect_exit 0
expect_equal "$(tensors_of killed/model.safetensors)" "$(tensors_of for-hf-alone/model.safetensors)"
sed 's/^red$/other/; s/^green$/red/; s/^other$/green/' vocab.txt >swapped.txt # last of the two options counts
run "$COMERA" tensorize bert -o swapped "${ranked[@]}" --tokenizer swapped.txt
expect_exit 0
run env COMERA_FAULT_AT=40 "$COMERA" tensorize bert -o killed2 "${ranked[@]}"
expect_no_file killed2
run "$COMERA" tensorize bert -o killed2 "${ranked[@]}" --tokenizer swapped.txt
expect_exit 0
expect_equal "$(tensors_of killed2/model.safetensors)" "$(tensors_of swapped/model.safetensors)"

# Scales are in half precision; a graph that is counted has dense weights in place of grids.
python3 - <<'LARGE'
import json, struct
numbers = [0.5] * 4096
numbers[70] = 1e6
data = struct.pack('<4096f', *numbers)
header = json.dumps({'proj.weight': {'dtype': 'F32', 'shape': [64, 64], 'data_offsets': [0, len(data)]}}).encode()
open('large.safetensors', 'wb').write(struct.pack('<Q', len(header)) + header + data)
LARGE
for bits in '--bits 4' '--bits auto --ratio 3'; do
  # shellcheck disable=SC2086
  run "$COMERA" tensorize large.safetensors --include '*' -o no $bits
  expect_refused 'proj: its number 1e[+]06 is beyond half precision'
done
run "$COMERA" tensorize bert -o no --bits auto --ratio 3 --budget-of onnx
expect_refused '\-\-budget-of onnx counts a graph whose weights on grids are dense'

# A stored copy of a tied table is no weight of its own.
python3 - <<'TIED'
import glob, json, os, shutil, struct
shutil.copytree('llama', 'tied')
tensors = {}
for path in sorted(glob.glob('tied/*.safetensors')):
    raw = open(path, 'rb').read()
    size = struct.unpack('<Q', raw[:8])[0]
    for name, entry in json.loads(raw[8:8 + size]).items():
        if name != '__metadata__':
            begin, end = entry['data_offsets']
            tensors[name] = (entry, raw[8 + size + begin:8 + size + end])
    os.remove(path)
for path in glob.glob('tied/*.index.json'):
    os.remove(path)
tensors['lm_head.weight'] = tensors['model.embed_tokens.weight']
header, data = {}, b''
for name, (entry, values) in tensors.items():
    header[name] = {**entry, 'data_offsets': [len(data), len(data) + len(values)]}
    data += values
text = json.dumps(header).encode()
open('tied/model.safetensors', 'wb').write(struct.pack('<Q', len(text)) + text + data)
config = json.load(open('tied/config.json'))
json.dump({**config, 'tie_word_embeddings': True}, open('tied/config.json', 'w'))
TIED
run "$COMERA" tensorize tied -o all-of-tied --ratio 1.5 --include '*'
expect_exit 0
run "$COMERA" evaluate all-of-tied --data text.txt --tokenizer vocab.txt --seq 16
expect_exit 0
run "$COMERA" tensorize tied -o no --ratio 1.5 --include 'lm_head'
expect_refused 'none of its weights is left to compress'
finish
