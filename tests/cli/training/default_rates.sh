#!/usr/bin/env bash
# pretrain learns with its default rates and decay, dense and in TT form, and the recipe records them.
. "$(dirname "$0")/../expect.sh"
. "$(dirname "$0")/../tiny_task.sh"

learn=("${model[@]}" "${columns[@]}" --data train.tsv --dev dev.tsv --tokenizer vocab.txt --seq 8 --batch 16 --dropout 0
  --steps 300 --threads 2
  --log-every 1 --quiet --json)

for form in dense tt; do
  run "$COMERA" pretrain "${learn[@]}" --form "$form" -o "$form"
  expect_exit 0
  expect_json "d['accuracy'] > 0.95"
  # The warm-up is a twentieth of the steps: the rate rises over 15 steps.
  run python3 -c "
import json, tomllib
rates = [json.loads(line)['learning_rate'] for line in open('$form/metrics.jsonl') if '\"train\"' in line]
assert len(rates) == 300 and max(rates) == rates[14] and rates[13] < rates[14] and rates[16] < rates[14], rates[:20]
assert tomllib.load(open('$form/recipe.toml', 'rb'))['lr'] == rates[14]"
  expect_exit 0
done

# Cores have rates by their shapes and the norm of their weights decays. A recipe from before these options means one
# rate for all cores, and decay of the cores.
grep -q '^core-rates = "structured"' tt/recipe.toml || fail "the recipe records the rates by core"
grep -q '^weight-norm-decay = 1' tt/recipe.toml || fail "the recipe records the decay of the norm"
few=("${model[@]}" "${columns[@]}" --data train.tsv --tokenizer vocab.txt --seq 8 --batch 16 --form tt --seed 3
  --threads 2 --quiet --steps 12 --save-every 6)
run "$COMERA" pretrain "${few[@]}" -o structured
expect_exit 0
run "$COMERA" pretrain "${few[@]}" --core-rates uniform -o uniform
expect_exit 0
! cmp -s structured/model.safetensors uniform/model.safetensors || fail "the rates by core change the model"
run "$COMERA" pretrain "${few[@]}" --weight-norm-decay 0 -o undecayed
expect_exit 0
! cmp -s structured/model.safetensors undecayed/model.safetensors || fail "the decay of the norm changes the model"
for run in structured uniform undecayed; do
  cp -r $run $run-again
  rm -r $run-again/checkpoints/step-00000012 $run-again/model.safetensors
done
sed -i '/^core-rates/d' uniform-again/recipe.toml
sed -i '/^weight-norm-decay/d' undecayed-again/recipe.toml
for run in structured uniform undecayed; do
  run "$COMERA" pretrain --resume $run-again
  expect_exit 0
  expect_same_bytes $run/model.safetensors $run-again/model.safetensors
done
run "$COMERA" pretrain --resume structured-again --core-rates uniform
expect_refused '--core-rates was structured and is uniform'
run "$COMERA" pretrain "${few[@]}" --optimizer adagrad --core-rates structured -o none
expect_refused '--core-rates structured is for AdamW, and --optimizer has adagrad'
finish
