#!/usr/bin/env bash
# A file that a recipe keeps is complete: the output of a command that fails halfway is made anew by the next call.
. "$(dirname "$0")/../cli/expect.sh"

cat > half.sh << 'RECIPE'
set -euo pipefail
cd "$ROOT"
. recipes/shared/recipe.sh
start 1 "$@"
mkdir -p "$folder"
[ -s "$folder/first" ] || echo whole | keep "$folder/first"
[ -s "$folder/second" ] || { echo a line && exit "$CODE"; } | keep "$folder/second"
cat "$folder/second"
RECIPE
export ROOT
ROOT=$(cd "$tests/.." && pwd)
for call in 1 2; do
  run env CODE=1 bash half.sh "$PWD/made"
  expect_exit 1
  expect_equal "$call $(cat .out)" "$call "
  expect_no_file made/second
done
run env CODE=0 bash half.sh "$PWD/made"
expect_exit 0
expect_out 'a line'
expect_file made/first
expect_no_file made/kept-last
run env CODE=1 bash half.sh "$PWD/made" # nothing is left to do
expect_exit 0
finish
