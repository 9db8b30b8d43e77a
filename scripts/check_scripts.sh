#!/usr/bin/env bash
# Runs shellcheck on every shell script.
set -euo pipefail
cd "$(dirname "$0")/.."
find . \( -path ./build -o -path ./runs -o -name '.venv' -o -path ./.git \) -prune -o \
  -type f \( -name '*.sh' -o -path './.ci/*' \) -print0 | sort -z | xargs -0 shellcheck -x
