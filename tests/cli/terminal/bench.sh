#!/usr/bin/env bash
# comera bench on a model of two small layers: output for scripts, and refused options.
. "$(dirname "$0")/../expect.sh"

small=(--model encoder-small --layers 2 --hidden 64 --heads 2 --intermediate 128 --positions 32 --rank 4
  --embedding-rank 4 --batch 2 --seq 16
  --threads 2 --warmup 1 --repetitions 2)
for form in tt dense lowrank; do
  run "$COMERA" bench "${small[@]}" --form "$form" --format jsonl
  expect_exit 0
  expect_jsonl "d[0]['work'] == 'step' and len(d) > 5 and \
    all(set('work median_ms min_ms max_ms gflops peak_bytes'.split()) <= set(l) for l in d)"
  expect_jsonl "all(l['min_ms'] <= l['median_ms'] <= l['max_ms'] for l in d) and d[0]['gflops'] > 0 \
      and d[0]['form'] == '$form'"
done
run "$COMERA" bench "${small[@]}" --json
expect_exit 0
expect_json "d['schema_version'] == 1 and d['kind'] == 'bench' and d['rows'][0]['work'] == 'step' \
    and d['settings']['threads'] == 2 and d['settings']['dtype'] == 'fp32' and d['settings']['activations'] == 'keep'"
expect_json "d['peak_gflops'] > 0 and 'OpenBLAS' in d['settings']['blas'] and d['rows'][0]['peak_bytes'] > 0"
expect_json "d['peak_work'] == 'multiply-adds in registers' and all(0 <= (r['share_of_peak'] or 0) <= 1 \
    for r in d['rows'])"
# The table leaves out empty columns, and "peak" names only the rate. csv has every column.
joules=$(python3 -c "import json; print(any(r['joules'] is not None for r in json.load(open('.out'))['rows']))")
run env COLUMNS=200 "$COMERA" bench "${small[@]}" --isa auto
expect_exit 0
expect_out '  memory'
[ "$(grep -ow peak .out | wc -l)" = 1 ] || fail 'one column is called peak'
[ "$joules" = True ] || ! head -n 1 .out | grep -qw J || fail 'no empty column of joules'
run "$COMERA" bench "${small[@]}" --task mlm --format md --activations block
expect_exit 0
expect_out '^\| step '
expect_err '^blas +OpenBLAS'
run "$COMERA" bench --linear 64x96 --rank 4 --batch 1 --seq 16 --warmup 1 --repetitions 2 --format csv -q
expect_exit 0
expect_out '^work,isa,calls,median_ms,min_ms,max_ms'
expect_out '^step,'
expect_no_err

run "$COMERA" bench --linear 64x96 --rank 4 --batch 1 --seq 16 --warmup 1 --repetitions 2 --json -q --isa auto
expect_exit 0
expect_json "[r['work'] for r in d['rows']] == ['step', 'tokens', 'cores'] and d['copy_gb_per_s'] > 0"
expect_json "d['rows'][1]['moved_bytes'] == 4 * (2 * 16 + 2 * 4) * (64 + 96) \
    and 0 < (d['rows'][1]['share_of_bound'] or 1) <= 1 and d['rows'][2]['moved_bytes'] is None"
run "$COMERA" bench --table 300x64 --embedding-rank 4 --batch 1 --seq 16 --warmup 1 --repetitions 2 --json -q --isa auto
expect_exit 0
expect_json "[r['work'] for r in d['rows']] == ['step', 'tokens', 'cores'] and d['settings']['table'] == '300x64'"

# Every instruction set of the machine: the whole step under each, its parts under the best. --isa NAME: that set only.
read -ra sets < <("$COMERA" --version --json |
  python3 -c 'import json, sys; print(*json.load(sys.stdin)["cpu"]["instruction_sets"])')
run "$COMERA" bench "${small[@]}" --format jsonl
expect_exit 0
expect_jsonl "[l['isa'] for l in d if l['work'] == 'step'] == '${sets[*]}'.split() \
    and all(l['isa'] == d[0]['isa'] for l in d if l['work'] != 'step')"
expect_jsonl "all(l['median_ms'] > 0 and l['share_of_peak'] > 0 for l in d if l['work'] == 'step') \
    and len(d) > 5 + ${#sets[@]}"
for set in "${sets[@]}"; do
  run "$COMERA" bench "${small[@]}" --format jsonl --isa "$set"
  expect_exit 0
  expect_jsonl "len(d) > 5 and all(l['isa'] == '$set' for l in d)"
done
# OpenBLAS uses the instruction set that --isa names.
run "$COMERA" bench "${small[@]}" --json --isa v3
expect_json "'(Haswell)' in d['settings']['blas']"

# The task and the tokens follow the model.
short=(--layers 1 --hidden 64 --heads 2 --intermediate 128 --rank 4)
while read -r preset task tokens options; do
  # shellcheck disable=SC2086
  run "$COMERA" bench --model "$preset" $options --batch 2 --threads 2 --warmup 1 --repetitions 1 --isa auto --json -q
  expect_exit 0
  expect_json "d['settings']['task'] == '$task' and d['settings']['seq'] == $tokens"
done <<PRESETS
dlrm-small ctr 1 --rank 4
vit-mini image 50 ${short[*]}
vit-mini image 26 ${short[*]} --image-size 20
llama-6m clm 128 ${short[*]}
encoder-small classify 128 ${short[*]}
encoder-small classify 16 ${short[*]} --positions 16
PRESETS
run "$COMERA" bench --model vit-mini --seq 64
expect_refused 'seq 64: an image has 50 tokens in this model'
# A page names the processors and what computed.
cpu=$(python3 -c 'import os; print(min(os.sched_getaffinity(0)))')
run taskset -c "$cpu" "$COMERA" bench "${small[@]}" --isa v3 --format html -q
expect_exit 0
expect_out ', 1 processor, v3</p>'
run "$COMERA" bench "${small[@]}" --format html -q
expect_out " processors?, ${sets[0]}(, |</p>)"
run "$COMERA" bench --linear 64x96 --table 300x64
expect_refused "give one of them"
run "$COMERA" bench --table 300
expect_refused "table 300: expected two sizes"
run "$COMERA" bench --table 300x64 --form lowrank
expect_refused "want --form tt or dense"
run "$COMERA" bench --linear 64
expect_refused "linear 64: expected two sizes"
run "$COMERA" bench --model nothing
expect_refused "there is no preset 'nothing'"
run "$COMERA" bench "${small[@]}" --rank 4000
expect_refused '4000'
run "$COMERA" bench --device cuda
expect_refused 'built without CUDA'
run "$COMERA" bench --dtype bf16 --isa v3
expect_refused "--dtype bf16 needs a GPU or the CPU's instruction set v4bf16 \(AVX512-BF16\): --device cpu computes in fp32 with v3"
run "$COMERA" bench --batch 0
expect_refused 'too small'
finish
