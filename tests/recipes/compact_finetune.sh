#!/usr/bin/env bash
# recipes/compact_finetune.sh --smoke: planned and measured memory of each policy.
. "$(dirname "$0")/../cli/expect.sh"
# shellcheck source=shared/product.sh
. "$tests/recipes/shared/product.sh"

check_recipe compact_finetune '^\| keep \| [0-9]+ \| [0-9]+ \| 1.00 \|' '^\| compact \|' '^\| compact,act2bit,int8 \|'
# Rows in which compact saves nothing: the full-size recipe fails by its limit.
mkdir -p full
for policy in keep compact compact+act2bit compact+act2bit+int8 int8 cheap+int8 block; do
  echo '{"planned": 1048576, "measured": 1048576, "ms": 1}' >"full/$policy.row.json"
done
run "$tests/../recipes/compact_finetune.sh" "$PWD/full"
expect_exit 1
expect_err '^compact, compact,act2bit: more memory'
expect_results full
finish
