#!/usr/bin/env bash
# recipes/activations.sh --smoke: the table of each job, and policies that save memory.
. "$(dirname "$0")/../cli/expect.sh"
# shellcheck source=shared/product.sh
. "$tests/recipes/shared/product.sh"

expect_needs text/gutenberg16.txt.zst activations
made_text gutenberg16
made_mnli
check_recipe activations '^== llama-dense' '^== llama-tt' '^== mnli' '^\| keep \| .* \| 1.00x \|' '^\| block \|' \
  '^\| cheap,int8 \| .*[0-9.]{6} \|$'
expect_equal "$(wc -l <folder/mnli/times.csv)" 3
grep -q 'dev loss against ms per step' folder/llama-tt/compared.html || fail 'a page of runs has a chart of loss against time'
# Policies for which a model has no values are left out of its table; the loss of copies is that of the policy without share.
run env JOBS='llama-dense mnli-dense' TIMED='keep share,int8 velora act2bit' TRAINED='keep int8 act2bit' \
  "$tests/../recipes/activations.sh" --smoke "$PWD/forms"
expect_exit 0
expect_out '^\| share,int8 \| .*[0-9.]{6} \|$'
expect_equal "$(cut -d, -f1 forms/llama-dense/times.csv)" $'keep\nshare+int8\nvelora'
expect_equal "$(cut -d, -f1 forms/mnli-dense/times.csv)" $'keep\nshare+int8\nvelora\nact2bit'
expect_out '^\| act2bit \| .*[0-9.]{6} \|$'
run env JOBS=other "$tests/../recipes/activations.sh" --smoke "$PWD/other"
expect_exit 2
finish
