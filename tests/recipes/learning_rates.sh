#!/usr/bin/env bash
# recipes/learning_rates.sh --smoke: a run with the defaults and one with a rate for each group.
. "$(dirname "$0")/../cli/expect.sh"
# shellcheck source=shared/product.sh
. "$tests/recipes/shared/product.sh"

made_nouns
expect_needs text/gutenberg16.txt.zst learning_rates
made_text gutenberg16
check_recipe learning_rates '^== glosses-dense' '^== text-tt' '^\| .*/glosses-tt/default/? ' '^\| .*/text-dense/5e-4/? '
expect_equal "$(grep -c '^| .*/folder/' folder/results.md)" 8
finish
