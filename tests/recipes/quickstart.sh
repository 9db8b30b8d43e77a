#!/usr/bin/env bash
# recipes/quickstart.sh --smoke on a few nouns.
. "$(dirname "$0")/../cli/expect.sh"
# shellcheck source=shared/product.sh
. "$tests/recipes/shared/product.sh"

made_nouns
run env NOUNS=missing "$tests/../recipes/quickstart.sh" --smoke "$PWD/none"
expect_exit 2
expect_err '^quickstart.sh: missing cannot be read; install it with: apt-get install wordnet-base'
expect_no_file none
check_recipe quickstart '^run +steps' 'folder/dense +6 ' 'folder/tt +6 ' 'folder/tt-half +8 ' 'folder/tt-long +18 ' 'results.md and .*results.json'
expect_equal "$(grep -c '^| .*/folder/' folder/results.md)" 4
bytes() { sed -n 's/^ *"file_bytes": \([0-9]*\).*/\1/p' "folder/$1/report.json"; }
[ "$(bytes tt-half)" -lt "$(bytes tt)" ] || fail "the late stage makes the model smaller"
finish
