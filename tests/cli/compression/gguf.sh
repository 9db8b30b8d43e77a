#!/usr/bin/env bash
# A llama model as a GGUF file: weights on grids keep their numbers, and the way back gives the same model.
. "$(dirname "$0")/../expect.sh"
make="python3 $tests/../scripts/make_checkpoint.py"
# shellcheck disable=SC2086  # lists of words
$make llama --layers 2 --hidden 96 --intermediate 128 --vocabulary 100 --heads 4 --architecture llama --shards 1 --type F32

# Prints the tensors of two dense folders that differ.
cat >compare.py <<'PY'
import json, pathlib, struct, sys
def tensors(folder):
    found = {}
    for path in pathlib.Path(folder).glob("*.safetensors"):
        data = path.read_bytes()
        size = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8:8 + size])
        for name, entry in header.items():
            if name != "__metadata__":
                begin, end = entry["data_offsets"]
                found[name] = (entry["dtype"], entry["shape"], data[8 + size + begin:8 + size + end])
    return found
one, other = map(tensors, sys.argv[1:])
assert one.keys() == other.keys(), one.keys() ^ other.keys()
differing = [name for name in one if one[name] != other[name]]
assert not differing, differing
print(len(one), "tensors are equal")
PY

# Every grid, and a dense model, to a file and back.
for bits in 8 4 3 2; do
  run "$COMERA" tensorize llama -o "bits$bits" --bits "$bits" --exclude '*embed*'
  expect_exit 0
done
cp -r llama bitsnone
for bits in none 8 4 3 2; do
  run "$COMERA" export "bits$bits" -o "bits$bits.gguf"
  expect_exit 0
  run "$COMERA" export "bits$bits.gguf" -o "back$bits" --to safetensors
  expect_exit 0
  run "$COMERA" export "bits$bits" -o "dense$bits" --to safetensors
  expect_exit 0
  run python3 compare.py "back$bits" "dense$bits"
  expect_exit 0
done
# 7 linear layers in each of two blocks, and the decoder of words
run "$COMERA" inspect bits8.gguf --json
expect_json "sum(l['form'] == 'Q8_0' for l in d['layers']) == 15 and d['totals']['ratio'] > 3"
run "$COMERA" inspect bits2.gguf --json
expect_json "sum(l['form'] == 'Q4_0' for l in d['layers']) == 15"
run "$COMERA" export bits3 -o again.gguf --dry-run --json
expect_json "len(d['widened']) == 15 and d['on_grids'] == 15 and d['dense'] == [] and d['adapter'] is None"
expect_json "d['bytes'] == $(stat -c %s bits3.gguf)"
expect_no_file again.gguf

# Chains become dense; half precision halves.
run "$COMERA" tensorize llama -o chains --ratio 2 --exclude '*embed*'
expect_exit 0
run "$COMERA" export chains -o chains.gguf
expect_exit 0
expect_err 'dense in the file, because GGUF has no form for it'
run "$COMERA" export chains -o half.gguf --dtype fp16
expect_exit 0
run "$COMERA" inspect half.gguf --json
expect_json "{l['form'] for l in d['layers'] if l['kind'] == 'linear'} == {'dense'} and \
    all(l['bytes'] == 2 * l['parameters'] for l in d['layers'] if l['kind'] == 'linear')"

# A config.json of more layers than the file holds is refused; tensors without a place are named and left out.
layers() {
  rm -rf "llama$1" && cp -r llama "llama$1"
  sed -i "s/\"num_hidden_layers\": 2/\"num_hidden_layers\": $1/" "llama$1/config.json"
}
layers 3
run "$COMERA" export llama3 -o llama3.gguf
expect_refused 'llama3/model.safetensors: tensor model.layers.2.* is missing'
expect_no_file llama3.gguf
layers 1
run "$COMERA" export llama1 -o llama1.gguf --quiet
expect_exit 0
expect_err '^warning: llama1: [0-9]* of its tensors are not used, because this model has no such weights: model.layers.1.'
run "$COMERA" inspect llama1.gguf --json
expect_no_err
expect_json "not any('blk.1.' in l['name'] for l in d['layers']) and any('blk.0.' in l['name'] for l in d['layers'])"

# What is there stays; what cannot be done is refused.
run "$COMERA" export bits8 -o bits8.gguf
expect_exit 2
expect_err 'exists already'
run "$COMERA" export bits8 -o bits8.gguf --force
expect_exit 0
run "$COMERA" export bits8 -o folder --to gguf
expect_exit 2
expect_err 'must end in .gguf'
run "$COMERA" export bits8 -o x.gguf --to onnx
expect_exit 2
run "$COMERA" export bits8 -o x.gguf --opset 17
expect_exit 2
expect_err 'opset belongs to ONNX'
# shellcheck disable=SC2086
$make bert --layers 2 --hidden 96 --intermediate 128 --vocabulary 100 --heads 4 --architecture bert --shards 1 --type F32
run "$COMERA" export bert -o x.gguf
expect_exit 2
expect_err 'is an encoder'
expect_no_file x.gguf

# general.file_type is the type of most matrices, by llama.cpp's numbers.
while read -r type number; do
  $make "typed-$type" --layers 2 --hidden 96 --intermediate 128 --vocabulary 100 --heads 4 --architecture llama --shards 1 \
    --type "$type"
  run "$COMERA" export "typed-$type" -o "$type.gguf"
  expect_exit 0
  run python3 -c "
import struct, sys
data, key = open('$type.gguf', 'rb').read(), b'general.file_type'
print(struct.unpack_from('<II', data, data.index(key) + len(key)))"
  expect_out "[(]4, ${number}[)]" # an unsigned number of 32 bits
done <<<"F32 0
F16 1
BF16 32"
finish
