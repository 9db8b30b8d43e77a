#!/usr/bin/env bash
# Large inputs and false sizes never exhaust memory: each is refused or read in pieces, below a bound on the peak.
. "$(dirname "$0")/../expect.sh"
. "$(dirname "$0")/../tiny_task.sh"

# Runs a command and stores its peak memory in MiB in $peak.
run_measured() {
  last="$*"
  python3 - "$@" >"$work/.peak" <<'PY'
import resource, subprocess, sys
with open(".out", "wb") as out, open(".err", "wb") as err:
    code = subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=out, stderr=err).returncode
print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10)
PY
  read -r code peak <"$work/.peak"
}
expect_peak() { [ "$peak" -le "$1" ] || fail "at most $1 MiB at once, not $peak"; }
bound=400

# A line of 100 MB, like the text8 corpus.
python3 - <<'PY'
import random
random.seed(1)
words = ["".join(random.choice("abcdefgh") for _ in range(random.randint(1, 9))) for _ in range(5000)]
block = " ".join(random.choice(words) for _ in range(200000)) + " "
with open("line.txt", "w") as f:
    while f.tell() < 100_000_000: f.write(block)
open("short.txt", "w").write("\n".join(block[i:i + 200] for i in range(0, 200000, 200)))
PY
run "$COMERA" tokenizer train --data short.txt --kind bpe --vocab-size 300 -o pieces
expect_exit 0
run "$COMERA" tokenizer train --data short.txt --vocab-size 300 -o words
expect_exit 0
llama=(--model llama-6m --task clm --layers 1 --hidden 32 --heads 4 --key-heads 2 --intermediate 48 --positions 16
  --rank 4 --embedding-rank 4 --order 2
  --embedding-order 2)
small=(--seq 8 --batch 4 --steps 2 --quiet)
for tokenizer in pieces words; do
  run_measured "$COMERA" pretrain "${model[@]}" --task mlm --tokenizer "$tokenizer" "${small[@]}" --data line.txt \
    -o "mlm-$tokenizer"
  expect_exit 0
  expect_peak $bound
  run_measured "$COMERA" pretrain "${llama[@]}" --tokenizer "$tokenizer" "${small[@]}" --data line.txt \
    -o "clm-$tokenizer"
  expect_exit 0
  expect_peak $bound
done
run_measured "$COMERA" tokenizer train --data line.txt --sample 100 --vocab-size 300 -o learned
expect_exit 0
expect_peak $bound
run "$COMERA" pretrain "${tiny[@]}" --form dense -o dense
expect_exit 0
run_measured "$COMERA" tensorize dense --ratio 1.5 --tokenizer vocab.txt --calibrate line.txt --calibrate-tokens 256 \
  -o small
expect_exit 0
expect_peak $bound
run_measured "$COMERA" predict dense --data line.txt
expect_refused 'line\.txt: line 1: is longer than 64 MiB; break it into lines'
expect_peak $bound

# Files made to exhaust memory.
python3 - <<'PY'
import gzip, json, struct
member = gzip.compress(b"red\tround red\tand\n" * 58000)  # a MB each
with open("rows.tsv.gz", "wb") as f:
    f.write(gzip.compress(b"label\ttext\tsecond\n"))
    for _ in range(6000): f.write(member)
with open("row.tsv.gz", "wb") as f:
    f.write(gzip.compress(b"label\ttext\tsecond\nred\t"))
    part = gzip.compress(b"round " * 170000)
    for _ in range(6000): f.write(part)
open("deep.jsonl", "w").write('{"label": "red", "text": ' + "[" * 50_000_000)
open("deeper.jsonl", "w").write('{"label": "red", "text": "x", "other": ' + "[" * 50_000_000)
with open("vocabulary.txt", "w") as f:
    f.write("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n")
    block = "".join(f"w{j:07}\n" for j in range(900000))
    for _ in range(28): f.write(block)
PY
learns() {  # learns MESSAGE DATA
  run_measured "$COMERA" pretrain "${model[@]}" "${words[@]}" "${columns[@]}" --data "$2" -o new
  expect_refused "$1"
  expect_no_file new
  expect_peak $bound
}
learns 'rows\.tsv\.gz: unpacks to more than 200 times its size, which text does not; .*unpack it first' rows.tsv.gz
learns 'row\.tsv\.gz: .*(unpacks to more than 200 times|is longer than 64 MiB)' row.tsv.gz
learns "deep\.jsonl: line 1: 'text' is a list or an object" deep.jsonl
learns 'deeper\.jsonl: line 1: the JSON nests deeper than 64 levels' deeper.jsonl
run_measured "$COMERA" pretrain "${model[@]}" "${columns[@]}" --data train.tsv --steps 1 --tokenizer vocabulary.txt \
  -o new
expect_refused 'vocabulary\.txt: larger than the 33554432 bytes that such a file may have'
expect_peak 100
mkdir spoilt
cp vocab.txt spoilt
python3 -c 'print("[" * 10_000_000, end="")' >spoilt/tokenizer_config.json
run_measured "$COMERA" tokenizer encode --tokenizer spoilt
expect_refused 'tokenizer_config\.json: the JSON nests deeper than 64 levels'
expect_peak 100
python3 -c 'print("{" + " " * 50_000_000 + "}", end="")' >spoilt/tokenizer_config.json
run_measured "$COMERA" tokenizer encode --tokenizer spoilt
expect_refused 'tokenizer_config\.json: larger than the 16777216 bytes'
expect_peak 100

# A tensor with a huge number of small sizes, and sizes that only config.json claims.
python3 - <<'PY'
import struct
header = b'{"a":{"dtype":"F32","shape":[' + b"1," * 49_000_000 + b'1],"data_offsets":[0,4]}}'
open("shape.safetensors", "wb").write(struct.pack("<Q", len(header)) + header + b"\0" * 4)
PY
run_measured "$COMERA" inspect shape.safetensors
expect_refused 'shape\.safetensors: .*a shape of more than 64 sizes'
expect_peak 200
cp -r dense claims
python3 - <<'PY'
import json
config = json.load(open("claims/config.json"))
config.update(hidden_size=1 << 15, intermediate_size=1 << 15, num_attention_heads=512)
json.dump(config, open("claims/config.json", "w"))
PY
for verb in 'predict claims' 'evaluate claims --data dev.tsv' \
  'finetune claims --data train.tsv --text text --label label --steps 1 -o new' \
  'finetune dense --teacher claims --distill logits --data train.tsv --text text --steps 1 -o new' \
  'tensorize claims -o new --ratio 2 --calibrate corpus.txt'; do
  # shellcheck disable=SC2086
  run_measured "$COMERA" $verb
  expect_refused 'claims/model\.safetensors: tensor .* (GiB|MiB), of a model of [0-9.]* GiB'
  expect_peak 200
  expect_no_file new
done
finish
