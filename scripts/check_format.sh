#!/usr/bin/env bash
# Compares every source file with .clang-format; --fix rewrites the files instead.
set -euo pipefail
cd "$(dirname "$0")/.."
mode=(--dry-run -Werror)
[ "${1:-}" != --fix ] || mode=(-i)
find . \( -path ./build -o -path ./runs -o -name '.venv' \) -prune -o -type f -regex '.*\.\(cpp\|h\|cu\|cuh\)' -print0 |
  xargs -0 clang-format-14 "${mode[@]}" || { echo "run: make format"; exit 1; }
