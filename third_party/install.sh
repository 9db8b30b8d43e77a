#!/usr/bin/env bash
# Lists and installs the missing external dependencies of comera. All are packages of Debian 12.
#
#   third_party/install.sh [--list] build|recipes|cuda|test ...
#
#   build    to build the program
#   recipes  in addition, for the scripts under recipes/
#   cuda     in addition, to build the CUDA backend
#   test     in addition, for the tests
#   --list   prints what is missing and installs nothing; exit 1 if something is missing
#
# On a terminal it asks before it installs; YES=1 skips the question. Without a terminal it lists, then installs.
set -euo pipefail

# package                 group  why
packages='
build-essential           build  C++ compiler (gcc 12), make, libc headers
gfortran                  build  libgfortran.a, which the static OpenBLAS needs
cmake                     build  build files
ninja-build               build  runs them
pkg-config                build  finds the libraries below
git                       build  the commit that `comera --version` prints
ca-certificates           build  package sources reached by https
dpkg-dev                  build  unpacks the source package of SentencePiece
libopenblas-pthread-dev   build  BLAS and LAPACK, linked statically
libxsmm-dev               build  small matrix products, linked statically
librandom123-dev          build  Philox, the counter-based random numbers
libcli11-dev              build  command line
libfmt-dev                build  text formatting
libtomlplusplus-dev       build  recipe.toml and --config files
nlohmann-json3-dev        build  JSON
libprotobuf-dev           build  protobuf-lite of SentencePiece and ONNX, linked statically
protobuf-compiler         build  protoc, for the message files of SentencePiece and ONNX
libonnx-dev               build  the definitions of ONNX messages; the library itself is not linked
libutf8proc-dev           build  Unicode categories and normal forms
libpcre2-dev              build  regular expressions of tokenizer.json
libxxhash-dev             build  hashes of data and checkpoints
libpng-dev                build  PNG images, linked statically
libturbojpeg0-dev         build  JPEG images, linked statically
libzstd-dev               build  .zst input
zlib1g-dev                build  .gz input
wordnet-base              build  the real text of recipes/quickstart.sh
python3                   recipes their tables as Markdown and JSON
zstd                      recipes text of COMERA_DATA
python3-venv              recipes ONNX Runtime from PyPI, for recipes/minilm.sh
python3-venv              cuda   the CUDA toolkit from PyPI, if the machine has none
catch2                    test   test programs
ccache                    test   faster rebuilds, also on the bare machine of tests/recipes/first_command.sh
debootstrap               test   that bare machine
lintian                   test   checks the Debian package
zstd                      test   text of COMERA_DATA, in tests and recipes
python3                   test   the rule scripts under scripts/
python3-venv              test   readers and runtimes from PyPI that open our files, and the CUDA toolkit
universal-ctags           test   lengths of functions, for scripts/check_size.py
clang-format-14           test   the layout of the source
clang-19                  test   fuzz targets
libclang-rt-19-dev        test   libFuzzer and the sanitizers of clang
clang-tidy-19             test   static checks
shellcheck                test   static checks of shell scripts
'

usage() { sed -n '2,12s/^# \{0,1\}//p' "$0"; }

list_only=0
groups=()
for argument in "$@"; do
  case $argument in
    --list) list_only=1 ;;
    build | recipes | cuda | test) groups+=("$argument") ;;
    -h | --help) usage && exit 0 ;;
    *) echo "install.sh: unknown argument '$argument'; see --help" >&2 && exit 2 ;;
  esac
done
[ ${#groups[@]} -gt 0 ] || groups=(build)

is_installed() { [ "$(dpkg-query -W -f '${db:Status-Abbrev}' "$1" 2>/dev/null)" = 'ii ' ]; }

missing=()
while read -r package group why; do
  [[ -n $package && " ${groups[*]} " == *" $group "* ]] || continue
  is_installed "$package" && continue
  [ ${#missing[@]} -gt 0 ] || echo "Debian packages that comera needs and this machine lacks:"
  printf '  %-24s %s\n' "$package" "$why"
  missing+=("$package")
done <<<"$packages"
[ ${#missing[@]} -gt 0 ] || exit 0
[ $list_only = 0 ] || exit 1

as_root=()
if [ "$(id -u)" != 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "install.sh: needs root and there is no sudo; run as root: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

if [ -t 0 ] && [ "${YES:-}" != 1 ]; then
  read -r -p "Install them with ${as_root[*]:+${as_root[*]} }apt-get? [Y/n] " answer
  case $answer in
    '' | y | Y | yes) ;;
    *) echo "install.sh: nothing installed" >&2 && exit 1 ;;
  esac
fi

apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=120 "$@"; }
install() { apt install -y --no-install-recommends "${missing[@]}"; }

# A fresh image has no package lists, an old one stale lists: updates them only if the first attempt fails.
if apt-cache show "${missing[@]}" >/dev/null 2>&1 && install; then exit 0; fi
apt update
install
