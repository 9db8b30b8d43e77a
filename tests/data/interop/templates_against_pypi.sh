#!/bin/bash
# Compares rendered chat templates with Jinja as the package `transformers` of PyPI sets it up, in a virtual environment
# under the build folder; COMERA_TRANSFORMERS_PYTHON names an interpreter that has it.
# usage: templates_against_pypi.sh PROGRAM BUILD [FILE.jinja ...]      exit 77: skipped, without
# network, or where nothing changed and no FILE is named
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
program=$1 environment=$2/venv-templates
shift 2
[ $# -gt 0 ] || "$here/../../../scripts/recent.py" lib/core lib/io lib/data tests/data/interop
python=${COMERA_TRANSFORMERS_PYTHON:-}
skip() { echo "SKIPPED: $1" >&2 && exit 77; }
if [ -z "$python" ]; then
  python=$environment/bin/python
  if ! "$python" -c 'import jinja2, transformers' 2> /dev/null; then
    python3 -m venv "$environment" || skip "python3 cannot make a virtual environment"
    "$python" -m pip install -q --disable-pip-version-check jinja2 transformers \
      || skip "PyPI does not answer or lacks jinja2 and transformers"
  fi
fi
exec "$python" "$here/templates_against_pypi.py" "$program" "$@"
