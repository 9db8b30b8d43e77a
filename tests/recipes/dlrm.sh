#!/usr/bin/env bash
# recipes/dlrm.sh --smoke: every model is trained and evaluated, the results are a table and JSON, a second call trains
# nothing again; on COMERA_DATA if it is set, else on made rows of the same form.
. "$(dirname "$0")/../cli/expect.sh"

make_data() {
  mkdir -p made/ctr
  awk 'BEGIN { srand(4); print "userID\tmovieID"
    for (u = 1; u <= 150; u++) for (i = 0; i < 20; i++) print u "\t" (u % 3) * 100 + 1 + int(rand() * 100) }' |
    zstd -q >made/ctr/ml1m_pairs.tsv.zst
  awk 'BEGIN { for (u = 1; u <= 150; u++) print u "::" (u % 2 ? "M" : "F") "::25::" u % 9 "::48067" }' |
    zstd -q >made/ctr/ml1m_users.dat.zst
  awk 'BEGIN { for (m = 1; m <= 300; m++) print m "::Film " m " (19" 50 + m % 50 ")::Drama|Comedy" }' |
    zstd -q >made/ctr/ml1m_movies.dat.zst
  awk 'BEGIN { srand(5); for (i = 0; i < 2000; i++)
    print (rand() < .3 ? 1 : -1), int(rand() * 600) ":1", 600 + int(rand() * 40) ":1", 700 + int(rand() * 9) ":1" }' |
    zstd -q >made/ctr/frappe_valid.libfm.zst
  for part in train:600 dev:100; do
    awk -v rows="${part#*:}" 'BEGIN { srand(6); for (i = 0; i < rows; i++) {
      line = (rand() < .2); for (k = 0; k < 13; k++) line = line "\t" (k % 4 ? int(rand() * 90) : "")
      for (k = 0; k < 26; k++) line = line "\t" sprintf("%08x", int(rand() * (k % 2 ? 400 : 5))); print line } }' |
      zstd -q >"made/ctr/criteo8k_${part%:*}.tsv.zst"
  done
}

data=${COMERA_DATA:-}
[ -n "$data" ] || { make_data && data=$PWD/made; }
unset COMERA_DATA
run "$tests/../recipes/dlrm.sh" "$PWD/none"
expect_refused_lines() {
  expect_exit 2
  expect_err 'COMERA_DATA is not set'
  expect_no_file none
}
expect_refused_lines

# shellcheck source=shared/product.sh
. "$tests/recipes/shared/product.sh"
export COMERA_DATA=$data
check_recipe dlrm '^\| movielens-dense \|' '^\| movielens-ttm-8 \|' '^\| movielens-hash-16 \|' '^\| frappe-ttm-16 \|' \
  '^\| dense / ttm \|'
python3 - folder/results.json <<'CHECK' || fail 'results.json has every model and the ratios'
import json
import sys

results = json.load(open(sys.argv[1]))
assert all(0 < run["auc"] < 1 and run["bytes"] > 0 and run["step_ms"] > 0 for run in results["runs"])
dense, ttm = results["kaggle"]
assert dense["bytes"] >= 99 * ttm["bytes"] and ttm["measured_peak"] > 0
by_name = {run["run"]: run for run in results["runs"]}
assert by_name["movielens-hash-8"]["bytes"] <= 1.05 * by_name["movielens-ttm-8"]["bytes"]
CHECK
finish
