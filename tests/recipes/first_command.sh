#!/usr/bin/env bash
# Runs README's first command in a bare Debian 12 that has git, make and certificates, in a clone of this checkout (its
# committed files). Only the training is shorter. ccache avoids a second compilation of the objects of `make test`: the
# path of the clone, the compilers and the options are the same as here.
#
#   tests/recipes/first_command.sh BUILD      the bare system is made in BUILD/bare, some 3 GB (in memory where 12 GiB
#                                              are free), and removed again
#
# Needs root, debootstrap, git and a mirror of Debian. Ends with 77 and a message if one of them is missing.
set -euo pipefail
cd "$(dirname "$0")/../.."
source=$PWD
build=$(realpath "$1")
root=$build/bare
log=$build/bare.log
release=bookworm
home=/var/tmp  # home of the user who runs it
cache=$home/.cache/ccache

skip() { echo "SKIPPED: README's first command was not tried on a bare machine: $1" && exit 77; }
fail() { tail -n 60 "$log" && echo "first_command.sh: $1" && exit 1; }

if [ "${IN_OWN_NAMESPACE:-}" != 1 ]; then
  [ "$(id -u)" = 0 ] || skip "this needs root"
  command -v debootstrap > /dev/null || skip "there is no debootstrap; third_party/install.sh test installs it"
  git -c safe.directory='*' rev-parse -q --verify HEAD > /dev/null || skip "$source is no git checkout"
  wget -q --spider --timeout=60 --tries=2 "$(third_party/sentencepiece.sh --mirror)/dists/$release/InRelease" ||
    skip "no mirror of Debian can be reached"
  unshare --mount true || skip "nothing can be mounted here"
  # The mounts below are private to the script that starts here, so none stays and none is removed with the folder.
  rm -rf "$root"
  status=0
  IN_OWN_NAMESPACE=1 unshare --mount "$0" "$build" || status=$?
  rm -rf "$root"
  exit "$status"
fi

# In memory where there is enough: the bare system is some 3 GB of small files that nobody needs afterwards.
available=$(sed -nE 's/^MemAvailable: *([0-9]+) kB/\1/p' /proc/meminfo)
if [ "${available:-0}" -gt $((12 << 20)) ]; then
  mkdir -p "$root"
  mount -t tmpfs -o size=5g tmpfs "$root" 2> /dev/null || true
fi

mirror=$(third_party/sentencepiece.sh --mirror)
echo "== a bare Debian from $mirror"
debootstrap --variant=minbase --include=git,make,ca-certificates,ccache "$release" "$root" "$mirror" > "$log" 2>&1 ||
  fail "debootstrap failed"
# Package sources, proxies, certificates and host names of this machine.
cp /etc/resolv.conf /etc/hosts "$root/etc/"
for file in /etc/apt/sources.list /etc/apt/sources.list.d/debian*; do
  [ ! -s "$file" ] || cp "$file" "$root$file"
done
apt-config dump | grep -iE '^Acquire::(https?|ftp)::.*(proxy|cainfo|verify)' > \
  "$root/etc/apt/apt.conf.d/99-of-the-host" || true
cp -r /usr/local/share/ca-certificates/. "$root/usr/local/share/ca-certificates/"
chroot "$root" update-ca-certificates >> "$log" 2>&1
# The bare system need not survive a crash, so dpkg may skip its syncs.
echo force-unsafe-io > "$root/etc/dpkg/dpkg.cfg.d/unsafe-io"

mountpoint -q "$root/proc" || mount -t proc proc "$root/proc" || skip "nothing can be mounted here"
mkdir -p "$root$cache" "$root$home/.config/ccache" "$root$source"
if command -v ccache > /dev/null; then
  shared=$(ccache --get-config cache_dir)
  mkdir -p "$shared"
  mount --bind "$shared" "$root$cache"
  cp "${XDG_CONFIG_HOME:-$HOME/.config}/ccache/ccache.conf" "$root$home/.config/ccache/" 2> /dev/null || true
fi
git -c safe.directory='*' clone -q "$source" "$root$source"

command=$(sed -n '/^```sh$/{n;s/ *#.*//p;q}' README.md)
[ -n "$command" ] || fail "README.md has no first command"
echo "== $command"
variables=("HOME=$home" PATH=/usr/sbin:/usr/bin:/sbin:/bin "CCACHE_STATSLOG=$home/ccache.log" "STEPS=${STEPS:-6}")
for name in $(compgen -e | grep -E '^CCACHE_|_proxy$' | grep -v '^CCACHE_DIR$'); do variables+=("$name=${!name}"); done
env -i "${variables[@]}" chroot "$root" bash -c "cd '$source' && $command" < /dev/null > "$log" 2>&1 ||
  fail "'$command' failed"

sed -n '/^== dense, TT/,$p' "$log" | grep -E '^(run |runs/quickstart/)'
if [ -e "$root$home/ccache.log" ]; then
  statistics=$(chroot "$root" env "CCACHE_STATSLOG=$home/ccache.log" ccache --show-log-stats | sed -n 1,2p)
  echo "$statistics"
  # Objects of the committed files are in the cache, unless this build was made without it.
  share=$(sed -nE 's/^ *Hits:.*\( *([0-9]+)\.?[0-9]*%\).*/\1/p' <<< "$statistics")
  if [ -z "${CCACHE_DISABLE:-}" ] && git -c safe.directory='*' diff --quiet HEAD && [ "${share:-0}" -lt 50 ]; then
    fail "the compiler cache of make test is not used: ${share:-0} % of the objects were found in it"
  fi
fi
for run in dense tt tt-half tt-long; do
  [ -s "$root$source/runs/quickstart/$run/report.html" ] || fail "the run $run left no report.html"
done
[ "$(sed -n '/^== dense, TT/,$p' "$log" | grep -cE '^runs/quickstart/(dense|tt|tt-half|tt-long) +[0-9]')" = 4 ] ||
  fail "the table of the four runs is missing"
