#!/usr/bin/env bash
# Refinement of blocks: the same bytes for any number of threads and after a kill, a certificate that holds, a report.
. "$(dirname "$0")/../expect.sh"
python3 "$tests/../scripts/make_checkpoint.py" bert --architecture bert --layers 2 --hidden 96 --intermediate 192 \
  --vocabulary 400 --heads 4 --shards 1 --type F32
# Norms of gain 1 and larger weights, so that the blocks do more than add their biases.
python3 - <<'PY'
import array, json, struct
path = "bert/model.safetensors"
data = bytearray(open(path, "rb").read())
size = struct.unpack("<Q", data[:8])[0]
for name, tensor in json.loads(data[8:8 + size]).items():
    if not name.endswith("weight"):
        continue
    begin, end = (8 + size + offset for offset in tensor["data_offsets"])
    numbers = array.array("f", bytes(data[begin:end]))
    data[begin:end] = array.array("f", [1.0 if "LayerNorm" in name else 8 * x for x in numbers]).tobytes()
open(path, "wb").write(data)
PY
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' a e i o u s t n r d l h c m the of and cat mat dog \
  >bert/vocab.txt
for letter in b f g j k p q v w x y z; do printf '%s\n##%s\n' "$letter" "$letter"; done >>bert/vocab.txt
python3 - >text.txt <<'PY'
import random
source = random.Random(3)
words = "the of and cat mat dog a e i o u s t n r d l h c m".split()
for _ in range(3000):
    print(*(source.choice(words) + source.choice(["", "f", "gz", "kq", "vx"]) for _ in range(source.randint(4, 12))))
PY
options=(bert --rank 12 --exclude '*embed*' --calibrate text.txt --calibrate-tokens 24000)
refined=(--refine --refine-steps 60 --refine-lr 0.004)

run "$COMERA" tensorize "${options[@]}" "${refined[@]}" --threads 1 -o one
expect_exit 0
expect_err 'block 2: refined, error of its outputs'
run "$COMERA" tensorize "${options[@]}" "${refined[@]}" --threads 3 -o three
expect_exit 0
expect_same_bytes one/model.safetensors three/model.safetensors
python3 - one/report.json <<'PY' || fail 'the report has the errors of the blocks'
import json, sys
blocks = json.load(open(sys.argv[1]))["blocks"]
assert [block["block"] for block in blocks] == [0, 1], blocks
assert all(block["kept"] and block["error_after"] < block["error_before"] for block in blocks), blocks
assert all(block["judged_error_after"] < block["judged_error_before"] for block in blocks), blocks
PY
grep -q 'Error of the outputs of blocks' one/report.html || fail 'the page has a table of the blocks'

# The same where codes and scales are trained.
grid=(bert --bits 3 --sweeps 0 --exclude '*embed*' --calibrate text.txt --calibrate-tokens 4000 --refine
  --refine-steps 8)
run "$COMERA" tensorize "${grid[@]}" --threads 1 -o grid-one
expect_exit 0
run "$COMERA" tensorize "${grid[@]}" --threads 3 -o grid-three
expect_exit 0
expect_same_bytes grid-one/model.safetensors grid-three/model.safetensors

# By default the same blocks are refined.
run "$COMERA" tensorize "${options[@]}" "${refined[@]:1}" -o default
expect_exit 0
expect_same_bytes one/model.safetensors default/model.safetensors
run "$COMERA" tensorize "${options[@]}" --refine=never -o never
expect_exit 0
! grep -q refined "$work/.err" || fail 'no block is refined'

# Too long: it is left out, and the last line tells what it would take.
run "$COMERA" tensorize "${options[@]}" --refine-steps 1000000 -o long
expect_exit 0
expect_same_bytes never/model.safetensors long/model.safetensors
expect_out 'cost: .*; --refine keeps more of the model at this size, in about [0-9]+ minutes more$'

# Killed while the second block is trained: the same command goes on.
"$COMERA" tensorize "${options[@]}" "${refined[@]}" --threads 2 -o killed >.out 2>.err &
pid=$!
while kill -0 $pid 2>/dev/null && [ ! -e killed.partial/plan-0-block-00000.safetensors ]; do sleep 0.01; done
kill -s KILL $pid
wait $pid
[ -e killed.partial/plan-0-block-00000.safetensors ] || fail 'the first block is kept'
expect_no_file killed.partial/plan-0-block-00001.safetensors
run "$COMERA" tensorize "${options[@]}" "${refined[@]}" --threads 2 -o killed
expect_exit 0
expect_same_bytes one/model.safetensors killed/model.safetensors

# The certificate is that of the refined weights, and of the refined biases and norms.
run "$COMERA" inspect one --verify bert --calibrate text.txt --calibrate-tokens 24000
expect_exit 0
python3 - <<'PY'
import json, struct
path = "one/model.safetensors"
data = bytearray(open(path, "rb").read())
size = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:8 + size])
name = next(name for name in header if name.endswith("layer.1.output.dense.bias"))
data[8 + size + header[name]["data_offsets"][0] + 3] ^= 1
open(path, "wb").write(data)
PY
run "$COMERA" inspect one --verify bert
expect_exit 1
expect_out "its numbers are not the dense model's"

run "$COMERA" tensorize bert --ratio 2 --refine -o no
expect_exit 2
expect_err 'give text with --calibrate'
run "$COMERA" tensorize "${options[@]}" --refine --no-sequential -o no
expect_exit 2
expect_err 'leave out --no-sequential or --refine'
run "$COMERA" tensorize "${options[@]}" --refine-steps 0 --refine -o no
expect_exit 2
expect_no_file no
finish
