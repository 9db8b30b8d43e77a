#!/bin/sh
# Builds a static SentencePiece against the system's protobuf from Debian's source package.
# usage: third_party/sentencepiece.sh PREFIX      writes PREFIX/lib/*.a and PREFIX/include, unless they are complete
#        third_party/sentencepiece.sh --mirror    prints the Debian mirror that the source comes from
#
# Debian's own library contains a second protobuf, which collides with the system's in one process, and a patch of the
# source package disables the static library; this script reverts that patch. The source comes through a separate apt
# source list under PREFIX, so the system's lists stay unchanged. No root needed.
set -eu
release=bookworm
version=0.1.97-3
recipe=4  # increase it when the result of the build changes
prefix=${1:?usage: third_party/sentencepiece.sh PREFIX}
# The mirror that the system uses, so that a machine with only a local one works too.
mirror=$(sed -n 's/^URIs: *\([^ ]*\).*/\1/p; s/^deb *\(\[[^]]*\]\)\{0,1\} *\([^ ]*\) '"$release"' .*/\2/p' \
  /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | grep -m1 '/debian/*$' ||
  echo http://deb.debian.org/debian)
[ "$prefix" != --mirror ] || { echo "${mirror%/}" && exit 0; }

mkdir -p "$prefix"
prefix=$(cd "$prefix" && pwd)
[ "$(cat "$prefix/complete" 2>/dev/null)" = "$version recipe $recipe" ] && exit 0

fail() { echo "third_party/sentencepiece.sh: $1" >&2; exit 1; }

work=$prefix/work
rm -rf "$work"
mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
echo "deb-src $mirror $release main" > "$work/sources.list"
private_apt() {
  apt-get -qq -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=- \
    -o Dir::State::lists="$work/lists" -o Dir::Cache="$work/cache" -o APT::Sandbox::User="$(id -un)" "$@"
}
cd "$work"
private_apt update || fail "cannot read the source list of $mirror $release; is there a network?"
private_apt source --download-only "sentencepiece=$version" || fail "cannot fetch sentencepiece $version from $mirror"
dpkg-source --no-check -x "sentencepiece_$version.dsc" source > /dev/null || fail "cannot unpack sentencepiece $version"
cd source
patch -s -R -p1 < debian/patches/disable-static-library.patch ||
  fail "Debian's patch cannot be reverted; is this version $version?"
bundled=third_party/protobuf-lite/google/protobuf/message_lite.h
sed -i 's|#include "'"$bundled"'"|#include <google/protobuf/message_lite.h>|' src/init.h
grep -q '<google/protobuf/message_lite.h>' src/init.h || fail "src/init.h does not look like that of $version"
# Makes the unigram model compute and compare scores as release 0.2.3 does, so that both break ties alike. A
# user-defined piece scores .1 * (bytes - 1), in float; in this version it is max_score_, 1e-38, per byte, less .1.
# Scores beyond 1e5 restart from 0 at the current position, before floats of that size lose the digits that
# distinguish paths.
sed -i \
  -e 's|? (length \* max_score_ - 0.1)$|? static_cast<float>(0.1 * (static_cast<int>(length) - 1))|' \
  -e 's|^  int starts_at = 0;$|&\n  int reached = 0;|' \
  -e 's|^    const auto best_path_score_till_here =$|    const float base =\
        best_path_ends_at[starts_at].best_path_score;\
    for (int i = starts_at; std::abs(base) > 1e5f \&\& i <= reached; ++i)\
      if (best_path_ends_at[i].starts_at != -1) best_path_ends_at[i].best_path_score -= base;\
&|' \
  -e 's|^ *auto &target_node = best_path_ends_at\[\(.*\)\];$|reached = std::max<int>(reached, \1);\n&|' \
  src/unigram_model.cc
for change in '3 0.1 \* (static_cast<int>(length) - 1)' '1 int reached = 0' '1 best_path_score -= base' \
  '2 reached = std::max'; do
  [ "$(grep -c "${change#* }" src/unigram_model.cc)" = "${change%% *}" ] ||
    fail "src/unigram_model.cc does not look like that of $version"
done

launcher=
if command -v ccache > /dev/null; then
  launcher=ccache
  export CMAKE_CXX_COMPILER_LAUNCHER=ccache CMAKE_C_COMPILER_LAUNCHER=ccache
fi
# Headers that most of its files include, precompiled: a third of the compile time.
for header in algorithm fstream functional iostream map memory set sstream string thread unordered_map vector \
  google/protobuf/extension_set.h google/protobuf/message_lite.h google/protobuf/repeated_field.h; do
  echo "#include <$header>"
done > ../common.h
flags="-w -std=gnu++17 -O1 -DNDEBUG -fPIC -fvisibility=hidden -fvisibility-inlines-hidden -pthread"
{
  # shellcheck disable=SC2086  # several flags
  $launcher ${CXX:-c++} $flags -x c++-header ../common.h -o ../common.h.gch &&
    cmake -S . -B ../build -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_FLAGS="$flags -include $work/common.h" \
      -DSPM_USE_BUILTIN_PROTOBUF=OFF -DSPM_ENABLE_SHARED=OFF -DSPM_ENABLE_TCMALLOC=OFF
} > ../configure.log 2>&1 || fail "configuring failed: $work/configure.log"
cmake --build ../build -j"$(nproc)" --target sentencepiece-static sentencepiece_train-static > ../build.log 2>&1 ||
  fail "compiling failed: $work/build.log"
mkdir -p "$prefix/lib" "$prefix/include"
cp ../build/src/libsentencepiece.a ../build/src/libsentencepiece_train.a "$prefix/lib/"
cp src/sentencepiece_processor.h src/sentencepiece_trainer.h "$prefix/include/"
cd "$prefix"
rm -rf "$work"
echo "$version recipe $recipe" > complete
