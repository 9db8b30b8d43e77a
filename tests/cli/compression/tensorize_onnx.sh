#!/usr/bin/env bash
# An ONNX graph whose weights become chains: smaller, with all other parts unchanged; refused calls that leave no files.
. "$(dirname "$0")/../expect.sh"
# shellcheck source=../tiny_task.sh
. "$tests/cli/tiny_task.sh" || exit 1

run "$COMERA" pretrain --model encoder-small --layers 1 --hidden 64 --heads 2 --intermediate 128 --positions 16 \
  --form dense "${words[@]}" \
  "${columns[@]}" --data train.tsv --dev dev.tsv -o run
expect_exit 0
run "$COMERA" export run -o model.onnx --form dense
expect_exit 0

run "$COMERA" tensorize model.onnx -o small.onnx --ratio 1.3
expect_exit 0
expect_err 'small.onnx: [0-9]+ weights became chains'
expect_out '^cost: not measured: comera runs no ONNX graphs; tensorize the model.s folder with --calibrate'
expect_file small.onnx
expect_file small.onnx.report.json
expect_equal "$(($(stat -c %s small.onnx) < $(stat -c %s model.onnx)))" 1
expect_no_file small.onnx.partial

expect_file small.onnx.report.html
run python3 -c "
import json, os
d = json.load(open('small.onnx.report.json'))
assert d['output'] == 'small.onnx', d['output']
assert d['totals']['file_bytes'] == os.path.getsize('small.onnx') and d['totals']['file_bytes_dense'] == \
  os.path.getsize('model.onnx'), d['totals']
assert d['totals']['file_ratio'] >= 1.3, d['totals']
assert all('.partial' not in json.dumps(l) and not l['name'].endswith('.weight.weight') for l in d['layers']), \
  d['layers']
assert any(l['kind'] == 'embedding' for l in d['layers'])"
expect_exit 0
[ "$(grep -c '\.partial' small.onnx.report.html)" = 0 ] || fail "the page names no temporary folder"

run "$COMERA" tensorize model.onnx -o json.onnx --ratio 1.3 --json
expect_exit 0
expect_json "d['output'] == 'json.onnx' and d['totals']['file_ratio'] >= 1.3"
expect_same_bytes json.onnx small.onnx

# A budget counts the bytes of the graph. Several ratios give one graph each.
dense=$(stat -c %s model.onnx)
run "$COMERA" tensorize model.onnx -o budget.onnx --budget $((dense * 2 / 3))
expect_exit 0
expect_equal "$(($(stat -c %s budget.onnx) <= dense * 2 / 3))" 1
run "$COMERA" tensorize model.onnx -o many --ratio 1.3,2
expect_exit 0
expect_out 'many/ratio-2.onnx'
expect_same_bytes many/ratio-1.3.onnx small.onnx
expect_file many/ratio-2.onnx.report.json
expect_file many/report.html
expect_no_file many.partial

# Half-precision weights are inputs of a Cast. They are found, and their chains stay in half precision.
run "$COMERA" export run -o half.onnx --form dense --dtype fp16
run "$COMERA" tensorize half.onnx -o half_small.onnx --ratio 1.3
expect_exit 0
expect_err ' [1-9][0-9]* weights became chains'
expect_equal "$(($(stat -c %s half_small.onnx) * 13 <= $(stat -c %s half.onnx) * 10))" 1
expect_file half_small.onnx.report.json

# Plans work as they do for folders.
run "$COMERA" tensorize model.onnx --ratio 1.3 --dump-plan plan.json
expect_exit 0
run "$COMERA" tensorize model.onnx -o planned.onnx --plan plan.json
expect_exit 0
expect_same_bytes planned.onnx small.onnx
expect_equal "$(find . -name '*.comera')" ''

# A killed run resumes to the same bytes.
for at in 4 12 30 60; do
  rm -rf resumed.onnx*
  run env COMERA_FAULT_AT=$at "$COMERA" tensorize model.onnx -o resumed.onnx --ratio 1.3
  expect_no_file resumed.onnx
  run "$COMERA" tensorize model.onnx -o resumed.onnx --ratio 1.3
  expect_exit 0
  expect_same_bytes resumed.onnx small.onnx
  expect_no_file resumed.onnx.partial
done
run env COMERA_FAULT_AT=60 "$COMERA" tensorize model.onnx -o resumed2.onnx --ratio 1.3
run "$COMERA" tensorize model.onnx -o resumed2.onnx --ratio 1.3
expect_err 'going on where'

run "$COMERA" tensorize model.onnx -o other.onnx --ratio 1.3 --dry-run
expect_exit 0
run "$COMERA" tensorize model.onnx -o small.onnx --ratio 1.3
expect_refused 'small.onnx: exists already'
run "$COMERA" tensorize model.onnx -o folder --ratio 1.3
expect_refused 'ends in .onnx'
run "$COMERA" tensorize model.onnx -o other.onnx --ratio 1.1,1.3
expect_refused 'name a folder'
run "$COMERA" tensorize model.onnx -o other.onnx --ratio 1.3 --budget-of weights
expect_refused 'whole file is counted'
run "$COMERA" tensorize model.onnx -o other.onnx --ratio 1.3 --calibrate corpus.txt
expect_refused 'needs a model folder'

# With --again, existing chains of a graph are kept.
run "$COMERA" tensorize small.onnx -o other.onnx --ratio 1.2
expect_refused 'small.onnx: is tensorized already, [0-9]+ of its weights are chains; use --again'
run "$COMERA" tensorize model.onnx -o part.onnx --rank 8 --include '*word*'
expect_exit 0
expect_err ' 1 weights became chains'
run "$COMERA" tensorize part.onnx -o whole.onnx --rank 8 --again
expect_exit 0
expect_equal "$(($(stat -c %s whole.onnx) < $(stat -c %s part.onnx)))" 1
run "$COMERA" tensorize whole.onnx -o other.onnx --rank 8
expect_refused 'whole.onnx: is tensorized already'

# Messages name the files of the command line.
python3 -c "
data = open('model.onnx', 'rb').read()
opset, middle = bytes([0x42, 2, 0x10, 17]), len(data) // 2
assert data.count(opset) == 1
open('opset99.onnx', 'wb').write(data.replace(opset, bytes([0x42, 2, 0x10, 99])))
open('nan.onnx', 'wb').write(data[:middle] + b'\xff' * 8 + data[middle + 8:])"
run "$COMERA" tensorize opset99.onnx -o other.onnx --ratio 1.3
expect_refused 'opset99.onnx: its graph is written for opset 99; those of 7 to 28 are read'
run "$COMERA" tensorize nan.onnx -o other.onnx --ratio 1.3
expect_refused 'nan.onnx: initialiser .*: its element [0-9]+ is -?nan'
for options in '--budget 100' '--ratio 2 --include none'; do
  # shellcheck disable=SC2086
  run "$COMERA" tensorize model.onnx -o other.onnx $options
  expect_refused ' model.onnx[:;]'
done
for options in '--bits 4' '--bits auto --ratio 3' '--ratio 1.3 --layer *=cores:8'; do
  # shellcheck disable=SC2086
  run "$COMERA" tensorize model.onnx -o other.onnx $options
  expect_refused 'stay floating-point numbers; leave out bits and cores'
done
run "$COMERA" inspect model.onnx
expect_refused 'model.onnx: is an ONNX graph'

head -c 3000 model.onnx >damaged.onnx
run "$COMERA" tensorize damaged.onnx -o other.onnx --ratio 1.3
expect_refused 'damaged.onnx: is no ONNX model, or it is damaged'
printf 'not a graph' >text.onnx
run "$COMERA" tensorize text.onnx -o other.onnx --ratio 1.3
expect_refused 'text.onnx: '
for file in folder other.onnx other.onnx.partial; do expect_no_file "$file"; done
finish
