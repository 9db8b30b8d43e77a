#!/usr/bin/env bash
# make deb: the package holds program, manual and completion, declares its dependencies, passes lintian, and its pages
# have their links. Uses a build folder of its own.
#
#   tests/recipes/package_deb.sh BUILD
set -euo pipefail
cd "$(dirname "$0")/../.."
command -v lintian > /dev/null || { echo "SKIPPED: there is no lintian; third_party/install.sh test installs it" &&
  exit 77; }
git -c safe.directory='*' rev-parse -q --verify HEAD > /dev/null || { echo "SKIPPED: no git checkout" && exit 77; }
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
ln -s "$(realpath "$1")/comera" "$place/comera"
LEVEL=1 scripts/package_deb.sh "$place"

dpkg-deb --contents "$place"/comera_*.deb > "$place/contents"
for file in bin/comera share/man/man1/comera.1.gz share/man/man1/comera-pretrain.1.gz \
  share/bash-completion/completions/comera; do
  grep -q " ./usr/$file\$" "$place/contents" || { echo "the package lacks /usr/$file" && exit 1; }
done
[[ $(dpkg-deb --field "$place"/comera_*.deb Depends) =~ ^libc6\ \(\>=\ 2\.[0-9]+\)$ ]] ||
  { echo "it needs more than glibc" && exit 1; }
dpkg-deb --extract "$place"/comera_*.deb "$place/root"
scripts/check_links.py "$place/root/usr/share/doc/comera"
"$place/root/usr/bin/comera" --version > /dev/null
