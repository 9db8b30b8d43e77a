#!/usr/bin/env bash
# The main workflow on a toy task: train, inspect, evaluate, predict, resume; refused calls that write no file.
. "$(dirname "$0")/../expect.sh"

printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' red green blue round square and >vocab.txt
python3 - <<'PY'
import random
random.seed(1)
words = ["red", "green", "blue"]
for name, count in (("train.tsv", 240), ("dev.tsv", 60)):
    with open(name, "w") as out:
        out.write("label\ttext\tsecond\n")
        for _ in range(count):
            word = random.choice(words)
            first, last = random.choice(["round", "square"]), random.choice(["round", "square"])
            out.write(f"{word}\t{first} {word} {last}\tand\n")
PY
model=(--model encoder-small --layers 1 --hidden 32 --heads 2 --intermediate 64 --positions 16 --rank 4
  --embedding-rank 4 --dropout 0 --order 2
  --embedding-order 2)
data=(--data train.tsv --dev dev.tsv --text text --label label --tokenizer vocab.txt --seq 8 --batch 16)
rates=(--steps 60 --warmup 5 --lr 1e-2 --lr-cores 3e-3 --schedule constant --seed 7 --eval-every 20 --save-every 20
  --log-every 10 --threads 2)
learn=("${model[@]}" "${data[@]}" "${rates[@]}")

run "$COMERA" pretrain --model mnli-6enc --form tt --rank 30 --batch 32 --seq 128 --dry-run --json
expect_exit 0
expect_no_err
expect_json "d['totals']['parameters'] == 1485795 and d['totals']['parameters_dense'] == 66957315 \
    and d['totals']['rank_entries'] == 4362"
expect_json "set('weights gradients optimizer saved scratch peak'.split()) <= set(d['memory']) \
    and d['memory']['peak'] == sum(v for k, v in d['memory'].items() if k != 'peak')"
expect_json "d['flops_per_step'] > 1e10 and d['tokens_per_step'] == 4096"
run "$COMERA" pretrain --model encoder-small --dry-run
expect_exit 0
expect_out '^peak '

run "$COMERA" pretrain "${learn[@]}" -o run --json
expect_exit 0
expect_err "^step 10/60  loss [0-9.]+  lr [0-9.e-]+  gnorm [0-9.]+  rank [0-9.]+  ratio [0-9.]+x  [0-9.]+ ms  \
[0-9.]+k? tok/s  peak [0-9.]+ [KMG]iB  eta "
expect_err '^step 20  dev loss'
expect_json "d['schema_version'] == 1 and d['accuracy'] > 0.9 and d['end'] == 'steps' and d['step'] == 60"
expect_json "d['memory']['planned_peak'] > 0 and d['memory']['measured_peak'] > 0 and d['step_ms'] > 0"
cp .out last.json
run python3 -c "
import json
a, b = json.load(open('last.json')), json.load(open('run/report.json'))
assert a == b
rows = [json.loads(line) for line in open('run/metrics.jsonl')]
assert [r['step'] for r in rows if 'dev' in r] == [20, 40, 60], rows"
expect_exit 0
for file in config.json model.safetensors recipe.toml metrics.jsonl report.html vocab.txt; do
  expect_file "run/$file"
done
if grep -qE 'https?:|src=|href=|@import|url\(|<script' run/report.html; then
  fail "the page refers to nothing outside"
fi
grep -q 'Ranks per bond' run/report.html || fail "the page draws the ranks"
expect_equal "$(grep -c '<svg' run/report.html | awk '{ print ($1 > 5) }')" 1

run "$COMERA" inspect --runs run run --json
expect_exit 0
expect_json "len(d['runs']) == 2 and d['runs'][0]['accuracy'] > 0.9 and d['runs'][0]['ratio'] > 1 \
    and d['runs'][0]['step_ms'] > 0"
run "$COMERA" inspect --runs run
expect_out '^run +steps +dev accuracy +parameters +bytes +ratio +ms per step .*peak memory'
# A run that has ended does not change.
cp run/report.json before.json
run "$COMERA" pretrain --resume run
expect_exit 0
expect_same_bytes before.json run/report.json

run "$COMERA" inspect run --json
expect_exit 0
expect_json "any(l['form'] == 'tt' and l['modes'] and l['ranks'] for l in d['layers']) \
    and any(l['form'] == 'ttm' for l in d['layers'])"
expect_json "d['history']['loss']['step'][0] == 10 and d['history']['ranks']"
run "$COMERA" inspect run run/checkpoints/step-00000060
expect_exit 0

run "$COMERA" evaluate run --data dev.tsv --predictions pred.tsv --json --require 'accuracy>=0.9'
expect_exit 0
expect_json "d['accuracy'] > 0.9 and d['examples'] == 60 and sum(map(sum, d['confusion'])) == 60"
expect_equal "$(wc -l <pred.tsv)" 61
run "$COMERA" evaluate run --data dev.tsv --require 'loss<0'
expect_exit 1
expect_err 'loss<0 is not met: loss is'
run_with $'round red square\nround blue round\n' "$COMERA" predict run
expect_exit 0
expect_equal "$(cut -f1 .out | tr '\n' ' ')" 'red blue '
run_with $'round red square\n' "$COMERA" predict run --json
expect_json "d['predictions'][0]['label'] == 'red' and 0.3 < d['predictions'][0]['probability'] <= 1"
run_with $'round \xff\n' "$COMERA" predict run
expect_refused 'stdin: line 1: .*UTF-8'
run_with $'a\tb\tc\n' "$COMERA" predict run
expect_refused 'stdin:1: has more than two columns'

# The same run in two parts: stopped by a signal after a checkpoint, resumed from the recipe alone.
"$COMERA" pretrain "${learn[@]}" --steps 100000 -o long --save-every 10 -q 2>.err &
pid=$!
for _ in $(seq 600); do
  # any checkpoint: later ones soon replace the first
  compgen -G 'long/checkpoints/step-*/state.json' >/dev/null && break
  sleep 0.05
done
kill -TERM "$pid"
wait "$pid"
code=$?
last="pretrain, stopped by SIGTERM"
: >.out
expect_exit 143
saved=(long/checkpoints/step-*)
run "$COMERA" inspect "${saved[-1]}"
expect_exit 0

run "$COMERA" pretrain "${learn[@]}" -o run
expect_refused 'run is not empty; --resume .* --force'
run "$COMERA" pretrain "${learn[@]}" --rank 3 -o run --resume
expect_refused 'rank was 4 and is 3'
run "$COMERA" pretrain --resume nowhere
expect_refused 'nowhere: no such folder; name the folder of a run'
run "$COMERA" pretrain "${learn[@]}"
expect_refused 'output is missing'
run "$COMERA" pretrain "${model[@]}" -o new --steps 5
expect_refused 'data is missing'
run "$COMERA" pretrain "${learn[@]}" -o new --text nothing
expect_exit 2
expect_err 'nothing'
expect_no_file new
run "$COMERA" pretrain "${learn[@]}" -o new --device cuda
expect_refused 'built without CUDA'
expect_no_file new
run "$COMERA" pretrain "${learn[@]}" -o new --rank 4000
expect_refused 'rank'
expect_no_file new
finish
