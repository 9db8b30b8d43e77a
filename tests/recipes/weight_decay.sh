#!/usr/bin/env bash
# recipes/weight_decay.sh --smoke: both kinds of decay, two lengths of the glosses and one of the text.
. "$(dirname "$0")/../cli/expect.sh"
# shellcheck source=shared/product.sh
. "$tests/recipes/shared/product.sh"

made_nouns
expect_needs text/gutenberg16.txt.zst weight_decay
made_text gutenberg16
check_recipe weight_decay '^== glosses' '^== text' '^\| cores 0.01 \| [0-9.]*, [0-9.]* %' '^\| norm 1 \| [0-9.]* \|$'
expect_equal "$(grep -c '^| norm 1 ' folder/results.md)" 2
run env COMERA="$COMERA" DECAYS=round "$tests/../recipes/weight_decay.sh" --smoke "$work/none"
expect_exit 2
expect_err "no decay 'round'"
expect_no_file "$work/none"
finish
