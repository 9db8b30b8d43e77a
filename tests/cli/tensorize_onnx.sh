#!/usr/bin/env bash
# An ONNX graph whose weights become chains: smaller, the rest untouched; and what is refused with nothing left behind.
. "$(dirname "$0")/expect.sh"
# shellcheck source=tiny_task.sh
. "$tests/cli/tiny_task.sh" || exit 1

run "$COMERA" pretrain --model encoder-small --layers 1 --hidden 64 --heads 2 --intermediate 128 --positions 16 --form dense "${words[@]}" \
  "${columns[@]}" --data train.tsv --dev dev.tsv -o run
expect_exit 0
run "$COMERA" export run -o model.onnx --form dense
expect_exit 0

run "$COMERA" tensorize model.onnx -o small.onnx --ratio 1.3
expect_exit 0
expect_err 'small.onnx: [0-9]+ weights became chains'
expect_file small.onnx
expect_file small.onnx.report.json
expect_equal "$(($(stat -c %s small.onnx) < $(stat -c %s model.onnx)))" 1
expect_no_file small.onnx.made.tmp

run "$COMERA" tensorize model.onnx -o other.onnx --ratio 1.3 --dry-run
expect_exit 0
run "$COMERA" tensorize model.onnx -o small.onnx --ratio 1.3
expect_refused 'small.onnx: exists already'
run "$COMERA" tensorize model.onnx -o folder --ratio 1.3
expect_refused 'ends in .onnx'
run "$COMERA" tensorize model.onnx -o other.onnx --ratio 1.1,1.3
expect_refused 'one --ratio at a time'
run "$COMERA" tensorize model.onnx -o other.onnx --ratio 1.3 --calibrate corpus.txt
expect_refused 'needs a model folder'
head -c 3000 model.onnx >damaged.onnx
run "$COMERA" tensorize damaged.onnx -o other.onnx --ratio 1.3
expect_refused 'damaged.onnx: is no ONNX model, or it is damaged'
printf 'not a graph' >text.onnx
run "$COMERA" tensorize text.onnx -o other.onnx --ratio 1.3
expect_refused 'text.onnx: '
for file in folder other.onnx other.onnx.made.tmp; do expect_no_file "$file"; done
finish
