#!/usr/bin/env bash
# recipes/memory_shootout.sh --smoke: a row for each method in the table of short and in that of long runs, one more seed
# for the best method, and the choice of the next rate where the best one is at the border.
. "$(dirname "$0")/../cli/expect.sh"
# shellcheck source=shared/product.sh
. "$tests/recipes/shared/product.sh"

expect_needs text/gutenberg16.txt.zst memory_shootout
made_text gutenberg16
check_recipe memory_shootout '^2 steps, the best rate' '^3 steps, long runs' '^\| adamw: \*\*1e-3\*\* \|' '^\| galore \|' \
  '^\| int8 \|' '^\| lowrank \|' '^\| tt-int8 \|'
grep -q 'dev loss against peak memory' folder/compared.html || fail 'the page of runs has a chart of loss against memory'
[ "$(find folder/long -name 8 | wc -l)" = 1 ] || fail 'one method has a long run with one more seed'
grep -qE '^\| [a-z0-9-]+ \| [0-9.]+ \([0-9.]+-[0-9.]+\)' folder/results.md || fail 'its row has a range of losses'

next_rate() { # WANTED RATE:LOSS...: what --next prints after these runs
  local wanted=$1 entry
  shift
  rm -rf rates
  for entry in "$@"; do
    mkdir -p "rates/${entry%:*}"
    echo "{\"dev\": {\"last\": {\"loss\": ${entry#*:}}}}" > "rates/${entry%:*}/report.json"
  done
  [ "$(python3 "$tests/../recipes/memory_shootout_table.py" --next rates)" = "$wanted" ] || fail "the rate after $*"
}
next_rate '' 1e-3:5 3e-3:4 1e-2:5
next_rate 3e-4 1e-3:4 3e-3:5 1e-2:6
next_rate 3e-2 1e-3:6 3e-3:5 1e-2:4
next_rate 1e0 1e-1:6 3e-1:5
METHODS='tt-int4 adamw' MORE_SEEDS='' run "$tests/../recipes/memory_shootout.sh" --smoke --steps 4 --seeds 7,9 "$PWD/longer"
expect_exit 0
expect_out '^4 steps, long runs'
expect_equal "$(ls longer/long/tt-int4)" $'7\n9'
for words in '--steps many' '--seeds 7,x' --steps; do
  # shellcheck disable=SC2086
  run "$tests/../recipes/memory_shootout.sh" $words
  expect_exit 2
  expect_err "${words%% *} needs"
done
"$tests/../recipes/memory_shootout.sh" --help | grep -q -e '--steps N' || fail 'the help names --steps'
METHODS=other run "$tests/../recipes/memory_shootout.sh" --smoke "$PWD/other"
expect_exit 2
expect_err "no method 'other'"
finish
