#!/usr/bin/env bash
# Runs a Python script with packages from PyPI:  run.sh VENV "PACKAGES" SCRIPT ARGUMENTS...
# VENV is made once and kept. COMERA_INTEROP_PYTHON names an interpreter that already has the packages.
# Exits with 77 (skipped) without network.
set -euo pipefail
venv=$1 packages=$2
shift 2
python=${COMERA_INTEROP_PYTHON:-$venv/bin/python}
if [ ! -x "$python" ]; then
  python3 -m venv "$venv" >/dev/null \
    || { echo "python3 -m venv does not work: not compared with PyPI's packages" >&2; exit 77; }
fi
imports=${packages// /, }
if ! "$python" -c "import $imports" 2>/dev/null; then
  # shellcheck disable=SC2086  # a list of packages
  "$python" -m pip install --quiet --disable-pip-version-check --timeout 15 --retries 1 $packages >&2 \
    || { echo "pip cannot install $packages (no network?): not compared with PyPI's packages" >&2; exit 77; }
fi
exec "$python" "$@"
