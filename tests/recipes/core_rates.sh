#!/usr/bin/env bash
# recipes/core_rates.sh --smoke: two layouts with one rate, of both kinds, for each job.
. "$(dirname "$0")/../cli/expect.sh"
# shellcheck source=shared/product.sh
. "$tests/recipes/shared/product.sh"

made_nouns
expect_needs text/gutenberg16.txt.zst core_rates
made_text gutenberg16
check_recipe core_rates '^== glosses, uniform' '^== text, structured' '^\| base \| [0-9.]* % \|' '^\| order-2 \| [0-9.]* \|'
expect_equal "$(grep -c '^| order-2 ' folder/results.md)" 4
run env COMERA="$COMERA" LAYOUTS=round "$tests/../recipes/core_rates.sh" --smoke "$work/none"
expect_exit 2
expect_err "no layout 'round'"
expect_no_file "$work/none"
finish
