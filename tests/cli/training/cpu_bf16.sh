#!/usr/bin/env bash
# --dtype bf16 on a processor with AVX512-BF16: every task and form, half of the kept bytes, the same bytes for any number
# of threads and after a resume, beside every --activations; the run is an fp32 folder for any other machine.
. "$(dirname "$0")/../expect.sh"
# shellcheck source=../tiny_task.sh
. "$tests/cli/tiny_task.sh" || exit 1
run "$COMERA" --version --json
expect_exit 0
if ! grep -q '"v4bf16"' .out; then
  echo "SKIPPED: this processor has no AVX512-BF16"
  exit 77
fi

# expect_repeatable OPTION...: the same bytes for any number of threads and after a resume. Leaves `one`.
expect_repeatable() {
  rm -rf one two
  run "$COMERA" pretrain "${tiny[@]}" --dtype bf16 "$@" --save-every 2 --threads 1 -o one
  expect_exit 0
  run "$COMERA" pretrain "${tiny[@]}" --dtype bf16 "$@" --save-every 2 --threads 2 -o two
  expect_exit 0
  expect_same_bytes one/model.safetensors two/model.safetensors
  expect_resumes one
}

for form in tt lowrank dense; do
  expect_repeatable --form $form
  run "$COMERA" pretrain "${tiny[@]}" --form $form -o "fp32-$form"
  expect_exit 0
  cmp -s one/model.safetensors "fp32-$form/model.safetensors" && fail "bf16 changed nothing in form $form"
  run "$COMERA" evaluate one --data dev.tsv "${columns[@]}" --isa v3 --json
  expect_exit 0
  cp .out fp32.json
  run "$COMERA" evaluate one --data dev.tsv "${columns[@]}" --dtype bf16 --json
  expect_exit 0
  expect_json "abs(d['loss'] - json.load(open('fp32.json'))['loss']) < .02"
done
for policy in cheap block bf16 int8 'cheap,int4' 'block,int8'; do expect_repeatable --form tt --activations "$policy"; done
for policy in act2bit compact velora; do expect_repeatable --form dense --activations $policy; done
narrow=("${tiny[@]}")
tiny=("${tiny[@]/#64/128}") # weights that are large enough for other optimisers
for method in adamw8bit apollo-mini 'galore8bit --galore-rank 8' adalomo; do
  # shellcheck disable=SC2086
  expect_repeatable --form dense --optimizer $method
done
tiny=("${narrow[@]}")
expect_repeatable --form tt --late-after 1 --target-fraction 0.7 --prune-every 1

run "$COMERA" pretrain --resume one --dtype fp32
expect_refused '--dtype was bf16 and is fp32'
run "$COMERA" pretrain "${model[@]}" "${words[@]}" --text text --data train.tsv --dev dev.tsv --task mlm --dtype bf16 --form tt \
  -o masked
expect_exit 0
printf 'red round and green square\nblue round and red\n' >train.txt
run "$COMERA" pretrain --model llama-6m --task clm --layers 2 --hidden 32 --heads 4 --key-heads 2 --intermediate 48 \
  --positions 32 --embedding-rank 4 --rank 4 --order 2 --embedding-order 2 --data train.txt --dev train.txt "${words[@]}" \
  --dtype bf16 -o decoder
expect_exit 0
printf 'red round\n' >start.txt
run "$COMERA" predict decoder --data start.txt --dtype bf16 --max-tokens 4
expect_exit 0
run "$COMERA" tensorize fp32-dense -o grid --bits 8 --quiet
expect_exit 0
run "$COMERA" evaluate grid --data dev.tsv "${columns[@]}" --dtype bf16 --json
expect_exit 0

# Two bytes per activation: what is kept, and what a policy keeps.
saved_bytes() { # OPTION...
  run "$COMERA" pretrain --model mnli-6enc --form tt --batch 32 --seq 128 --dry-run --json "$@"
  expect_exit 0
  python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["memory"]["saved"])' .out
}
percent=$((100 * $(saved_bytes --dtype bf16) / $(saved_bytes)))
if [ $percent -lt 49 ] || [ $percent -gt 53 ]; then fail "bf16 keeps $percent % of the bytes of fp32"; fi
finish
