#!/bin/bash
# Compares pictures and the values that a model gets of them with the packages `pillow` and `transformers` of PyPI, in a
# virtual environment under the build folder; COMERA_TRANSFORMERS_PYTHON names an interpreter that has them.
# usage: images_against_pypi.sh PROGRAM BUILD      exit 77: skipped, without network, or where nothing changed
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
program=$1 environment=$2/venv-images
"$here/../../../scripts/recent.py" lib/core lib/io lib/data/images tests/data/interop
python=${COMERA_TRANSFORMERS_PYTHON:-}
skip() { echo "SKIPPED: $1" >&2 && exit 77; }
if [ -z "$python" ]; then
  python=$environment/bin/python
  if ! "$python" -c 'import numpy, PIL, transformers' 2> /dev/null; then
    python3 -m venv "$environment" || skip "python3 cannot make a virtual environment"
    "$python" -m pip install -q --disable-pip-version-check numpy pillow transformers \
      || skip "PyPI does not answer or lacks numpy, pillow and transformers"
  fi
fi
exec "$python" "$here/images_against_pypi.py" "$program"
