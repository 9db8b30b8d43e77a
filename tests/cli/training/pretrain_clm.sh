#!/usr/bin/env bash
# A decoder on text: train in TT form and dense, evaluate with a stride, generate; refused calls.
. "$(dirname "$0")/../expect.sh"

printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' red green blue round square and >vocab.txt
for i in $(seq 60); do
  printf 'red round\nand green square\n\f\nblue %s and red\n\f\n' "$([ $((i % 2)) = 0 ] && echo round || echo square)"
done >train.txt
head -n 20 train.txt >dev.txt
model=(--model llama-6m --task clm --layers 2 --hidden 32 --heads 4 --key-heads 2 --intermediate 48 --positions 32)
ranks=(--rank 6 --embedding-form tt --embedding-rank 4 --order 2 --embedding-order 2 --lr-ranks 2e-2)
data=(--data train.txt --dev dev.txt --tokenizer vocab.txt --seq 16 --batch 8)
rates=(--steps 160 --warmup 5 --lr 1e-2 --lr-cores 3e-3 --schedule constant --seed 7 --eval-every 80
  --save-every 80 --threads 2)

run "$COMERA" pretrain --model llama-60m --task clm --form dense --batch 1 --seq 128 --dry-run --json
expect_exit 0
expect_json "d['totals']['parameters'] == 58073600"
run "$COMERA" pretrain --model llama-130m --task clm --batch 1 --seq 128 --dry-run --json
expect_exit 0
expect_json "d['totals']['parameters_dense'] == 134105856 and d['totals']['ratio'] > 5"

# The form of the tied table: a pair by the preset, with a quarter of the width as rank.
table_of() { # OPTION...: parameters of the table of words
  run "$COMERA" pretrain "${model[@]}" "$@" --seq 16 --dry-run --tokenizer vocab.txt --data train.txt --json
  expect_exit 0
  python3 -c "
import json
layers = json.load(open('.out'))['layers']
print([(row['form'], row['parameters']) for row in layers if row['name'] == 'model.embed_tokens.weight'])" >>tables
}
: >tables
small=(--rank 4 --order 2)
table_of "${small[@]}"
table_of "${small[@]}" --embedding-rank 3
table_of "${small[@]}" --embedding-form dense
table_of --form dense
table_of --form dense --embedding-form lowrank --embedding-rank 2
table_of --form lowrank --rank 4
table_of "${small[@]}" --embedding-form same --embedding-rank 2 --embedding-order 2
table_of "${small[@]}" --embedding-form tt --embedding-rank 2 --embedding-order 2
diff tables - <<'TABLES' || fail 'the forms of the table'
[('lowrank', 344)]
[('lowrank', 129)]
[('dense', 352)]
[('dense', 352)]
[('lowrank', 86)]
[('lowrank', 344)]
[('ttm', 88)]
[('ttm', 88)]
TABLES

run "$COMERA" pretrain "${model[@]}" "${data[@]}" "${rates[@]}" "${ranks[@]}" --target-fraction 0.7 --prune-every 10 -o run \
  --json
expect_exit 0
expect_json "d['loss'] < 1.2 and d['step'] == 160"
# Tables of decoders have larger rates, up to 1e-2.
expect_equal "$(grep -E '^lr-(tables|table-cores) ' run/recipe.toml | tr '\n' ' ')" 'lr-table-cores = 0.01 lr-tables = 0.01 '
run "$COMERA" pretrain "${model[@]}" "${data[@]}" --form dense --steps 1 --lr 1e-4 --quiet -o slow
expect_exit 0
expect_equal "$(grep '^lr-tables ' slow/recipe.toml)" 'lr-tables = 0.006'
run python3 -c "
import json
lines = [l for l in map(json.loads, open('run/metrics.jsonl')) if l.get('event') == 'removal']
assert lines
for l in lines:
    for what in 'fallen', 'cut':
        assert sum(sum(bonds) for bonds in l.get(what + '_by_bond', {}).values()) == l[what], l"
expect_exit 0
run "$COMERA" inspect run
expect_exit 0
expect_out 'model.layers.1.mlp.down_proj'
run "$COMERA" evaluate run --data dev.txt --json
expect_err "documents are read with an end token, as the model was trained; to compare .* --\[no-\]document-end"
expect_exit 0
expect_json "d['task'] == 'clm' and 1 < d['perplexity'] < 3.3 and d['examples'] > 0"
cp .out packed.json
run "$COMERA" evaluate run --data dev.txt --seq 8 --stride 4 --batch 1 --predictions windows.tsv --json
expect_exit 0
expect_json "d['examples'] == json.load(open('packed.json'))['examples']"
cp .out strided.json
python3 - <<'PY' || fail "the loss is the mean of those of the written windows"
import json

whole = json.load(open("strided.json"))
head, *rows = (line.split("\t") for line in open("windows.tsv").read().splitlines())
assert head == ["tokens", "loss"] and len(rows) > 2
tokens = sum(int(row[0]) for row in rows)
assert tokens == whole["examples"]
assert abs(sum(float(row[1]) for row in rows) / tokens - whole["loss"]) < 1e-6 * whole["loss"]
PY

run_with $'red round and\nblue\n' "$COMERA" predict run --max-tokens 12
expect_exit 0
expect_out '^red round and green square'
cp .out greedy.txt
expect_equal "$(wc -l <greedy.txt)" 2
run_with $'red round and\nblue\n' "$COMERA" predict run --max-tokens 12 --temperature 0.9 --top-p 0.9 --seed 3 --json
expect_exit 0
expect_json "len(d['texts']) == 2 and d['tokens'] > 0 and d['texts'][0]['text'].startswith('red round and')"
expect_json "d['prompt_tokens_per_second'] > 0 and d['tokens_per_second'] > 0 and d['seconds'] > 0"
cp .out first.json
run_with "$(printf 'red round and %.0s' {1..10})"$'\nblue\n' "$COMERA" predict run --max-tokens 1000 --quiet
expect_exit 0
expect_err '1 of 2 texts stopped before --max-tokens 1000: .*the model.s 32 positions'
expect_equal "$(wc -l <.err)" 1
run_with $'red round and\nblue\n' "$COMERA" predict run --max-tokens 2 --quiet
expect_no_err
run_with $'red round and\n' "$COMERA" predict run --npy vectors.npy
expect_refused 'npy: run is a decoder'
expect_no_file vectors.npy
for stride in 8 9; do
  run "$COMERA" evaluate run --data dev.txt --seq 8 --stride "$stride"
  expect_refused "stride $stride would leave out tokens between windows of --seq 8; use --stride 7 or less"
done
run "$COMERA" evaluate run --data dev.txt --seq 8 --stride 7 --json
expect_json "d['examples'] == json.load(open('packed.json'))['examples']"
run_with $'red round and\nblue\n' "$COMERA" predict run --max-tokens 12 --temperature 0.9 --top-p 0.9 --seed 3 --json \
  --threads 1
expect_json "d['texts'] == json.load(open('first.json'))['texts']"

run "$COMERA" pretrain "${model[@]}" "${data[@]}" "${rates[@]}" --form dense -o dense --json
expect_exit 0
expect_json "d['loss'] < 1.2"
run "$COMERA" evaluate dense --data dev.txt --require 'perplexity<3.3'
expect_exit 0

# A killed and resumed run ends with the same bytes.
run "$COMERA" pretrain "${model[@]}" "${data[@]}" "${rates[@]}" "${ranks[@]}" --target-fraction 0.7 --prune-every 10 \
  -o again --quiet
rm -r again/checkpoints/step-0*160 again/checkpoints/step-160 2>/dev/null
run "$COMERA" pretrain --resume again --quiet
expect_exit 0
expect_same_bytes run/model.safetensors again/model.safetensors

run "$COMERA" pretrain --model encoder-small --task clm "${data[@]}" --steps 2 -o new
expect_refused 'an encoder sees what comes next.*--model llama-6m'
run "$COMERA" pretrain --model llama-6m "${data[@]}" --steps 2 --label label --text text -o new
expect_exit 2
expect_no_file new
run "$COMERA" evaluate run --data dev.txt --seq 64
expect_refused 'longer than the model.s 32 positions'
run_with 'red' "$COMERA" predict run --temperature -1
expect_exit 2

# Memory for tokenising does not grow while a long text is read: the measured peak stays near the plan.
python3 - <<'PY'
import random
random.seed(3)
syllables = "ba do ri tu ke lo mi sa ne pu gra sto".split()
words = ["".join(random.choices(syllables, k=random.randint(1, 4))) for _ in range(3000)]
with open("long.txt", "w") as file:
    for _ in range(60000):
        file.write(" ".join(random.choices(words, k=10)) + "\n")
PY
run "$COMERA" tokenizer train --data long.txt --kind bpe --vocab-size 1000 -o tokenizer
expect_exit 0
run "$COMERA" pretrain --model llama-6m --task clm --form dense --layers 1 --hidden 32 --intermediate 64 --heads 2 \
  --data long.txt --tokenizer tokenizer --seq 128 --batch 16 --steps 300 --threads 2 --quiet -o long --json
expect_exit 0
expect_json "d['memory']['measured_peak'] <= 1.03 * d['memory']['planned_peak'] + (8 << 20) \
    and d['memory']['planned_peak'] < 24 << 20"
# A decoder of words that is no look-up table may have a method by name; one that is tied may not.
wide=("${model[@]}" --form dense --layers 1 --hidden 512 --head own --data train.txt --tokenizer vocab.txt --seq 16 --batch 8)
optimizer_bytes() { "$COMERA" pretrain "${wide[@]}" "$@" --dry-run --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["memory"]["optimizer"])'; }
saved=$(($(optimizer_bytes) - $(optimizer_bytes --optimizer 'lm_head=adamw8bit')))
[ "$saved" -gt $((11 * 512 * 5)) ] || fail "the head's moments take 2 bytes in place of 8, $saved bytes less"
for method in 'galore --galore-rank 4' apollo-mini; do
  # shellcheck disable=SC2086
  run "$COMERA" pretrain "${wide[@]}" --optimizer lm_head=$method --steps 2 -o "head-$method" --quiet
  expect_exit 0
done
run "$COMERA" pretrain "${wide[@]}" --head tied --optimizer '*embed_tokens=adamw8bit' --steps 2 -o no
expect_exit 2
expect_err 'what matches has no dense linear weight'
finish
