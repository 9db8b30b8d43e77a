#!/usr/bin/env bash
# inspect --verify measures the text as the certificate says, and compares output errors, of tables too, and direction
# errors.
. "$(dirname "$0")/../expect.sh"
python3 "$tests/../scripts/make_checkpoint.py" llama --layers 2 --hidden 64 --intermediate 128 --vocabulary 100 \
  --heads 4 --architecture llama --shards 1 --type F32
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' w{5..99} >llama/vocab.txt
for i in {1..200}; do
  for j in $(seq 1 $((5 + i % 9))); do printf 'w%d ' $((5 + (i * i + 7 * i * j + j * j * j) % 95)); done
  echo
done >text.txt
# edit.py FOLDER CODE: changes the tensors' bytes `data`, their `header`, and the `certificate` in it.
cat >edit.py <<'E2'
import glob, json, struct, sys
path, = glob.glob(sys.argv[1] + '/*.safetensors')
raw = open(path, 'rb').read()
length = struct.unpack('<Q', raw[:8])[0]
header, data = json.loads(raw[8:8 + length]), bytearray(raw[8 + length:])
certificate = json.loads(header['__metadata__'].get('comera_certificate', '{}'))
exec(sys.argv[2])
if certificate: header['__metadata__']['comera_certificate'] = json.dumps(certificate)
text = json.dumps(header).encode()
open(path, 'wb').write(struct.pack('<Q', len(text)) + text + data)
E2
edit() {
  run python3 edit.py "$@"
  expect_exit 0
}

# Clipping matters where a token's residual stream is long: two words' vectors are 40 times as long as the others.
edit llama "
begin = header['model.embed_tokens.weight']['data_offsets'][0]
for word in (12, 30):
    row = slice(begin + 256 * word, begin + 256 * (word + 1))
    data[row] = struct.pack('<64f', *(40 * number for number in struct.unpack('<64f', data[row])))"

make_with() {
  run "$COMERA" tensorize llama -o "$@" --rank 16 --calibrate text.txt --refine=never
  expect_exit 0
  run "$COMERA" inspect "$1" --verify llama --calibrate text.txt --quiet
  expect_exit 0
}
make_with clipped
edit clipped "assert certificate['calibration']['clips_tokens'] is True, certificate['calibration']"
make_with unclipped --no-clip-tokens
edit unclipped "assert certificate['calibration']['clips_tokens'] is False, certificate['calibration']"

# Certificates of earlier versions do not say it; then tokens are clipped. The other model shows that it matters.
for name in clipped unclipped; do
  cp -r "$name" "old-$name"
  edit "old-$name" "del certificate['calibration']['clips_tokens']"
done
run "$COMERA" inspect old-clipped --verify llama --calibrate text.txt --quiet
expect_exit 0
run "$COMERA" inspect old-unclipped --verify llama --calibrate text.txt --quiet
expect_exit 1
expect_err 'its output error is not the one that was certified'

# Output errors of a table are those of its rows, by look-ups: as a chain and on a grid.
table=model.embed_tokens
run "$COMERA" tensorize llama -o grid --bits 4 --calibrate text.txt --refine=never
expect_exit 0
for name in clipped grid; do
  run "$COMERA" inspect "$name" --verify llama --calibrate text.txt --quiet --json
  expect_exit 0
  expect_json "all(l['output_error'] is not None for l in d['layers']) \
      and any(l['name'] == '$table.weight' for l in d['layers'])"
  for change in "layer['output_error'] *= 1.001" "del layer['output_error']"; do
    rm -rf broken
    cp -r "$name" broken
    edit broken "
layer, = (layer for layer in certificate['layers'] if layer['name'] == '$table')
$change"
    run "$COMERA" inspect broken --verify llama --calibrate text.txt --quiet
    expect_exit 1
    expect_err "broken: $table.weight is not as certified: .*output error"
    run "$COMERA" inspect broken --verify llama --quiet # without text there is nothing to compare
    expect_exit 0
  done
done

# The direction error of a linear layer lies between its output error over the root of its outputs and its output
# error, beside the factor of the bound and rounding of moments in float. Tables of look-ups have none, and neither have certificates of earlier versions.
for name in clipped grid; do
  run "$COMERA" inspect "$name" --verify llama --calibrate text.txt --quiet --json
  expect_json "all((l['direction_error'] is None) == (l['name'] == '$table.weight') for l in d['layers'])"
  expect_json "all(l['output_error'] / 12 < l['direction_error'] < 1.3 * l['output_error'] + 2e-3 \
      for l in d['layers'] if l['direction_error'])"
  expect_json "all(abs(l['direction_error'] / l['stored_direction_error'] - 1) < 0.01 \
      for l in d['layers'] if l['direction_error'])"
  for change in "layer['direction_error'] *= 1.02" "layer['direction_error'] *= 0.5"; do
    rm -rf broken
    cp -r "$name" broken
    edit broken "
layer = max(certificate['layers'], key=lambda layer: layer.get('direction_error', 0))
$change"
    run "$COMERA" inspect broken --verify llama --calibrate text.txt --quiet
    expect_exit 1
    expect_err 'its direction error is not the one that was certified'
  done
  edit broken "
for layer in certificate['layers']: layer.pop('direction_error', None)"
  run "$COMERA" inspect broken --verify llama --calibrate text.txt --quiet
  expect_exit 0
  edit broken "
layer, = (layer for layer in certificate['layers'] if layer['name'] == '$table')
layer['direction_error'] = 0.1"
  run "$COMERA" inspect broken --verify llama --calibrate text.txt --quiet
  expect_exit 1
  expect_err "broken: $table.weight is not as certified: a direction error was certified, but the text gives it none"
done

# A decoder of words on a grid whose table stays dense: blocks are refined on the inputs of the dense model.
. "$(dirname "$0")/../small_checkpoint.sh"
$make untied --layers 2 --hidden 96 --intermediate 128 --vocabulary 100 --heads 4 --architecture llama --shards 1 --type BF16
run "$COMERA" tensorize untied -o refined --bits 3 --exclude '*embed*' "${drawn[@]}" --refine --refine-steps 5
expect_exit 0
run "$COMERA" inspect refined --verify untied "${drawn[@]}"
expect_exit 0
finish
