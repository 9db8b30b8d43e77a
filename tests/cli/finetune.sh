#!/usr/bin/env bash
# Training further: a stored model on labels, with another head, after a teacher; embeddings evaluated and written; what is refused.
. "$(dirname "$0")/expect.sh"
. "$(dirname "$0")/tiny_task.sh"

run "$COMERA" pretrain "${tiny[@]}" --dropout 0 --lr 1e-2 --lr-cores 1e-2 --steps 40 -o dense --form dense
expect_exit 0
run "$COMERA" pretrain "${tiny[@]}" --dropout 0 --lr 1e-2 --lr-cores 1e-2 -o small
expect_exit 0

# The head stays: the first evaluation is that of the stored model.
go=(--seq 8 --batch 4 --steps 6 --lr 1e-3 --lr-cores 1e-3 --save-every 3 --threads 2 --quiet)
run "$COMERA" finetune small "${go[@]}" "${columns[@]}" --data train.tsv --dev dev.tsv -o on --json
expect_exit 0
expect_json "d['end'] == 'steps' and d['step'] == 6 and d['settings']['model'] == 'small'"
run "$COMERA" finetune small "${go[@]}" "${columns[@]}" --data train.tsv --dev dev.tsv --lr 0 --lr-cores 0 --lr-ranks 0 -o still
expect_exit 0
run python3 - <<'PY'
import json, struct
def tensors(path):
    data = open(path, "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    return {k: data[8 + n:][v["data_offsets"][0]:v["data_offsets"][1]] for k, v in json.loads(data[8:8 + n]).items() if k != "__metadata__"}
a, b = tensors("small/model.safetensors"), tensors("still/model.safetensors")
assert a == b, [k for k in a if a[k] != b.get(k)]
PY
expect_exit 0

# Stopped and resumed: the same bytes.
cp -r on whole
rm -r on/checkpoints/step-*6 on/model.safetensors
run "$COMERA" finetune --resume on --quiet
expect_exit 0
expect_same_bytes on/model.safetensors whole/model.safetensors

# Labels of its own: a new head on the same body.
sed 's/^red/warm/; s/^green/cold/; s/^blue/cold/' train.tsv >other.tsv
run "$COMERA" finetune dense "${go[@]}" "${columns[@]}" --data other.tsv -o two
expect_exit 0
grep -q '"0": "cold"' two/config.json || fail "the new labels are in config.json"

# After a teacher: labels, then hidden states without labels; ranks fall where they are asked to.
run "$COMERA" finetune small --teacher dense "${go[@]}" "${columns[@]}" --data train.tsv --dev dev.tsv -o taught --json
expect_exit 0
grep -q '<td[^>]*>teacher</td>' taught/report.html || fail "the teacher is a row of the memory table"
run "$COMERA" finetune small --task embed --teacher dense --distill hidden "${go[@]}" --data corpus.txt --dev corpus.txt -o body --json
expect_exit 0
expect_json "d['loss'] > 0 and d['end'] == 'steps'"
grep -q '"BertModel"' body/config.json || fail "a body without head is a BertModel"
run "$COMERA" finetune body --teacher body --distill embedding "${go[@]}" --data corpus.txt -o self --json
expect_exit 0
expect_json "d['loss'] < 1e-3"
run "$COMERA" finetune small --teacher dense --target-fraction 0.5 "${go[@]}" --steps 20 "${columns[@]}" --data train.tsv -o fallen
expect_exit 0
run "$COMERA" finetune --dry-run small --json
expect_exit 0
expect_json "d['totals']['ratio'] > 1"
run "$COMERA" finetune small --teacher dense --seq 8 --batch 4 --dry-run
expect_exit 0
expect_out '^teacher '

# Sentence embeddings.
printf 'a\tb\tscore\nround red\tround red\t5\nsquare blue\tround green\t1\ngreen\tgreen and red\t3.5\n' >pairs.tsv
run "$COMERA" evaluate body --data pairs.tsv --text a,b --label score --predictions cosines.tsv --json
expect_exit 0
expect_json "-1 <= d['spearman'] <= 1 and d['pairs'] == 3 and d['sentences_per_second'] > 0"
expect_equal "$(sed -n 2p cosines.tsv)" "$(printf '5\t1.000000')"
run "$COMERA" evaluate body --data pairs.tsv --text a,b --label score --require 'spearman>=2'
expect_exit 1
run_with $'round red\nsquare blue and green\n' "$COMERA" predict body --npy vectors.npy
expect_exit 0
run_with $'round red\nsquare blue and green\n' "$COMERA" predict body --json
expect_exit 0
expect_json "len(d['embeddings']) == 2 and len(d['embeddings'][0]) == 32"
run python3 - <<'PY'
import ast, json, struct
data = open("vectors.npy", "rb").read()
assert data[:8] == b"\x93NUMPY\x01\x00", data[:8]
n = struct.unpack("<H", data[8:10])[0]
head = ast.literal_eval(data[10:10 + n].decode())
assert head == {"descr": "<f4", "fortran_order": False, "shape": (2, 32)} and (10 + n) % 64 == 0 and len(data) == 10 + n + 256, head
PY
expect_exit 0

# What is refused.
refused() {
  local message=$1
  shift
  run "$COMERA" finetune "$@" -o new
  expect_refused "$message"
  expect_no_file new
}
refused 'MODEL is missing' "${go[@]}" --data train.tsv
refused 'nowhere: is no folder' nowhere "${go[@]}" --data train.tsv
refused 'teacher is missing: embeddings' body "${go[@]}" --data corpus.txt
refused 'has no head for labels' body --task classify --teacher dense "${go[@]}" --data train.tsv --text text
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' red green blue round square or >dense/vocab.txt
refused "a teacher must have the student's vocabulary" small --teacher dense "${go[@]}" "${columns[@]}" --data train.tsv
run "$COMERA" pretrain "${model[@]}" --hidden 16 --form dense --tokenizer vocab.txt --seq 8 --batch 4 --steps 1 --quiet "${columns[@]}" --data train.tsv -o narrow
refused 'its vectors have 16 numbers' small --task embed --teacher narrow "${go[@]}" --data corpus.txt
run "$COMERA" evaluate body --data pairs.tsv --text a --label score
expect_refused 'name the two columns'
finish
