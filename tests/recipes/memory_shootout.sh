#!/usr/bin/env bash
# recipes/memory_shootout.sh --smoke: a row for each method in the table of short and in that of long runs.
. "$(dirname "$0")/../cli/expect.sh"
# shellcheck source=shared/product.sh
. "$tests/recipes/shared/product.sh"

expect_needs text/gutenberg16.txt.zst memory_shootout
made_text gutenberg16
check_recipe memory_shootout '^2 steps, the best rate' '^3 steps, long runs' '^\| adamw: \*\*1e-3\*\* \|' '^\| galore \|' \
  '^\| int8 \|' '^\| lowrank \|' '^\| tt-int8 \|'
grep -q 'dev loss against peak memory' folder/compared.html || fail 'the page of runs has a chart of loss against memory'
METHODS=other run "$tests/../recipes/memory_shootout.sh" --smoke "$PWD/other"
expect_exit 2
expect_err "no method 'other'"
finish
