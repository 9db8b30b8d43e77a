#!/usr/bin/env bash
# Runs graphs in ONNX Runtime (from PyPI): graphs of other exporters before and after tensorize, and toy models that are
# trained and exported in every form and type. Usage: onnxruntime.sh VENV
# COMERA_ONNX_PYTHON names an interpreter that already has numpy, onnx and onnxruntime. Skipped (77) without network.
venv=$(realpath -m "$1")
# shellcheck source=tests/cli/expect.sh
. "$(dirname "$0")/../../cli/expect.sh"
# shellcheck source=tests/cli/tiny_task.sh
. "$tests/cli/tiny_task.sh"

train() {
  local name=$1
  shift
  run "$COMERA" pretrain "${model[@]}" "${words[@]}" "$@" -o "$name"
  expect_exit 0
}
classified=("${columns[@]}" --data train.tsv --dev dev.tsv)
train tt "${classified[@]}" --form tt
train pre "${classified[@]}" --form tt --pre-norm
train lowrank "${classified[@]}" --form lowrank
train dense "${classified[@]}" --form dense
train mlm --task mlm --data corpus.txt --dev corpus.txt
train clm --model llama-6m --task clm --layers 2 --heads 4 --key-heads 2 --data corpus.txt --dev corpus.txt
train words --task mlm --data corpus.txt --dev corpus.txt --form dense
train stories --model llama-6m --task clm --layers 2 --heads 4 --key-heads 2 \
  --data corpus.txt --dev corpus.txt --form dense
# Exact rows, of tables that are only looked up and of tables that are also decoders.
printf 'round red and green\nsquare blue and round\nred red red green\nround round green and\n%.0s' 1 2 3 4 5 6 >hot.txt
for name in dense words stories; do
  run "$COMERA" tensorize "$name" -o "exact-$name" --rank 3 --calibrate hot.txt --exact-rows 4
  expect_exit 0
done
# Weights on grids: of every number of bits, with tables, and with corrections.
for bits in 8 4 2; do
  run "$COMERA" tensorize dense -o "bits$bits" --bits "$bits"
  expect_exit 0
done
run "$COMERA" tensorize stories -o bits-stories --bits 3
expect_exit 0
run "$COMERA" tensorize words -o bits-auto --bits auto --ratio 2.5 --calibrate hot.txt
expect_exit 0
run "$COMERA" tensorize dense -o bits-rank --bits 4 --rank 4 --calibrate hot.txt
expect_exit 0
[ "$failures" = 0 ] || finish
export COMERA_INTEROP_PYTHON=${COMERA_ONNX_PYTHON:-}
against=("$tests/io/interop/run.sh" "$venv" "numpy onnx onnxruntime")
"${against[@]}" "$tests/export/interop/any_graph.py" "$COMERA" || exit $?
"${against[@]}" \
  "$tests/export/interop/against_onnxruntime.py" check "$COMERA" \
  tt pre lowrank dense mlm clm exact-dense exact-words exact-stories \
  bits8 bits4 bits2 bits-stories bits-auto bits-rank
