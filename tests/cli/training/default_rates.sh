#!/usr/bin/env bash
# pretrain learns with its default rates, dense and in TT form, and the recipe records the rates.
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
finish
