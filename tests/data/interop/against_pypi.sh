#!/bin/bash
# Compares ids and texts with the packages `tokenizers` and `sentencepiece` of PyPI, in a virtual environment under the
# build folder.
# usage: against_pypi.sh SCRIPT PROGRAM BUILD [--quick]      exit 77: skipped, without COMERA_DATA or
# network, or where nothing changed
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/data/interop/environment.sh
. "$here/environment.sh"
"$here/../../../scripts/recent.py" lib/core lib/io lib/data tests/data/interop \
  third_party/sentencepiece.sh
script=$1 program=$2
environment=$3/venv-tokenizers

[ -n "${COMERA_DATA:-}" ] || skip "COMERA_DATA is not set, so there is no text to compare on"
command -v zstd > /dev/null || skip "the program zstd is not installed"
use_packages "$environment" "tokenizers, sentencepiece" tokenizers==0.23.3 sentencepiece==0.2.3
exec "$python" "$here/$script" "$program" "$COMERA_DATA" "${@:4}"
