#!/bin/bash
# Compares rendered chat templates with Jinja as the package `transformers` of PyPI sets it up, in a virtual environment
# under the build folder; COMERA_TRANSFORMERS_PYTHON names an interpreter that has it.
# usage: templates_against_pypi.sh PROGRAM BUILD [FILE.jinja ...]      exit 77: skipped, without
# network, or where nothing changed and no FILE is named
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/data/interop/environment.sh
. "$here/environment.sh"
program=$1 environment=$2/venv-templates
shift 2
[ $# -gt 0 ] || "$here/../../../scripts/recent.py" lib/core lib/io lib/data tests/data/interop
python=${COMERA_TRANSFORMERS_PYTHON:-}
[ -n "$python" ] || use_packages "$environment" "jinja2, transformers" jinja2 transformers
exec "$python" "$here/templates_against_pypi.py" "$program" "$@"
