#!/usr/bin/env bash
# Provides nvcc: the machine's own if it is 12.8 or newer, else CUDA 13.0 from PyPI in a folder of the build.
#
#   third_party/cuda.sh FOLDER           installs missing parts into FOLDER (1.1 GB)
#   third_party/cuda.sh --nvcc FOLDER    prints the path of nvcc
#
# The folder from PyPI also has compute-sanitizer and the runtime libraries that libcomera_cuda.so loads.
set -euo pipefail

print_only=0
if [ "${1:-}" = --nvcc ]; then
  print_only=1
  shift
fi
[ $# = 1 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2 && exit 2; }
folder=$1

new_enough() { # NVCC
  local version
  version=$("$1" --version 2> /dev/null | sed -n 's/.*release \([0-9]*\)\.\([0-9]*\).*/\1 \2/p')
  [ -n "$version" ] && [ "$(awk '{ print $1 * 100 + $2 }' <<< "$version")" -ge 1208 ]
}

find_nvcc() {
  local nvcc
  for nvcc in "${CUDACXX:-}" "$(command -v nvcc || true)" /usr/local/cuda/bin/nvcc \
    "$folder"/lib/python3*/site-packages/nvidia/cu13/bin/nvcc; do
    if [ -x "$nvcc" ] && new_enough "$nvcc"; then
      echo "$nvcc"
      return
    fi
  done
  return 1
}

if ! nvcc=$(find_nvcc); then
  [ $print_only = 0 ] ||
    { echo "cuda.sh: no nvcc of CUDA 12.8 or newer; run third_party/cuda.sh $folder" >&2 && exit 1; }
  echo "Fetching the CUDA 13.0 toolkit from PyPI into $folder (1.1 GB, once)"
  python3 -m venv "$folder"
  "$folder/bin/pip" install --quiet 'cuda-toolkit[nvcc,cccl,cudart,cublas,sanitizer]==13.0.*'
  # nvcc passes lib64 to the linker, the library folder of a system toolkit.
  for toolkit in "$folder"/lib/python3*/site-packages/nvidia/cu13; do ln -sfn lib "$toolkit/lib64"; done
  if ! nvcc=$(find_nvcc); then
    echo "cuda.sh: the toolkit from PyPI has no working nvcc; install CUDA 13 and name its nvcc in CUDACXX" >&2
    exit 1
  fi
fi
[ $print_only = 0 ] || echo "$nvcc"
