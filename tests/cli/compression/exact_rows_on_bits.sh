#!/usr/bin/env bash
# Tables of words in few bits with exact rows: as asked for, and as the budget chooses them.
. "$(dirname "$0")/../expect.sh"
make="python3 $tests/../scripts/make_checkpoint.py"
small="--layers 1 --hidden 64 --intermediate 128 --vocabulary 6000 --heads 4"
# shellcheck disable=SC2086  # a list of words
$make bert $small --architecture bert --shards 1 --type F16
{
  printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]'
  for i in $(seq 5995); do echo "w$i"; done
} >bert/vocab.txt
python3 - >text.txt <<'E2'
import random
draw = random.Random(1)
words, weights = [f"w{i}" for i in range(1, 401)], [1 / i for i in range(1, 401)]
for _ in range(400):
    print(*draw.choices(words, weights, k=20))
E2
words=embeddings.word_embeddings
of_words() { python3 -c "
import json, sys
print([(l['form'], l.get('exact_rows', 0)) for l in json.load(open('$1/report.json'))['layers'] if '$words' in l['name']][0])"; }
text=(--calibrate text.txt --calibrate-tokens 4000)

run "$COMERA" tensorize bert -o two --bits 2 --exact-rows 12 "${text[@]}"
expect_exit 0
expect_out 'q2_0 \+ 12 exact'
expect_equal "$(of_words two)" "('q2_0', 12)"
run "$COMERA" inspect two
expect_out 'q2_0 \+ 12 exact'
run "$COMERA" inspect two --verify bert "${text[@]}"
expect_exit 0
run "$COMERA" tensorize bert -o ruled --bits 2 --layer "*word*=exact:12" "${text[@]}"
expect_exit 0
expect_same_bytes ruled/model.safetensors two/model.safetensors
run "$COMERA" tensorize bert --bits 2 --exact-rows 12 "${text[@]}" --dump-plan plan.json
expect_out 'q2_0 \+ 12 exact'
run "$COMERA" tensorize bert -o planned --plan plan.json "${text[@]}"
expect_exit 0
expect_same_bytes planned/model.safetensors two/model.safetensors

# Every export has the exact rows: a dense folder, graphs with and without grids.
run "$COMERA" export two -o dense --to safetensors
expect_exit 0
python3 - "$words" <<'E2' || fail "the dense folder has the exact rows bit for bit"
import json, struct, sys
def read(path):
    data = open(path, 'rb').read()
    n = struct.unpack('<Q', data[:8])[0]
    return {k: (v['dtype'], data[8 + n:][v['data_offsets'][0]:v['data_offsets'][1]])
            for k, v in json.loads(data[8:8 + n]).items() if k != '__metadata__'}
made, small, bert = (read(f'{name}/model.safetensors') for name in ('dense', 'two', 'bert'))
name = sys.argv[1]
ids = struct.unpack('<12i', small[name + '.exact.ids'][1])
assert small[name + '.exact.rows'][0] == 'F16'
row = lambda table, i: table[name + '.weight'][1][128 * i:128 * i + 128]
same = [i for i in range(6000) if row(made, i) == row(bert, i)]
assert set(ids) == set(same) and {2, 3, 5, 6} <= set(ids), (ids, same)
E2
for grids in qdq nbits; do
  run "$COMERA" export two -o "$grids.onnx" --quantized "$grids"
  expect_exit 0
  expect_out 'largest difference from the model'
done
run "$COMERA" export two -o whole.onnx
expect_exit 0

# A killed run resumes, and ends with the same bytes.
run env COMERA_FAULT_AT=9 "$COMERA" tensorize bert -o resumed --bits 2 --exact-rows 12 "${text[@]}"
expect_no_file resumed/model.safetensors
run "$COMERA" tensorize bert -o resumed --bits 2 --exact-rows 12 "${text[@]}"
expect_exit 0
expect_same_bytes resumed/model.safetensors two/model.safetensors

# inspect --verify detects a changed exact row.
cp -r two broken
change_byte broken/model.safetensors "$words.exact.rows"
run "$COMERA" inspect broken --verify bert
expect_exit 1
expect_out 'the cores or exact rows are not the ones that were written'

# The budget chooses exact rows where they are worth their bytes; a rule leaves them out, and GGUF has none.
auto=(--bits auto --ratio 4.5 "${text[@]}" --refine=never)
run "$COMERA" tensorize bert -o chosen "${auto[@]}"
expect_exit 0
of_words chosen | grep -q ', 256)' || fail "exact rows are chosen: $(of_words chosen)"
[ $(($(stat -c %s chosen/model.safetensors) * 9)) -le $(($(stat -c %s bert/model.safetensors) * 2)) ] ||
  fail "the bytes of the ratio, exact rows counted"
run "$COMERA" tensorize bert -o without "${auto[@]}" --layer '*word*=exact:0'
expect_exit 0
of_words without | grep -q ', 0)' || fail "a rule leaves them out: $(of_words without)"
run "$COMERA" tensorize bert -o none "${auto[@]}" --exact-rows 0
expect_exit 0
of_words none | grep -q ', 0)' || fail "--exact-rows 0 leaves them out: $(of_words none)"

# Refused with one line of message and no output.
refused() {
  run "$COMERA" tensorize "${@:2}"
  expect_refused "$1"
  expect_no_file out
}
refused 'give text with --calibrate' bert -o out --bits 2 --exact-rows 12
refused 'GGUF has no table of bits and 12 exact rows' bert -o out --bits 4 --for gguf --exact-rows 12 "${text[@]}"
refused '6000 exact rows are not between 0 and 5999' bert -o out --bits 2 --layer '*word*=exact:6000' "${text[@]}"
refused 'a linear layer has none' bert -o out --bits 2 --layer '*query=exact:3' "${text[@]}"
run python3 -c "
import json
config = json.load(open('two/config.json'))
config['comera']['tensors']['encoder.layer.0.attention.self.query']['exact'] = 2
json.dump(config, open('two/config.json', 'w'))"
run "$COMERA" inspect two
expect_refused 'query: unknown key "exact"'
finish
