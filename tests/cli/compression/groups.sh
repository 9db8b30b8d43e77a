#!/usr/bin/env bash
# Groups of 64 and 128 numbers share a scale: the bytes of the file, its numbers in every verb and in exports, and refusals.
. "$(dirname "$0")/../expect.sh"
. "$(dirname "$0")/../small_checkpoint.sh"
# Lines of 160 and 224 numbers: the last group is short.
small="--layers 2 --hidden 160 --intermediate 224 --vocabulary 100 --heads 4"
# shellcheck disable=SC2086  # lists of words
$make llama $small --architecture llama --shards 1 --type F32
bytes() { cat "$1"/*.safetensors | wc -c; }

# A line of 160 numbers has 5 blocks; 3 bits take 12 bytes for each and 2 for a scale.
for group in 32 64 128; do
  run "$COMERA" tensorize llama -o "three-$group" --bits 3 --group $group
  expect_exit 0
  run "$COMERA" inspect "three-$group" --verify llama
  expect_exit 0
done
run "$COMERA" inspect three-128 --json
expect_json "[l['bytes'] for l in d['layers'] if l['name'].endswith('0.self_attn.q_proj.weight')] == [160 * (5 * 12 + 2 * 2)] \
  and all(l['form'] == 'q3_0g128' for l in d['layers'] if 'proj' in l['name'])"
run python3 -c "
import json
errors = [[l['rel_error'] for l in json.load(open(f'three-{group}/report.json'))['layers'] if 'proj' in l['name']]
          for group in (32, 64, 128)]
assert all(a < b < c < 1.3 * a for a, b, c in zip(*errors)), errors"
expect_exit 0
[ "$(bytes three-128)" -lt "$(bytes three-64)" ] || fail "groups of 128 have fewer scales than those of 64"
[ "$(bytes three-64)" -lt "$(bytes three-32)" ] || fail "groups of 64 have fewer scales than those of 32"

# With text by GPTQ, with corrections, and with trained codes.
run "$COMERA" tensorize llama -o fitted --bits 2 --group 64 --rank 8 "${text[@]}" --refine --refine-steps 3
expect_exit 0
run "$COMERA" inspect fitted --json
expect_json "any(l['form'] == 'q2_0g64+lowrank:q8_0' for l in d['layers'])"
run "$COMERA" inspect fitted --verify llama --calibrate text.txt --tokenizer vocab.txt --calibrate-tokens 800
expect_exit 0

# A rule and a plan file.
run "$COMERA" tensorize llama --bits 4 --layer '*.down_proj=bits:2;group:64' --dump-plan plan.json
expect_exit 0
run "$COMERA" tensorize llama --plan plan.json -o planned
expect_exit 0
run "$COMERA" inspect planned --json
expect_json "{l['form'] for l in d['layers'] if 'down_proj' in l['name']} == {'q2_0g64'} \
  and {l['form'] for l in d['layers'] if 'up_proj' in l['name']} == {'q4_0'}"

# By budget the program chooses groups too.
run "$COMERA" tensorize llama -o chosen --bits auto --ratio 9 "${text[@]}" --refine=never
expect_exit 0
run "$COMERA" tensorize llama -o ranked --bits auto --ratio 9 "${text[@]}" --refine=never --corrections
expect_exit 0
run "$COMERA" tensorize llama -o fixed --bits auto --group 32 --ratio 9 "${text[@]}" --refine=never
expect_exit 0
run "$COMERA" inspect chosen --json
expect_json "any(l['form'].endswith('g128') for l in d['layers'])"
expect_json "all(l['form'].startswith('q') and 'lowrank' not in l['form'] for l in d['layers'] if 'proj' in l['name'])"
run "$COMERA" inspect ranked --json
expect_json "any('lowrank' in l['form'] for l in d['layers'])"
run "$COMERA" inspect fixed --json
expect_json "not any('g' in l['form'] for l in d['layers'] if l['form'].startswith('q'))"
[ "$(bytes chosen)" -le $(($(bytes llama) / 9)) ] || fail "a ninth of the bytes"
run "$COMERA" inspect chosen --verify llama
expect_exit 0

# Graphs of ONNX keep the groups, and each export checks its own answers.
run "$COMERA" tensorize llama -o four --bits 4 --group 128 --exclude '*embed*'
expect_exit 0
run "$COMERA" export four -o four.onnx --quantized qdq
expect_exit 0
run "$COMERA" export planned -o planned.onnx --quantized nbits
expect_exit 0

run "$COMERA" tensorize llama -o no --bits 8 --group 64
expect_refused '\-\-bits 8 --group 64: 8 bits have groups of 32 alone'
run "$COMERA" tensorize llama -o no --ratio 2 --group 64
expect_refused '\-\-group 64 is for weights on grids; add --bits'
run "$COMERA" tensorize llama -o no --bits 4 --group 48
expect_exit 2
for bits in '4' 'auto --ratio 4'; do
  # shellcheck disable=SC2086  # words of options
  run "$COMERA" tensorize llama -o no --bits $bits --group 64 --for gguf
  expect_refused '\-\-group 64 --for gguf: GGUF has groups of 32 alone; leave out --group'
done
run "$COMERA" tensorize llama -o no --bits 4 --layer '*.up_proj=bits:4;group:64' --for gguf
expect_refused 'up_proj: --for gguf: GGUF has groups of 32, and q4_0g64 of 64 came; use group:32'
run "$COMERA" tensorize llama -o no --bits 4 --layer '*=group:64'
expect_refused 'group: is that of bits; add bits:2, bits:3 or bits:4'
run "$COMERA" tensorize llama -o no --bits 4 --layer '*=bits:8;group:64'
expect_refused '8 bits have groups of 32 alone; leave out group:'
finish
