#!/usr/bin/env bash
# recipes/code.sh --smoke: every model is trained and measured, the results are tables and JSON, a second call trains
# nothing again; on COMERA_DATA if it is set, else on made functions of the same form.
. "$(dirname "$0")/../cli/expect.sh"
recipe=$tests/../recipes/code.sh

make_data() {
  mkdir -p made/code
  awk 'BEGIN { srand(3); for (i = 0; i < 700; i++) {
    split("add sub mul div mod pow", name, " "); n = name[1 + int(rand() * 6)]; part = i < 500 ? "train" : i < 560 ? "valid" : "test"
    printf "{\"func_name\": \"%s_%d\", \"docstring\": \"Return %s of x and %d.\", \"code\": \"def %s_%d(x):\\n    return %s(x, %d)\", \"split\": \"%s\"}\n", n, i, n, i, n, i, n, i, part } }' |
    zstd -q >made/code/python_functions.jsonl.zst
}

data=${COMERA_DATA:-}
[ -n "$data" ] || { make_data && data=$PWD/made; }
unset COMERA_DATA
run "$recipe" "$PWD/none"
expect_exit 2
expect_err 'COMERA_DATA is not set'
expect_no_file none

# shellcheck source=shared/product.sh
. "$tests/recipes/shared/product.sh"
export COMERA_DATA=$data
check_recipe code '^\| dense-1 \|' '^\| tt-2 \|' '^\| tt-2-smaller \|' '^\| tt-smaller-match \|' '^compression step: '
python3 - folder/results.json <<'CHECK' || fail 'results.json has every run, and the ratios of the models'
import json
import sys

results = json.load(open(sys.argv[1]))
words = {row["run"]: row for row in results["words"]}
assert all(0 < row["loss"] < 10 and row["bytes"] > 0 and row["tokens_per_second"] > 0 for row in words.values())
assert words["tt-2"]["bytes"] < words["dense-2"]["bytes"] and words["tt-2-smaller"]["bytes"] < words["tt-2"]["bytes"]
assert results["compression"]["parameters_at_end"] < results["compression"]["parameters_before"]
assert all(row["pairs"] == 100 and 0 <= row["recall_at_1"] <= 1 for row in results["matches"])
dense, tt = results["large"]
assert tt["parameters"] < dense["parameters"] and tt["planned_peak"] < dense["planned_peak"] and tt["step_ms"] > 0
CHECK
finish
