#!/usr/bin/env bash
# recipes/late_stage.sh --smoke: a row for each way in which ranks fall, all of one size, and their removals.
. "$(dirname "$0")/../cli/expect.sh"
# shellcheck source=shared/product.sh
. "$tests/recipes/shared/product.sh"

made_nouns
check_recipe late_stage '^== accuracy on dev after 8 steps' '^\| scheduled cuts \(default\) \| [0-9.]* % \|$' \
  "^\\| CoMERA's objective \\|" '^\| one cut in the last step \|' '^\| small rank from the start \| [0-9.]* % \|$' \
  '^\| one cut in the last step \| 0, [1-9]'
run env COMERA="$COMERA" WAYS=none "$tests/../recipes/late_stage.sh" --smoke "$work/none"
expect_exit 2
expect_err "no way 'none'"
expect_no_file "$work/none"
finish
