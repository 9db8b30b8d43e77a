#!/usr/bin/env bash
# Times one training step of a table of embeddings alone: a TTM table here, the same without its optimisations in
# PyTorch, and dense tables in PyTorch with AdamW on the whole table and with sparse gradients and Adagrad. Ids have
# uniform logarithms, as clicks on tables that are sorted by frequency. Prints a row of times and peak memory for each.
#
#   recipes/bench_bags.sh                         10,000 ids, tables of 1, 10 and 33 million rows, 32 wide, rank 32
#   ROWS='1000000' IDS=4096 RANK=16 recipes/bench_bags.sh
#
# Dense tables with AdamW need 16 bytes x 32 x rows: 17 GB at 33 million rows; sizes that do not fit are left out.
# PYTHON names a python with torch and numpy; THREADS (all cores) is for both.
[ $# -eq 0 ] || { sed -n '2,11s/^# \{0,1\}//p' "$0" >&2 && exit 2; }
set -euo pipefail
cd "$(dirname "$0")/.."
comera=${COMERA:-build/comera}
python=${PYTHON:-build/venv-torch/bin/python}
threads=${THREADS:-$(nproc)}
ids=${IDS:-10000}
rank=${RANK:-32}
"$python" -c 'import torch, numpy' 2> /dev/null || {
  echo "bench_bags.sh: PYTHON names no python with torch; python3 -m venv build/venv-torch and pip install torch numpy" >&2
  exit 2
}
free=$(awk '/^MemAvailable/ { printf "%.0f", $2 * 1024 }' /proc/meminfo)

row() { # ROWS NAME MS BYTES
  printf '%12s  %-34s %10.1f ms %10.1f MiB\n' "$1" "$2" "$3" "$(awk -v b="$4" 'BEGIN { print b / 1048576 }')"
}
number() { sed -n "s/.*\"$1\": \([0-9.]*\).*/\1/p" | head -n 1; }

for rows in ${ROWS:-1000000 10000000 33000000}; do
  ours=$("$comera" bench --table "${rows}x32" --form tt --embedding-rank "$rank" --batch "$ids" --seq 1 --zipf \
    --threads "$threads" --isa auto --json 2> /dev/null |
    python3 -c 'import json, sys
step = next(row for row in json.load(sys.stdin)["rows"] if row["work"] == "step")
print(step["median_ms"], step["peak_bytes"])')
  row "$rows" "TTM, comera" "${ours% *}" "${ours#* }"
  for kind in ttm dense sparse; do
    [ "$kind" != dense ] || [ $((rows * 32 * 16 + 1000000000)) -lt "$free" ] || { echo "$rows dense: not enough memory" && continue; }
    peer=$("$python" recipes/bench_bags.py $kind "$rows" 32 "$ids" --rank "$rank" --threads "$threads")
    row "$rows" "$(case $kind in ttm) echo 'TTM, PyTorch, unoptimised' ;; dense) echo 'dense, PyTorch, AdamW' ;; *) echo 'dense, PyTorch, sparse, Adagrad' ;; esac)" \
      "$(number median_ms <<< "$peer")" "$(number peak_bytes <<< "$peer")"
  done
done
