#!/usr/bin/env bash
# Builds a Debian package of the program: it needs only glibc and contains the manual pages and completion for bash, zsh
# and fish. The CUDA backend is not included, because Debian lacks its libraries; scripts/package.sh packs it.
#
#   scripts/package_deb.sh BUILD        writes BUILD/comera_VERSION_amd64.deb
#
# DEBFULLNAME and DEBEMAIL name the packager; default: the author of the last commit. lintian, if installed, must find
# no error. LEVEL, 0 to 9, is the compression level.
set -euo pipefail
[ $# = 1 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2 && exit 2; }
build=$(realpath "$1")
cd "$(dirname "$0")/.."

git_log() { git -c safe.directory='*' log -1 --format="$1" 2> /dev/null || true; }
program=$build/comera
version=$("$program" --version | sed -n '1s/^comera //p')
date=$(git_log %aD)
date=${date:-$(date -R)}
packer="${DEBFULLNAME:-$(git_log %an)} <${DEBEMAIL:-$(git_log %ae)}>"
if [ "$packer" = ' <>' ]; then
  echo "package_deb.sh: there is no commit to take a name from; set DEBFULLNAME and DEBEMAIL" >&2
  exit 2
fi

stage=$build/package/deb
documents=$stage/usr/share/doc/comera
pages=$stage/usr/share/man/man1
rm -rf "$stage"
umask 022
mkdir -p "$stage/DEBIAN" "$stage"/usr/{bin,share/lintian/overrides} "$documents" "$pages"
install -s -m 755 "$program" "$stage/usr/bin/comera"

"$program" manual man -o "$pages"
place_completion() { mkdir -p "$stage/usr/share/$2" && "$program" completion "$1" > "$stage/usr/share/$2/$3"; }
place_completion bash bash-completion/completions comera
place_completion zsh zsh/vendor-completions _comera
place_completion fish fish/vendor_completions.d comera.fish

# In the places of the project, so that the pages find each other. Debian keeps the licence in `copyright`.
cp -r README.md CONTRIBUTING.md SECURITY.md CHANGELOG.md docs "$documents/"
for file in lib/io/FORMAT.md recipes/README.md recipes/python/comera_tt.py; do
  install -D -m 644 "$file" "$documents/$file"
done
sed -i 's/(LICENSE)/(copyright)/' "$documents/README.md"
cat > "$documents/copyright" << END
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: comera

Files: *
Copyright: $(date -d "$date" +%Y) the authors of comera
License: Apache-2.0
 On Debian systems the full text is in /usr/share/common-licenses/Apache-2.0.
END
cat > "$documents/changelog" << END
comera ($version) unstable; urgency=medium

  * Made from commit $(git_log %h); what changed is in CHANGELOG.md.

 -- $packer  $date
END
# Statically linked, so that the program starts in milliseconds and behaves alike on every machine (docs/decisions.md,
# "Build and house").
cat > "$stage/usr/share/lintian/overrides/comera" << END
# Linked statically, so that the program does the same on every machine; SentencePiece is linked
# against the system's protobuf, which its own shared library is not.
comera: embedded-library *
END
gzip -9n "$pages"/*.1 "$documents"/changelog
find "$stage" -type d -exec chmod 755 {} +
find "$stage/usr/share" -type f -exec chmod 644 {} +

needed=$(objdump -T "$stage/usr/bin/comera" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
cat > "$stage/DEBIAN/control" << END
Package: comera
Version: $version
Architecture: $(dpkg --print-architecture)
Maintainer: $packer
Installed-Size: $(du -sk --apparent-size "$stage/usr" | cut -f1)
Depends: libc6 (>= ${needed#GLIBC_})
Suggests: wordnet-base
Section: science
Priority: optional
Description: trains and compresses neural networks in tensor-train form
 Trains transformers in tensor-train form, cuts ranks to a size, turns dense
 checkpoints into tensor-train form, tells layer by layer what it did, and
 hands models on as safetensors and ONNX. One native program; no Python.
END
(cd "$stage" && find usr -type f -print0 | sort -z | xargs -0 md5sum) > "$stage/DEBIAN/md5sums"

file=$build/comera_${version}_$(dpkg --print-architecture).deb
dpkg-deb --root-owner-group -z "${LEVEL:-6}" --build "$stage" "$file" > /dev/null
echo "$file: $(stat -c %s "$file") bytes"
if command -v lintian > /dev/null; then
  lintian --allow-root --fail-on error "$file"
else
  echo "not checked: there is no lintian"
fi
echo "install it with: apt install $file"
