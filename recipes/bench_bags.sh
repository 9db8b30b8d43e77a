#!/usr/bin/env bash
# Times one training step of a table of embeddings alone: a TTM table here, the same without its optimisations in
# PyTorch, and dense tables in PyTorch with AdamW on the whole table and with sparse gradients and Adagrad. Ids have
# uniform logarithms, as clicks on tables that are sorted by frequency. Ends with a table of times and peak memory.
#
#   recipes/bench_bags.sh [--smoke] [FOLDER]      default: runs/bench_bags, or runs/bench_bags-smoke
#   ROWS='1000000' IDS=4096 RANK=16 recipes/bench_bags.sh
#
# ROWS (1000000 10000000 33000000) are the sizes of the tables, 32 wide, IDS (10000) the ids of a step, RANK (32) that
# of the TTM table, THREADS (all cores) is for both. PYTHON names a python with torch and numpy
# (build/venv-torch/bin/python). Dense tables with AdamW need 24 bytes x 32 x rows: 25 GB at 33 million rows; sizes that
# do not fit are left out. It takes minutes; --smoke takes seconds, on 2,000 rows. FOLDER receives a file for each row,
# and results.md and results.json. A second call keeps measured rows.
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck source=shared/recipe.sh
. recipes/shared/recipe.sh
start 1 "$@"
need_torch
require_program
sizes=${ROWS:-1000000 10000000 33000000}
ids=${IDS:-10000}
rank=${RANK:-32}
! "$smoke" || { sizes=${ROWS:-2000} ids=${IDS:-64} rank=${RANK:-8}; }
free=$(awk '/^MemAvailable/ { printf "%.0f", $2 * 1024 }' /proc/meminfo)
settings=(ids="$ids" rank="$rank" threads="$threads")
mkdir -p "$folder"

ours() { # ROWS
  "$comera" bench --table "$1x32" --form tt --embedding-rank "$rank" --batch "$ids" --seq 1 --zipf \
    --threads "$threads" --isa auto --json 2> /dev/null |
    python3 -c 'import json, sys
step = next(row for row in json.load(sys.stdin)["rows"] if row["work"] == "step")
print(json.dumps({"median_ms": step["median_ms"], "peak_bytes": step["peak_bytes"]}))'
}

# measure ROWS KIND: a file with the time and the memory; none if the table does not fit.
measure() {
  local file=$folder/$1-$2.json
  [ ! -e "$file" ] || return 0
  echo "== $1 rows, $2"
  if [ "$2" = dense ] && [ $(($1 * 32 * 24 + 1000000000)) -ge "$free" ]; then
    echo "dense: not enough memory"
  elif [ "$2" = comera ]; then
    ours "$1" | keep "$file"
  else
    "$python" recipes/bench_bags.py "$2" "$1" 32 "$ids" --rank "$rank" --threads "$threads" | keep "$file"
  fi
}

number() { sed -n "s/.*\"$2\": \([0-9.]*\).*/\1/p" "$1" | head -n 1; }

table() {
  local rows kind file name
  echo '| rows | table | ms per step | peak MiB |'
  echo '|---:|---|---:|---:|'
  for rows in $sizes; do
    for kind in comera ttm dense sparse; do
      file=$folder/$rows-$kind.json
      case $kind in
        comera) name='TTM, comera' ;;
        ttm) name='TTM, PyTorch, unoptimised' ;;
        dense) name='dense, PyTorch, AdamW' ;;
        sparse) name='dense, PyTorch, sparse, Adagrad' ;;
      esac
      if [ -s "$file" ]; then
        awk -v head="| $rows | $name" -v ms="$(number "$file" median_ms)" -v bytes="$(number "$file" peak_bytes)" \
          'BEGIN { printf "%s | %.2f | %.2f |\n", head, ms, bytes / 1048576 }'
      else
        echo "| $rows | $name | not enough memory | |"
      fi
    done
  done
}

for rows in $sizes; do
  for kind in comera ttm dense sparse; do measure "$rows" "$kind"; done
done
publish "$seed" table
