#!/bin/bash
# Compares pictures and the values that a model gets of them with the packages `pillow` and `transformers` of PyPI, in a
# virtual environment under the build folder; COMERA_TRANSFORMERS_PYTHON names an interpreter that has them.
# usage: images_against_pypi.sh PROGRAM BUILD      exit 77: skipped, without network, or where nothing changed
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/data/interop/environment.sh
. "$here/environment.sh"
program=$1 environment=$2/venv-images
"$here/../../../scripts/recent.py" lib/core lib/io lib/data/images tests/data/interop
python=${COMERA_TRANSFORMERS_PYTHON:-}
[ -n "$python" ] || use_packages "$environment" "numpy, PIL, transformers" numpy pillow transformers
exec "$python" "$here/images_against_pypi.py" "$program"
