#!/usr/bin/env bash
# A graph and its data file appear together: a run killed at any write leaves both, or only files that the next run
# removes.
[ -w /dev/shm ] && export TMPDIR=/dev/shm
. "$(dirname "$0")/../expect.sh"
# shellcheck source=../tiny_task.sh
. "$tests/cli/tiny_task.sh" || exit 1

run "$COMERA" pretrain "${tiny[@]}" --form dense -o model
expect_exit 0
run "$COMERA" export model -o plain.onnx --form dense
expect_exit 0
# The same graph with its large tensors in a second file, in the layout of ONNX's own tools.
cat >split.py <<'E2'
def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]; at += 1
        value |= (byte & 127) << shift; shift += 7
        if byte < 128: return value, at
def number(value):
    out = b""
    while value > 127: out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])
def fields(data):
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, end = varint(data, at)
        else:
            size, at = varint(data, at); end = at + size; value = data[at:end]
        yield key >> 3, value
        at = end
def field(key, value):
    if isinstance(value, int): return number(key << 3) + number(value)
    return number(key << 3 | 2) + number(len(value)) + value
blob = b""
def tensor(data):
    global blob
    parts = list(fields(data))
    raw = dict(parts).get(9, b"")
    if len(raw) < 1024: return data
    entries = {"location": "graph.onnx.data", "offset": str(len(blob)), "length": str(len(raw))}
    blob += raw
    out = b"".join(field(key, value) for key, value in parts if key != 9)
    out += b"".join(field(13, field(1, k.encode()) + field(2, v.encode())) for k, v in entries.items())
    return out + field(14, 1)
model = b""
for key, value in fields(open("plain.onnx", "rb").read()):
    if key == 7: value = b"".join(field(k, tensor(v) if k == 5 else v) for k, v in fields(value))
    model += field(key, value)
assert blob
open("graph.onnx", "wb").write(model)
open("graph.onnx.data", "wb").write(blob)
E2
run python3 split.py
expect_exit 0
command=("$COMERA" tensorize graph.onnx -o small.onnx --ratio 1.3)
run "${command[@]}"
expect_exit 0
expect_file small.onnx.data
[ "$failures" = 0 ] || finish
mkdir whole && mv small.onnx* whole

# half: counts data files without a graph. none: a killed run left no other file.
half=0
none() { expect_equal "$(find . -name '*.comera' -o -name '.comera.*' -o -name '*.partial')" ''; }
same() {
  expect_exit 0
  expect_same_bytes small.onnx whole/small.onnx
  expect_same_bytes small.onnx.data whole/small.onnx.data
  none
  rm -f small.onnx*
}
for ((fault = 1; fault < 1000; ++fault)); do
  run env COMERA_FAULT_AT=$fault "${command[@]}"
  [ "$code" = 0 ] && break
  expect_exit 137
  [ -e small.onnx ] && [ ! -e small.onnx.data ] && fail "a graph without its data after a kill at write $fault"
  [ -e small.onnx.data ] && [ ! -e small.onnx ] && half=$((half + 1))
  if [ -e small.onnx ]; then
    for file in small.onnx small.onnx.data; do expect_same_bytes "$file" "whole/$file"; done
    rm -rf small.onnx*
  fi
  run "${command[@]}"
  last="tensorize after COMERA_FAULT_AT=$fault"
  same
done
[ "$fault" -gt 20 ] || fail "the run is killed at more than 20 writes"
[ "$half" -gt 0 ] || fail "one of the kills leaves the data alone"
rm -rf small.onnx*

# Files that the user creates there after the kill are kept.
for ((fault = 1; fault < 1000; ++fault)); do
  run env COMERA_FAULT_AT=$fault "${command[@]}"
  [ -e small.onnx.data ] && [ ! -e small.onnx ] && break
  rm -rf small.onnx*
done
cp small.onnx.data other && mv other small.onnx.data
run "${command[@]}"
expect_refused 'small.onnx.data: exists already'
expect_file small.onnx.data
rm -rf small.onnx* .small.onnx*

# Reports are written beside the graph. Reports of an earlier run are replaced, other files of these names are not.
for ending in report.json report.html; do
  printf 'precious\n' >"small.onnx.$ending"
  run "${command[@]}"
  expect_refused "small.onnx.$ending: exists already"
  expect_equal "$(cat "small.onnx.$ending")" precious
  rm "small.onnx.$ending"
done
run "${command[@]}"
rm small.onnx small.onnx.data
run "${command[@]}"
same

# A neighbour with that name does not belong to the graph that --force replaces.
run "$COMERA" export model -o forced.onnx
printf 'precious\n' >forced.onnx.data
run "$COMERA" export model -o forced.onnx --force
expect_exit 0
expect_equal "$(cat forced.onnx.data)" precious
# Nor to a file that is no graph.
echo precious >forced.onnx
run "$COMERA" export model -o forced.onnx --force
expect_exit 0
expect_equal "$(cat forced.onnx.data)" precious
# If --force replaces a graph by one without a data file, the old data file is removed.
cp graph.onnx forced.onnx && sed -i 's/graph.onnx.data/force.onnx.data/g' forced.onnx && mv forced.onnx force.onnx &&
  cp graph.onnx.data force.onnx.data
run "$COMERA" export model -o force.onnx --force
expect_exit 0
expect_no_file force.onnx.data
none
finish
