#!/usr/bin/env bash
# finetune: on labels, with a new head, with a teacher; embeddings evaluated and written; refused calls.
. "$(dirname "$0")/../expect.sh"
. "$(dirname "$0")/../tiny_task.sh"

run "$COMERA" pretrain "${tiny[@]}" --dropout 0 --lr 1e-2 --lr-cores 1e-2 --steps 40 -o dense --form dense
expect_exit 0
run "$COMERA" pretrain "${tiny[@]}" --dropout 0 --lr 1e-2 --lr-cores 1e-2 -o small
expect_exit 0

# The head is kept: the first evaluation equals that of the stored model.
go=(--seq 8 --batch 4 --steps 6 --lr 1e-3 --lr-cores 1e-3 --save-every 3 --threads 2 --quiet)
run "$COMERA" finetune small "${go[@]}" "${columns[@]}" --data train.tsv --dev dev.tsv -o on --json
expect_exit 0
expect_json "d['end'] == 'steps' and d['step'] == 6 and d['settings']['model'] == 'small'"
run "$COMERA" finetune small "${go[@]}" "${columns[@]}" --data train.tsv --dev dev.tsv --lr 0 --lr-cores 0 \
  --lr-ranks 0 -o still
expect_exit 0
python3 - <<'PY' || fail "without a learning rate nothing changes"
import json, struct
def tensors(path):
    data = open(path, "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    return {k: data[8 + n:][v["data_offsets"][0]:v["data_offsets"][1]]
            for k, v in json.loads(data[8:8 + n]).items() if k != "__metadata__"}
a, b = tensors("small/model.safetensors"), tensors("still/model.safetensors")
assert a == b, [k for k in a if a[k] != b.get(k)]
PY

expect_err 'warmup 10: the learning rate rises during all 6 steps of the run, and reaches 60 % of the full rate; use --warmup 1,'
run "$COMERA" finetune small "${go[@]}" --warmup 1 "${columns[@]}" --data train.tsv -o risen
expect_exit 0
expect_no_err

# Stopped and resumed: the same bytes.
cp -r on whole
rm -r on/checkpoints/step-*6 on/model.safetensors
run "$COMERA" finetune --resume on --quiet
expect_exit 0
expect_same_bytes on/model.safetensors whole/model.safetensors

# Other labels: a new head on the same body.
sed 's/^red/warm/; s/^green/cold/; s/^blue/cold/' train.tsv >other.tsv
run "$COMERA" finetune dense "${go[@]}" "${columns[@]}" --data other.tsv -o two
expect_exit 0
grep -q '"0": "cold"' two/config.json || fail "the new labels are in config.json"

# With a teacher: on labels, then on hidden states without labels; ranks fall with --adapt-ranks or a target.
run "$COMERA" finetune small --teacher dense "${go[@]}" "${columns[@]}" --data train.tsv --dev dev.tsv -o taught --json
expect_exit 0
grep -q '<td[^>]*>teacher</td>' taught/report.html || fail "the teacher is a row of the memory table"
# Without labels there is no accuracy.
run "$COMERA" finetune small --teacher dense --unlabelled "${go[@]}" --data train.tsv --text text --dev dev.tsv --verbose \
  -o unlabelled --json
expect_exit 0
expect_json "d['accuracy'] is None and 'accuracy' not in d['dev']['last'] and d['dev']['last']['loss'] > 0"
grep -q 'accuracy' unlabelled/metrics.jsonl && fail "no line of the metrics has an accuracy"
run "$COMERA" finetune --resume unlabelled --json
expect_exit 0
expect_json "d['accuracy'] is None"
run_refused 'best-by accuracy: the task classify without labels has no such measure; use --best-by loss' finetune small \
  --teacher dense "${go[@]}" --data train.tsv --text text --dev dev.tsv --best-by accuracy
run "$COMERA" finetune small --task embed --teacher dense --distill hidden "${go[@]}" --data corpus.txt \
  --dev corpus.txt -o body --json
expect_exit 0
expect_json "d['loss'] > 0 and d['end'] == 'steps'"
grep -q '"BertModel"' body/config.json || fail "a body without head is a BertModel"
run "$COMERA" finetune body --teacher body --distill embedding "${go[@]}" --data corpus.txt -o self --json
expect_exit 0
expect_json "d['loss'] < 1e-3"
run "$COMERA" finetune small --teacher dense --target-fraction 0.5 "${go[@]}" --steps 20 "${columns[@]}" \
  --data train.tsv -o fallen
expect_exit 0
run "$COMERA" finetune --dry-run small --json
expect_exit 0
expect_json "d['totals']['ratio'] > 1"
run "$COMERA" finetune small --teacher dense --seq 8 --batch 4 --dry-run
expect_exit 0
expect_out '^teacher '

# A weight in the form that tensorize writes: a folded pair with sorted inputs and a gauge. It is the same model up to
# rounding. With rank adaptation it loses the gauge, and a resumed run ends with the same bytes.
python3 - <<'PY' || fail "a pair is made of a dense weight"
import json, os, shutil, struct
def read(path):
    data = open(path, "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:8 + n])
    head.pop("__metadata__", None)
    return {k: (v["dtype"], v["shape"], data[8 + n:][v["data_offsets"][0]:v["data_offsets"][1]])
            for k, v in head.items()}
def write(path, tensors):
    head, body = {"__metadata__": {"format": "pt", "comera_format": "1"}}, b""
    for k, (dtype, shape, data) in tensors.items():
        head[k] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + body)
def solve(a, b):  # a x = b by elimination
    n = len(a)
    rows = [list(a[i]) + list(b[i]) for i in range(n)]
    for c in range(n):
        p = max(range(c, n), key=lambda r: abs(rows[r][c]))
        rows[c], rows[p] = rows[p], rows[c]
        rows[c] = [v / rows[c][c] for v in rows[c]]
        for r in range(n):
            if r != c and rows[r][c]:
                f = rows[r][c]
                rows[r] = [v - f * w for v, w in zip(rows[r], rows[c])]
    return [row[n:] for row in rows]
tensors = read("dense/model.safetensors")
name = "bert.encoder.layer.0.intermediate.dense"
flat = struct.unpack("<2048f", tensors.pop(name + ".weight")[2])
w = [[flat[o * 32 + i] for o in range(64)] for i in range(32)]  # [in, out]
gauge = [(7 * r + 3) % 64 for r in range(32)]
rest = [o for o in range(64) if o not in gauge]
left = [[row[g] for g in gauge] for row in w]
right = solve(left, [[row[o] for o in rest] for row in w])
order = [(5 * p + 1) % 32 for p in range(32)]
tensors[name + ".tt.0"] = ("F32", [1, 32, 32], struct.pack("<1024f", *[v for p in order for v in left[p]]))
tensors[name + ".tt.1"] = ("F32", [32, 32, 1], struct.pack("<1024f", *[v for row in right for v in row]))
tensors[name + ".order"] = ("I32", [32], struct.pack("<32i", *order))
tensors[name + ".gauge"] = ("I32", [32], struct.pack("<32i", *gauge))
shutil.copytree("dense", "pair")
shutil.rmtree("pair/checkpoints")
os.remove("pair/recipe.toml")
write("pair/model.safetensors", tensors)
config = json.load(open("pair/config.json"))
config["comera"] = {"version": 1, "tensors": {name: {
    "kind": "tt", "shape": [64, 32], "orientation": "in_out", "in_modes": [32], "out_modes": [64], "ranks": [1, 32, 1],
    "initial_ranks": [1, 32, 1], "diagonals": "folded", "sorted": True, "gauge": True}}}
json.dump(config, open("pair/config.json", "w"))
PY
for folder in dense pair; do
  run "$COMERA" evaluate "$folder" --data dev.tsv "${columns[@]}" --seq 8 --json
  expect_exit 0
  mv .out "$folder.json"
done
run python3 -c "import json
a, b = (json.load(open(f))['loss'] for f in ('dense.json', 'pair.json'))
assert abs(a - b) < 1e-4 * (1 + a), (a, b)"
expect_exit 0
run "$COMERA" finetune pair "${go[@]}" "${columns[@]}" --data train.tsv -o kept
expect_exit 0
run python3 -c "
import json
block = json.load(open('kept/config.json'))['comera']['tensors']['bert.encoder.layer.0.intermediate.dense']
assert block['gauge'] and block['sorted'] and block['diagonals'] == 'folded', block"
expect_exit 0
run "$COMERA" finetune pair --adapt-ranks "${go[@]}" "${columns[@]}" --data train.tsv --teacher pair --label label \
  -o falling
expect_exit 0
run python3 -c "
import json
block = json.load(open('falling/config.json'))['comera']['tensors']['bert.encoder.layer.0.intermediate.dense']
assert not block.get('gauge') and block['sorted'] and block['diagonals'] == 'beside', block"
expect_exit 0
cp falling/model.safetensors before.safetensors
rm -r falling/checkpoints/step-*6 falling/model.safetensors
run "$COMERA" finetune --resume falling --quiet
expect_exit 0
expect_same_bytes falling/model.safetensors before.safetensors

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
expect_json "d['kind'] == 'predict' and len(d['embeddings']) == 2 and all(len(row) == 32 for row in d['embeddings'])"
expect_equal "$(grep -c '^    \[.*\],\?$' .out)" 2
run_with '' "$COMERA" predict body --json
expect_exit 0
expect_json "d['embeddings'] == []"
run_with $'round red\n' "$COMERA" predict small --npy none.npy
expect_refused 'npy: small is a classifier'
expect_no_file none.npy
python3 - <<'PY' || fail "the array is NumPy's"
import ast, json, struct
data = open("vectors.npy", "rb").read()
assert data[:8] == b"\x93NUMPY\x01\x00", data[:8]
n = struct.unpack("<H", data[8:10])[0]
head = ast.literal_eval(data[10:10 + n].decode())
assert head == {"descr": "<f4", "fortran_order": False, "shape": (2, 32)}, head
assert (10 + n) % 64 == 0 and len(data) == 10 + n + 256, head
PY

# Refused calls.
run_refused 'MODEL is missing' finetune "${go[@]}" --data train.tsv
run_refused 'nowhere: no such folder' finetune nowhere "${go[@]}" --data train.tsv
run_refused 'teacher is missing: body gives embeddings' finetune body "${go[@]}" --data corpus.txt
run_refused 'has no head for labels' finetune body --task classify --teacher dense "${go[@]}" --data train.tsv \
  --text text
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' red green blue round square or >dense/vocab.txt
rm dense/recipe.toml  # it has the hash of its own vocabulary
run_refused "a teacher must have the student's vocabulary" finetune small --teacher dense "${go[@]}" "${columns[@]}" \
  --data train.tsv
run "$COMERA" pretrain "${model[@]}" --hidden 16 --form dense --tokenizer vocab.txt --seq 8 --batch 4 --steps 1 \
  --quiet "${columns[@]}" --data train.tsv -o narrow
# Logits are compared by their place.
cp -r dense turned
python3 - <<'PY'
import json
config = json.load(open("turned/config.json"))
labels = config["id2label"]
labels["0"], labels["1"] = labels["1"], labels["0"]
config["label2id"] = {label: int(number) for number, label in labels.items()}
json.dump(config, open("turned/config.json", "w"))
PY
run_refused "teacher turned: has the student's labels in another order" finetune small --teacher turned \
  "${go[@]}" "${columns[@]}" --data train.tsv

# There is something to learn.
run_refused 'unlabelled learns from a teacher alone, and there is none; add --teacher' finetune small "${go[@]}" \
  --data train.tsv --text text --unlabelled
run_refused 'unlabelled reads no labels, and --label names their column' finetune small --teacher dense "${go[@]}" \
  "${columns[@]}" --data train.tsv --unlabelled
run_refused "distill-weight 0: the teacher's loss is all that a run without labels learns" finetune small \
  --teacher dense "${go[@]}" --text text --data train.tsv --distill-weight 0
run_refused "distill-weight 0: the teacher's loss is all that the task embed learns" finetune small \
  --task embed --teacher narrow "${go[@]}" --data corpus.txt --distill-weight 0
# Options that can have no effect in their call.
for option in '--core-rates uniform' '--lr-table-cores 1e-3' '--lr-ranks 1e-3' '--beta 1e-5' --adapt-ranks; do
  # shellcheck disable=SC2086
  run_refused "${option%% *} has no effect: all weights of dense are dense; leave it out" finetune dense "${go[@]}" \
    "${columns[@]}" --data train.tsv $option
done
for option in '--lr-ranks 1e-3' '--beta 1e-5'; do
  # shellcheck disable=SC2086
  run_refused "${option%% *} has no effect: the ranks of pair have no diagonals without --adapt-ranks" finetune pair \
    "${go[@]}" "${columns[@]}" --data train.tsv $option
done
run_refused 'lr-table-cores has no effect: all tables of pair are dense' finetune pair "${go[@]}" "${columns[@]}" \
  --data train.tsv --lr-table-cores 1e-3
run_refused 'patience has no effect without --eval-every;' finetune small "${go[@]}" "${columns[@]}" --data train.tsv \
  --dev dev.tsv --patience 2
run_refused 'distill-weight has no effect without --teacher;' finetune small "${go[@]}" "${columns[@]}" \
  --data train.tsv --distill-weight 0.5
run_refused 'distill-distance has no effect: .* logits are learned by their softmax' finetune small \
  --teacher dense "${go[@]}" "${columns[@]}" --data train.tsv --distill-distance cosine
run_refused 'distill-temperature has no effect: .* hidden states are learned by their distance' finetune small \
  --teacher dense --distill hidden "${go[@]}" "${columns[@]}" --data train.tsv --distill-temperature 3
run_refused 'tau has no effect without --adapt-ranks;' finetune small "${go[@]}" "${columns[@]}" --data train.tsv --tau 1
run_refused 'late-after has no effect without --target-ratio or --target-size or --target-fraction' finetune small \
  "${go[@]}" "${columns[@]}" --data train.tsv --late-after 2
run_refused 'lr-final has no effect without --schedule linear[|]cosine' finetune small "${go[@]}" "${columns[@]}" \
  --data train.tsv --schedule constant --lr-final 0.5
run_refused 'its vectors have 16 numbers, the student.s 32; use a teacher whose vectors have 32$' finetune small \
  --task embed --teacher narrow "${go[@]}" --data corpus.txt
run_refused 'its vectors have 16 numbers, the student.s 32; use --distill logits' finetune small --teacher narrow \
  --distill hidden "${go[@]}" \
  "${columns[@]}" --data train.tsv
run "$COMERA" evaluate body --data pairs.tsv --text a --label score
expect_refused 'name the two columns'

# By default a core learns at --lr-cores times a factor by the norms of the model's cores, which the checkpoints hold.
run "$COMERA" tensorize dense -o pairs --rank 4 --exclude '*embeddings*' --quiet
expect_exit 0
short=("${columns[@]}" --data train.tsv --seq 8 --batch 4 --steps 1 --quiet)
for case in 'pairs 4e-4' 'small 4e-4' 'pairs 1e-4 --core-rates uniform'; do
  read -r -a words <<< "$case"
  run "$COMERA" finetune "${words[0]}" "${short[@]}" "${words[@]:2}" -o rate --force
  expect_exit 0
  python3 - "${words[1]}" "${words[@]:2}" << 'PYTHON' || fail "$case: rate and factors"
import glob, json, sys, tomllib
def values(tables):
    for name, value in tables.items():
        yield from values(value) if isinstance(value, dict) else [(name, value)]
rate = float(dict(values(tomllib.load(open("rate/recipe.toml", "rb"))))["lr-cores"])
factors = json.load(open(glob.glob("rate/checkpoints/*/state.json")[0]))["core_rates"]
sys.exit(rate != float(sys.argv[1]) or bool(factors) == (len(sys.argv) > 2))
PYTHON
done
finish
