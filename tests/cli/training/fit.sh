#!/usr/bin/env bash
# --dry-run --explain plans without data and device; --fit chooses settings below a figure, keeps the measured memory
# near the plan, and writes ordinary options into the recipe, so that a resume chooses nothing.
. "$(dirname "$0")/../expect.sh"
# shellcheck source=../tiny_task.sh
. "$tests/cli/tiny_task.sh" || exit 1

run "$COMERA" pretrain --model llama-6m --dry-run --explain --batch 8 --json
expect_exit 0
expect_no_err
expect_json "d['assumed'] == {'task': 'clm', 'vocabulary': '4096', 'seq': '128'}"
expect_json "abs(sum(d['flops'].values()) - d['flops_per_step']) < 1 and d['flops']['backward'] > d['flops']['forward'] \
    > d['flops']['update'] > 0"
expect_json "d['largest_tensors'][0] == {'name': 'head.logits', 'shape': [1024, 2048], 'dtype': 'f32', \
    'kind': 'scratch', 'bytes': 8 << 20}"
expect_json "[p['activations'] for p in d['policies'] if p['verdict'] == 'this plan'] == ['keep'] \
    and d['policies'][0]['bytes'] > d['policies'][1]['bytes'] > d['policies'][2]['bytes'] \
    and max(p.get('work') or 0 for p in d['policies']) > 1.05"
expect_json "all(p['ms'] > 0 for p in d['policies'] if p['verdict'] != 'not possible')"
float=$(python3 -c "import json; print(json.load(open('.out'))['memory']['saved'])")
# One sequence takes too long to be measured as a whole, so its beginning is.
run "$COMERA" pretrain --model llama-60m --form dense --dry-run --fit 2GiB --batch 1 --seq 512 --json
expect_exit 0
expect_json "all(p['ms'] > 100 for p in d['fit']['choices'] if p['verdict'] != 'not possible')"
run "$COMERA" pretrain --model llama-6m --dry-run --explain --batch 8
expect_exit 0
expect_out '^assumed without data: task clm, vocabulary 4096, seq 128$'
expect_out '^this plan +keep +muon '
expect_out '^not possible: .*no dense linear weight'

run "$COMERA" pretrain "${tiny[@]}" --explain -o new
expect_refused '--explain is for plans; add --dry-run'

# A plan needs no machine that can run it.
for device in cpu cuda; do
  run "$COMERA" pretrain --model llama-6m --dry-run --batch 8 --dtype bf16 --isa v3 --device $device --json
  expect_exit 0
  expect_json "$float * .49 < d['memory']['saved'] < $float * .51"
  run "$COMERA" pretrain --model llama-6m --dry-run --explain --batch 8 --dtype bf16 --isa v3 --device $device --json
  expect_json "not any(p.get('ms') for p in d['policies'])"
done
run "$COMERA" pretrain "${tiny[@]}" --dtype bf16 --isa v3 -o new
expect_refused '--dtype bf16 needs a GPU'
run "$COMERA" pretrain --model llama-6m --dry-run --device cuda:x
expect_refused 'want cuda or cuda:N'

# Muon, which no word of the call names, may have no cores: a plan and a choice stay possible.
for model in '--model dlrm-small --batch 2' '--model dlrm-small --batch 2 --optimizer adamw' \
  '--model dlrm-small --batch 2 --optimizer *=adamw8bit' '--model encoder-small --batch 2 --layer *=form:dense' \
  '--model encoder-small --batch 2 --tt-entries 100000000'; do
  read -ra words <<<"$model"
  run "$COMERA" pretrain "${words[@]}" --dry-run --explain --json
  expect_exit 0
  expect_json "d['policies'][0]['verdict'] != 'not possible'"
  run "$COMERA" pretrain "${words[@]}" --dry-run --fit 1TiB
  expect_exit 0
done
run "$COMERA" pretrain --model dlrm-small --batch 2 --optimizer muon --dry-run --fit 1TiB
expect_refused 'no linear weight in TT or low-rank form'

small=(--model llama-6m --layers 2 --hidden 64 --intermediate 176 --heads 4)
# As the figure falls, the choice moves down the documented order. Figures lie just above the least plan of each row.
run "$COMERA" pretrain "${small[@]}" --form dense --batch 8 --dry-run --fit 1TiB --json
expect_exit 0
cp .out all.json
python3 - >figures <<'PY'
import json
least, seen = 1 << 60, set()
for row in json.load(open("all.json"))["fit"]["choices"]:
    key = (row["activations"], row["optimizer"])
    if row.get("bytes") and row["bytes"] < least:
        least = row["bytes"]
        print(least + 1, *key, row["batch"], row["accumulate"])
        seen.add(key)
assert len(seen) >= 6, seen
PY
# Each figure costs a measurement of all policies, so only some lines are tried: the first, the last and one between.
thinned() { awk '{ line[NR] = $0 } END { for (i = 1; i < NR; i += NR / 2) print line[int(i)]; print line[NR] }' figures; }
while read -r figure activations optimizer batch accumulate; do
  run "$COMERA" pretrain "${small[@]}" --form dense --batch 8 --dry-run --fit "$figure" --json
  expect_exit 0
  expect_json "d['fit']['choices'][d['fit']['chosen']]['activations'] == '$activations' \
      and d['fit']['choices'][d['fit']['chosen']]['optimizer'] == '$optimizer' \
      and d['fit']['choices'][d['fit']['chosen']]['batch'] == $batch and $batch * $accumulate == 8 \
      and d['memory']['peak'] < $figure"
done < <(thinned)
read -r least _ < <(tail -n 1 figures)
run "$COMERA" pretrain "${small[@]}" --form dense --batch 8 --dry-run --fit $((least - 1))
expect_refused "\[pretrain\] --fit .* at least .* are needed, by --activations block,compact,int4-stochastic --optimizer adamw8bit --batch \
1 --accumulate 8 \(weights .*the largest part is"
run "$COMERA" pretrain "${small[@]}" --form auto --batch 8 --dry-run --fit $((least / 2)) --json
expect_exit 0
expect_json "d['fit']['choices'][d['fit']['chosen']]['form'] == 'tt' and d['memory']['peak'] < $least / 2"
# A form that the options refuse is not possible.
for option in '--optimizer muon' '--target-fraction .5' '--rank-floor 2' '--weight-norm-decay 1' '--refactor-every 2 --no-adapt-ranks'; do
  # shellcheck disable=SC2086
  run "$COMERA" pretrain "${small[@]}" --form auto --batch 1 --dry-run --fit 1TiB $option --json
  expect_exit 0
  expect_json "d['fit']['choices'][d['fit']['chosen']]['form'] == 'tt'"
done
run "$COMERA" pretrain "${small[@]}" --form auto --dry-run --fit 1TiB --hidden 63
expect_refused 'hidden_size 63 is not a multiple'
# A pair's negatives are the other pairs of its micro-batch.
pairs=(--model encoder-small --task pairs --rank 8 --layers 2 --hidden 64 --heads 4 --intermediate 128 --positions 64 --seq 64 --batch 8)
run "$COMERA" pretrain "${pairs[@]}" --dry-run --fit 1TiB --json
expect_exit 0
expect_json "all(row['batch'] == 8 and row['accumulate'] == 1 for row in d['fit']['choices'])"
run "$COMERA" pretrain "${pairs[@]}" --dry-run --fit 1MiB
expect_refused '--batch stays as it is, because the other pairs of a micro-batch'
run "$COMERA" pretrain "${pairs[@]}" --dry-run --batch 1
expect_refused '--task pairs --batch 1: a text learns from the other pairs'
run "$COMERA" pretrain --model llama-6m --form auto --dry-run
expect_refused '--form auto is chosen by --fit SIZE'
run "$COMERA" pretrain "${small[@]}" --form dense --batch 8 --activations int8 --dry-run --fit 1TiB --json
expect_json "all(row['activations'] == 'int8' for row in d['fit']['choices'])"

# Runs: the measured peak stays near the plan, the recipe has ordinary options, a resume chooses nothing.
python3 - <<'PY'
import random
random.seed(3)
words = "red green blue round square and".split()
open("long.txt", "w").write("\n".join(" ".join(random.choice(words) for _ in range(60)) for _ in range(400)))
PY
llama=(--model llama-6m --task clm --form dense --layers 3 --data long.txt --tokenizer vocab.txt --seq 128 --batch 8
  --steps 4 --save-every 2 --quiet)
run "$COMERA" pretrain "${llama[@]}" --dry-run --fit 1TiB --json
cp .out all.json
python3 - >figures <<'PY'
import json
last = {}
for row in json.load(open("all.json"))["fit"]["choices"]:
    last.setdefault((row["activations"], row["optimizer"]), row["bytes"])
print(*sorted(set(last.values()), reverse=True), sep="\n")
PY
while read -r bytes; do
  figure=$((bytes + (2 << 20))) # documents in the readers are planned with data alone
  rm -rf run
  run "$COMERA" pretrain "${llama[@]}" --fit $figure -o run --json
  expect_exit 0
  expect_json "d['memory']['planned_peak'] < $figure \
      and d['memory']['measured_peak'] <= 1.03 * d['memory']['planned_peak'] + (8 << 20)"
done < <(thinned)
grep -q '^activations = ' run/recipe.toml || fail "the recipe names the policy"
grep -q '^accumulate = ' run/recipe.toml || fail "the recipe names the micro-batches"
grep -qE '^(# )?fit ' run/recipe.toml && fail "the recipe has no second choice"
expect_resumes run
rm -r again/checkpoints/step-00000004 again/model.safetensors
run "$COMERA" pretrain "${llama[@]}" --fit "$figure" -o again --resume
expect_exit 0
expect_same_bytes run/model.safetensors again/model.safetensors

# finetune chooses too.
run "$COMERA" finetune run --data long.txt --seq 128 --batch 8 --dry-run --explain --fit 1TiB --json
expect_exit 0
expect_json "d['fit']['chosen'] == 0 and d['policies'] and d['assumed'] == {}"
run "$COMERA" finetune run --data long.txt --seq 128 --batch 8 --steps 2 --fit 1MiB -o tuned
expect_refused '\[finetune\] --fit 1.00 MiB: at least'
expect_no_file tuned

run "$COMERA" finetune run --teacher run --data long.txt --seq 128 --batch 8 --dry-run --fit 1TiB --json
expect_exit 0
expect_json "all(b['bytes'] < a['bytes'] for a, b in zip(d['fit']['choices'][1:], d['fit']['choices'][2:5]))"
run "$COMERA" finetune run --teacher run --data long.txt --seq 128 --batch 8 --steps 2 --fit 1TiB --quiet -o taught --json
expect_exit 0
expect_json "d['memory']['measured_peak'] <= 1.03 * d['memory']['planned_peak'] + (8 << 20)"

# More than the machine has is refused before any work. A system may promise memory that it lacks and kill the run.
run "$COMERA" pretrain "${llama[@]}" --batch 65536 --seq 512 -o huge
expect_refused '\[memory\] the run needs [0-9.]+ [GT]iB on cpu .*, where [0-9.]+ GiB of [0-9.]+ GiB are free; --activations'
expect_no_file huge

# A run without memory names the next cheaper choice with its plan.
last="pretrain with ulimit -v"
(ulimit -v 1000000 && exec "$COMERA" pretrain --model llama-6m --task clm --form dense --threads 1 --data long.txt \
  --tokenizer vocab.txt --seq 128 --batch 128 --steps 1 --quiet -o large >.out 2>.err)
code=$?
expect_exit 1
expect_err 'there is not enough; the run needs [0-9.]+ GiB by plan; --activations cheap needs [0-9.]+ [MG]iB by plan'
finish
