#!/usr/bin/env bash
# What other programs make of our files, on the real checkpoints below COMERA_DATA: `make interop`, or tests/interop/run.sh BUILD.
# Two virtual environments are made below BUILD and kept (torch comes with gigabytes): transformers and sentence-transformers in one,
# optimum-onnx, which wants an older transformers, in the other. COMERA_TRANSFORMERS_PYTHON and COMERA_OPTIMUM_PYTHON name interpreters that
# have them already.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(realpath -m "${1:?usage: tests/interop/run.sh BUILD}")
comera=$build/comera
if [ -z "${COMERA_DATA:-}" ]; then
  echo "COMERA_DATA is not set: real checkpoints are not compared" >&2
  exit 77
fi

# environment NAME PYTHON PACKAGES...: leaves the interpreter in $python.
environment() {
  local folder=$build/$1
  python=$2
  shift 2
  if [ -z "$python" ]; then
    python=$folder/bin/python
    [ -x "$python" ] || python3 -m venv "$folder"
    "$python" -m pip install --quiet --disable-pip-version-check "$@" ||
      { echo "pip cannot install $* (no network?): not compared" >&2; exit 77; }
  fi
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
checkpoints=$COMERA_DATA/checkpoints

"$comera" export "$checkpoints/all-MiniLM-L6-v2" -o "$work/minilm-onnx" --form dense
"$comera" export "$checkpoints/all-MiniLM-L6-v2" -o "$work/minilm-dense" --to safetensors --form dense
"$comera" export "$checkpoints/stories15M" -o "$work/stories-onnx" --form dense --with-past
"$comera" export "$checkpoints/stories15M" -o "$work/stories-plain" --form dense

environment transformers-venv "${COMERA_TRANSFORMERS_PYTHON:-}" numpy torch transformers sentence-transformers sentencepiece
"$python" "$here/with_transformers.py" "$comera" "$checkpoints" "$work"
environment optimum-venv "${COMERA_OPTIMUM_PYTHON:-}" numpy torch optimum-onnx onnxruntime sentencepiece
"$python" "$here/with_optimum.py" "$checkpoints" "$work"
