#!/usr/bin/env bash
# Provides nvcc of CUDA 13: the machine's own if cuBLASLt is beside it, else CUDA 13.0 from PyPI in a folder of the
# build. The library needs libcublasLt.so.13, so no other version fits.
#
#   third_party/cuda.sh FOLDER             installs missing parts into FOLDER (1.1 GB)
#   third_party/cuda.sh --nvcc FOLDER      prints the path of nvcc
#   third_party/cuda.sh --nvdisasm FOLDER  prints the path of nvdisasm; installs a missing one into FOLDER
#
# The folder from PyPI also has compute-sanitizer and the runtime libraries that libcomera_cuda.so loads. nvdisasm, by
# which scripts/cuda_cost.py reads machine code, is a package of its own.
set -euo pipefail

print_only=0 tool=nvcc
case ${1:-} in
  --nvcc) print_only=1 && shift ;;
  --nvdisasm) tool=nvdisasm && shift ;;
esac
[ $# = 1 ] || { sed -n '2,10s/^# \{0,1\}//p' "$0" >&2 && exit 2; }
folder=$1

find_nvdisasm() {
  local path
  for path in "${NVDISASM:-}" "$(command -v nvdisasm || true)" /usr/local/cuda/bin/nvdisasm \
    "$folder"/lib/python3*/site-packages/nvidia/cu13/bin/nvdisasm; do
    if [ -x "$path" ]; then
      echo "$path"
      return
    fi
  done
  return 1
}

if [ $tool = nvdisasm ]; then
  if ! find_nvdisasm; then
    [ -x "$folder/bin/pip" ] || python3 -m venv "$folder" >&2
    "$folder/bin/pip" install --quiet 'nvidia-cuda-nvdisasm==13.*' >&2
    find_nvdisasm
  fi
  exit
fi

# Prints why a toolkit does not fit, with status 1.
fits() { # NVCC
  local version toolkit
  version=$("$1" --version 2> /dev/null | sed -n 's/.*release \([0-9]*\.[0-9]*\).*/\1/p')
  toolkit=$(dirname "$(dirname "$(realpath "$1")")")
  case $version in
    13.*) ;;
    *) echo "cuda.sh: $1 is of CUDA ${version:-without a version}, and comera needs CUDA 13" >&2 && return 1 ;;
  esac
  [ -e "$toolkit/lib64/libcublasLt.so.13" ] || [ -e "$toolkit/lib/libcublasLt.so.13" ] ||
    { echo "cuda.sh: $toolkit has no libcublasLt.so.13; install cuBLAS of CUDA 13" >&2 && return 1; }
}

find_nvcc() {
  local nvcc
  for nvcc in "${CUDACXX:-}" "$(command -v nvcc || true)" /usr/local/cuda/bin/nvcc \
    "$folder"/lib/python3*/site-packages/nvidia/cu13/bin/nvcc; do
    if [ -x "$nvcc" ] && fits "$nvcc"; then
      echo "$nvcc"
      return
    fi
  done
  return 1
}

if ! nvcc=$(find_nvcc); then
  [ $print_only = 0 ] ||
    { echo "cuda.sh: no nvcc of CUDA 13; run third_party/cuda.sh $folder" >&2 && exit 1; }
  echo "Fetching the CUDA 13.0 toolkit from PyPI into $folder (1.1 GB, once)"
  python3 -m venv "$folder"
  "$folder/bin/pip" install --quiet 'cuda-toolkit[nvcc,cccl,cudart,cublas,cupti,sanitizer]==13.0.*'
  # nvcc passes lib64 to the linker, the library folder of a system toolkit.
  for toolkit in "$folder"/lib/python3*/site-packages/nvidia/cu13; do ln -sfn lib "$toolkit/lib64"; done
  if ! nvcc=$(find_nvcc); then
    echo "cuda.sh: the toolkit from PyPI has no working nvcc; install CUDA 13 and name its nvcc in CUDACXX" >&2
    exit 1
  fi
fi
[ $print_only = 0 ] || echo "$nvcc"
