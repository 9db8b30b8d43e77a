#!/usr/bin/env bash
# recipes/bench_vs_pytorch.sh --smoke: a linear layer here against answers of PyTorch that are made.
. "$(dirname "$0")/../cli/expect.sh"
# shellcheck source=shared/product.sh
. "$tests/recipes/shared/product.sh"

expect_needs_torch bench_vs_pytorch
made_torch
check_recipe bench_vs_pytorch '^## v3, ' '^\| linear tt 4096 \| .* \| linear dense 4096 \| 40.0 \[39.0-41.0\] \| [0-9.]+x \|'
expect_equal "$(grep -c 'pytorch_peer.py' calls)" 4
# OUT is the folder too, as before there was an argument for it; sections are chosen by ONLY.
run env OUT="$PWD/folder" ONLY='no section' "$tests/../recipes/bench_vs_pytorch.sh" --smoke
expect_exit 0
expect_equal "$(grep -c 'pytorch_peer.py' calls)" 4
finish
