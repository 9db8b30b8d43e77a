#!/usr/bin/env bash
# recipes/minilm.sh checks the program before it downloads anything: a named program must exist, and without a name it
# is built.
. "$(dirname "$0")/../cli/expect.sh"
mkdir -p tree/recipes tree/third_party bin
cp "$tests/../recipes/minilm.sh" tree/recipes/
# Stubs for the scripts that build or download: they print their name and stop.
printf '#!/bin/sh\necho "install.sh $*"\n' >tree/third_party/install.sh
printf '#!/bin/sh\necho "make $*"\n' >bin/make
printf '#!/bin/sh\necho "python3 $*"\nexit 3\n' >bin/python3
chmod +x tree/third_party/install.sh bin/make bin/python3

run env PATH="$work/bin:$PATH" COMERA=/nowhere/comera tree/recipes/minilm.sh out
expect_refused 'COMERA=/nowhere/comera is no program; build it with make'
expect_no_file tree/out
run env PATH="$work/bin:$PATH" COMERA= tree/recipes/minilm.sh out
expect_exit 3
expect_equal "$(head -n 2 .out | paste -sd ' ')" 'install.sh build recipes make comera'
expect_out '^python3 -m venv'
mkdir tree/build
printf '#!/bin/sh\n' >tree/build/comera
chmod +x tree/build/comera
run env PATH="$work/bin:$PATH" COMERA= tree/recipes/minilm.sh out
expect_exit 3
expect_equal "$(head -n 1 .out)" 'python3 -m venv build/venv-minilm'
finish
