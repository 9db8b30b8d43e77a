#!/usr/bin/env bash
# recipes/glue.sh --smoke on made data: a model for each task, from one given encoder; the results are a table and JSON; a
# second call trains nothing again.
. "$(dirname "$0")/../cli/expect.sh"
. "$(dirname "$0")/../cli/tiny_task.sh"
# shellcheck source=shared/product.sh
. "$tests/recipes/shared/product.sh"
recipe=$tests/../recipes/glue.sh

run env -u COMERA_DATA "$recipe" "$PWD/none"
expect_exit 2
expect_err 'COMERA_DATA is not set'

rows() { awk -v head="$1" -v form="$2" 'BEGIN { print head; for (i = 0; i < 30; i++) {
  line = form; gsub(/LABEL/, i % 2, line); gsub(/SCORE/, i % 5 ".0", line)
  gsub(/ONE/, i % 2 ? "round red" : "square blue", line); gsub(/TWO/, i % 3 ? "round" : "green", line); print line } }'; }
for part in train dev; do
  mkdir -p data/glue/{SST-2,MRPC,RTE,CoLA,STS-B}
  rows $'sentence\tlabel' $'ONE\tLABEL' | zstd -q >data/glue/SST-2/$part.tsv.zst
  rows $'Quality\t#1 ID\t#2 ID\t#1 String\t#2 String' $'LABEL\t1\t2\tONE\tTWO' | zstd -q >data/glue/MRPC/$part.tsv.zst
  rows $'index\tsentence1\tsentence2\tlabel' $'1\tONE\tTWO\tLABEL' | zstd -q >data/glue/RTE/$part.tsv.zst
  rows '' $'gj04\tLABEL\t*\tONE' | tail -n +2 | zstd -q >data/glue/CoLA/$part.tsv.zst
  rows $'index\tsentence1\tsentence2\tscore' $'1\tONE\tTWO\tSCORE' | zstd -q >data/glue/STS-B/$part.tsv.zst
done
export COMERA_DATA=$PWD/data
run "$recipe" --smoke "$PWD/none"
expect_exit 2
expect_err 'checkpoints/all-MiniLM-L6-v2 cannot be read; name the folder of an encoder'

run "$COMERA" pretrain "${tiny[@]}" --form dense --positions 128 -o start
expect_exit 0
further=("$PWD/start")
check_recipe glue '^\| model \| bytes \| SST-2 accuracy \| MRPC accuracy \| MRPC f1 \| RTE accuracy \| CoLA matthews \|' \
  '^\| start \| '
python3 - folder/results.json <<'CHECK' || fail 'results.json has every task with its measures'
import json
import sys

results = json.load(open(sys.argv[1]))
rows = {row["task"]: row for row in results["runs"] if row["model"] == "start"}
assert len(results["runs"]) == 15 and {row["model"] for row in results["runs"]} == {"start", "start-8-bits", "start-4-bits"}
assert set(rows) == {"SST-2", "MRPC", "RTE", "CoLA", "STS-B"} and all(row["dev_rows"] == 30 for row in rows.values())
assert "matthews" in rows["CoLA"] and {"pearson", "spearman"} <= set(rows["STS-B"]) and "f1" in rows["MRPC"]
CHECK
finish
