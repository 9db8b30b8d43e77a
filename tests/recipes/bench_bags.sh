#!/usr/bin/env bash
# recipes/bench_bags.sh --smoke: the program's row is measured, those of PyTorch come from answers that are made.
. "$(dirname "$0")/../cli/expect.sh"
# shellcheck source=shared/product.sh
. "$tests/recipes/shared/product.sh"

expect_needs_torch bench_bags
made_torch
check_recipe bench_bags '^\| 2000 \| TTM, comera \| [0-9.]+ \| [0-9.]+ \|$' \
  '^\| 2000 \| TTM, PyTorch, unoptimised \| 4.00 \| 1.00 \|$' '^\| 2000 \| dense, PyTorch, AdamW \| 4.00 \| 1.00 \|$' \
  '^\| 2000 \| dense, PyTorch, sparse, Adagrad \| 4.00 \| 1.00 \|$'
expect_equal "$(grep -c 'bench_bags.py' calls)" 3
grep -q '"torch": "0.0+made"' folder/results.json || fail "the results have PyTorch's version"
finish
