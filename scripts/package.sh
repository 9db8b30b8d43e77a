#!/usr/bin/env bash
# Builds a tarball that runs from the folder where it is unpacked: the program, its documentation and, if it was built,
# the CUDA backend.
# It needs glibc 2.36 or newer. --device cuda needs an NVIDIA driver and the CUDA 13 runtime (libcublasLt.so.13).
#
#   scripts/package.sh BUILD            writes BUILD/comera-VERSION-linux-x86_64.tar.gz
#   TESTS=1 scripts/package.sh BUILD    adds the files that `make check-gpu` needs on a machine with a GPU; at most
#                                       64 MiB: build the library for one architecture (make package ARCHS=90a)
set -euo pipefail
most_with_tests=$((64 << 20))
[ $# = 1 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2 && exit 2; }
build=$(realpath "$1")
cd "$(dirname "$0")/.."

version=$("$build/comera" --version | sed -n '1s/^comera //p')
name=comera-$version-linux-x86_64
stage=$build/package/$name
rm -rf "$build/package"
mkdir -p "$stage"
cmake --install "$build" --prefix "$stage" --strip > /dev/null
cp -r LICENSE ./*.md docs "$stage/"
for file in lib/io/FORMAT.md recipes/README.md recipes/python/comera_tt.py; do # docs/ refers to them
  install -D -m 644 "$file" "$stage/$file"
done

if [ "${TESTS:-}" = 1 ]; then
  mkdir -p "$stage/check"
  install -s "$build/test_kernels" "$build/test_models" "$stage/bin/"
  cp scripts/{check_gpu.sh,gpu_report.py,gpu_timeline.py} recipes/{pytorch_peer,time_epoch,energy}.py "$stage/check/"
  [ ! -e "$build/libgpu_timeline.so" ] || install -s "$build/libgpu_timeline.so" "$stage/check/"
  git rev-parse HEAD > "$stage/check/commit"
  # compute-sanitizer is part of the toolkit from PyPI (third_party/cuda.sh). A system toolkit installs it itself.
  toolkit=$(dirname "$(dirname "$(third_party/cuda.sh --nvcc "$build/third_party/cuda")")")
  if [ -x "$toolkit/bin/compute-sanitizer" ]; then
    mkdir -p "$stage/check/sanitizer"
    cp "$toolkit"/bin/compute-sanitizer "$toolkit"/bin/libsanitizer-collection.so "$stage/check/sanitizer/" \
      2> /dev/null || true
    libraries=(InterceptorInjectionTarget TreeLauncherPlaceholder TreeLauncherTargetInjection
      TreeLauncherTargetUpdatePreloadInjection sanitizer-collection sanitizer-public)
    for library in "${libraries[@]}"; do
      cp "$toolkit/lib/lib$library.so" "$stage/check/sanitizer/" 2> /dev/null || true
    done
  fi
fi

packed=$build/$name.tar.gz
tar -C "$build/package" -cf - "$name" | gzip -n > "$packed"
bytes=$(stat -c %s "$packed")
echo "$packed: $bytes bytes"
if [ "${TESTS:-}" = 1 ] && [ "$bytes" -gt $most_with_tests ]; then
  echo "package.sh: $packed has $bytes bytes, at most $most_with_tests with tests; use ARCHS with one architecture" >&2
  exit 1
fi

# Checks the requirements of the first lines: only glibc is linked, and no symbol needs a newer version.
for file in "$stage"/bin/comera "$stage"/lib/*.so; do
  [ -e "$file" ] || continue
  needed=$(objdump -p "$file" | awk '$1 == "NEEDED" { print $2 }' |
    grep -vE '^(lib(c|m|dl|rt|pthread)\.so\.[0-9]+|ld-linux-x86-64\.so\.2)$' || true)
  case $file in *libcomera_cuda.so) needed=$(grep -v '^libcublasLt\.so\.13$' <<< "$needed" || true) ;; esac
  [ -z "$needed" ] || { echo "package.sh: $file needs $needed, which other machines may lack" >&2 && exit 1; }
  newest=$(objdump -T "$file" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
  [ "$(printf '%s\nGLIBC_2.36\n' "$newest" | sort -V | tail -n 1)" = GLIBC_2.36 ] ||
    { echo "package.sh: $file needs $newest" >&2 && exit 1; }
done
cat << END
On any machine with glibc 2.36 or newer, without a compiler:
  tar -xzf $name.tar.gz
  $name/bin/comera --help
  sudo ln -s "\$PWD/$name/bin/comera" /usr/local/bin/    # optional: puts it on the PATH
END
