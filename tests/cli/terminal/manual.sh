#!/usr/bin/env bash
# The program generates the pages about options: docs/options is up to date, and the man pages are well formed.
. "$(dirname "$0")/../expect.sh"

run "$COMERA" manual markdown -o pages
expect_exit 0
expect_no_out
for page in pages/*.md "$tests/../docs/options"/*.md; do
  last="cmp docs/options/${page##*/}"
  cmp -s "pages/${page##*/}" "$tests/../docs/options/${page##*/}" ||
    fail "docs/options/${page##*/} is up to date: run make docs"
done

run "$COMERA" manual man -o man1
expect_exit 0
expect_file man1/comera.1
expect_file man1/comera-tokenizer-train.1
if command -v groff >/dev/null; then
  for page in man1/*.1; do
    run groff -man -Tascii -rLL=100n -ww -z "$page"
    expect_exit 0
    expect_no_err
  done
fi
run "$COMERA" manual html -o pages
expect_refused "'html' is none of man, markdown"
run "$COMERA" manual man
expect_refused '--output is missing'

# Checks the files that `make install` installs. `make package` builds in the same folder.
if [ -f "${COMERA%/*}/cmake_install.cmake" ]; then
  run cmake --install "${COMERA%/*}" --prefix "$work/root"
  expect_exit 0
  for file in bin/comera share/man/man1/comera.1 share/man/man1/comera-tensorize.1 \
    share/bash-completion/completions/comera \
    share/zsh/site-functions/_comera share/fish/vendor_completions.d/comera.fish; do
    expect_file "root/$file"
  done
fi
finish
