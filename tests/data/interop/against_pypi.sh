#!/bin/bash
# Compares ids and texts with the packages `tokenizers` and `sentencepiece` of PyPI, in a virtual environment under the
# build folder.
# usage: against_pypi.sh SCRIPT PROGRAM BUILD [--quick]      exit 77: skipped, without COMERA_DATA or
# network, or where nothing changed
set -euo pipefail
"$(dirname "$0")/../../../scripts/recent.py" lib/core lib/io lib/data tests/data/interop \
  third_party/sentencepiece.sh
script=$1 program=$2
environment=$3/venv-tokenizers
packages="tokenizers==0.23.3 sentencepiece==0.2.3"

skip() { echo "SKIPPED: $1" >&2 && exit 77; }
[ -n "${COMERA_DATA:-}" ] || skip "COMERA_DATA is not set, so there is no text to compare on"
command -v zstd > /dev/null || skip "the program zstd is not installed"
if ! "$environment/bin/python" -c 'import tokenizers, sentencepiece' 2> /dev/null; then
  python3 -m venv "$environment" || skip "python3 cannot make a virtual environment"
  # shellcheck disable=SC2086
  "$environment/bin/pip" install -q --disable-pip-version-check $packages \
    || skip "PyPI does not answer or lacks $packages"
fi
exec "$environment/bin/python" "$(dirname "$0")/$script" "$program" "$COMERA_DATA" "${@:4}"
