#!/usr/bin/env bash
# Compiles the CUDA backend for one GPU and checks the registers of its kernels against the table, and that each begins
# with a wait. Then checks that the program, with the library in its folder, prints the right message on this machine.
# Fetches the toolkit from PyPI if there is no nvcc.
#
#   tests/kernels/cuda_build.sh BUILD
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$(realpath "$1")
scripts/recent.py kernels third_party/cuda.sh scripts/cuda_registers.py scripts/cuda_waits.py \
  tests/kernels/cuda_build.sh

third_party/cuda.sh "$build/third_party/cuda" || {
  echo "SKIPPED: no CUDA toolkit here, and PyPI cannot be reached" && exit 77
}
nvcc=$(third_party/cuda.sh --nvcc "$build/third_party/cuda")
release=$("$nvcc" --version | sed -n 's/.*release \([0-9.]*\),.*/\1/p')
cmake -S . -B "$build/cuda" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCOMERA_CUDA=ON -DCOMERA_TESTS=OFF \
  -DCOMERA_CUDA_ARCHITECTURES=90a -DCMAKE_CUDA_COMPILER="$nvcc" \
  -DCOMERA_SENTENCEPIECE="$(sed -n 's/^COMERA_SENTENCEPIECE:PATH=//p' "$build/CMakeCache.txt")" \
  -DCMAKE_CUDA_FLAGS='-Xptxas -v' --log-level=NOTICE
# A new build, so that the log contains every kernel. The target `clean` would remove the SentencePiece of the build
# around this one.
find "$build/cuda" -name '*.o' -delete
cmake --build "$build/cuda" -j 2 --target comera_cuda gpu_timeline -v > "$build/cuda/ptxas.log" 2>&1 || {
  grep -E 'error|FAILED' "$build/cuda/ptxas.log" && exit 1
}
scripts/cuda_registers.py --release "$release" "$build/cuda/ptxas.log"
if nvdisasm=$(third_party/cuda.sh --nvdisasm "$build/third_party/cuda"); then
  scripts/cuda_waits.py "$build/cuda/libcomera_cuda.so" "$nvdisasm"
else
  echo "SKIPPED: the waits of the kernels: no nvdisasm here, and PyPI cannot be reached"
fi

# The program finds the library in its own folder. Without a driver or a GPU, the message must name that cause, not a
# missing build.
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cp "$build/comera" "$build/cuda/libcomera_cuda.so" "$place/"
said=$("$place/comera" --version --device cuda)
echo "$said"
case $said in
  'no driver'* | 'no device'* | cuda:0*) ;;
  *) echo "unexpected: $said" && exit 1 ;;
esac
# The library loads, or fails only because libcublasLt is missing on this machine.
load='import ctypes, sys; ctypes.CDLL(sys.argv[1]).comera_cuda_backend'
if ! loaded=$(python3 -c "$load" "$place/libcomera_cuda.so" 2>&1); then
  case $loaded in *libcublasLt.so.13*) ;; *) echo "$loaded" && exit 1 ;; esac
fi
