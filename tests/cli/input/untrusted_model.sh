#!/usr/bin/env bash
# Model folders of unknown origin: the same chain rules in every verb, unused tensors, control characters in names,
# cyclic links.
. "$(dirname "$0")/../expect.sh"
# shellcheck source=../tiny_task.sh
. "$tests/cli/tiny_task.sh" || exit 1

run "$COMERA" pretrain "${tiny[@]}" --form tt -o run
expect_exit 0
cat >change.py <<'PY'
"""change.py NAME PYTHON: writes a copy of the run as folder NAME, changed by the statements.

The statements read and change tensors (name: [dtype, shape, bytes]) and config.
"""
import json, shutil, struct, sys
name, code = sys.argv[1:]
blob = open("run/model.safetensors", "rb").read()
size = struct.unpack("<Q", blob[:8])[0]
header, data = json.loads(blob[8:8 + size]), blob[8 + size:]
metadata = header.pop("__metadata__")
tensors = {k: [v["dtype"], v["shape"], data[slice(*v["data_offsets"])]] for k, v in header.items()}
config = json.load(open("run/config.json"))
query = "bert.encoder.layer.0.attention.self.query"
chain = config["comera"]["tensors"][query]
exec(code)
header, data = {"__metadata__": metadata}, b""
for key, (dtype, shape, raw) in tensors.items():
    header[key] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
    data += raw
raw = json.dumps(header).encode()
shutil.copytree("run", name, ignore=shutil.ignore_patterns("checkpoints", "recipe.toml"))
open(name + "/model.safetensors", "wb").write(struct.pack("<Q", len(raw)) + raw + data)
json.dump(config, open(name + "/config.json", "w"))
PY
changed() {
  rm -rf bad
  python3 change.py bad "$1" || fail "change: $1"
}

# A tensor with a chain's name prefix that is no part of the chain is an ordinary tensor: exported, and named if unused.
changed 'tensors[query + ".tt.norm.weight"] = tensors[query + ".rank.weight"] = ["F32", [1], b"\0\0\x80?"]'
run "$COMERA" export bad -o dense --to safetensors
expect_exit 0
expect_err 'bad: 2 of its tensors are not used.*query\.rank\.weight.*query\.tt\.norm\.weight'
[ "$(grep -c 'are not used' .err)" = 1 ] || fail 'the source is named, the folder that is being written is not'
run "$COMERA" inspect dense --json
expect_json "{layer['name'] for layer in d['layers']} >= {'bert.encoder.layer.0.attention.self.query.' + end \
    for end in ('weight', 'tt.norm.weight', 'rank.weight')}"
run "$COMERA" evaluate bad --data dev.tsv "${columns[@]}"
expect_exit 0
expect_err 'bad: 2 of its tensors are not used, because this model has no such weights: .*query\.rank\.weight'
# --quiet hides no warning; an answer is that of a part of the model.
for verb in 'inspect bad' "finetune bad --data train.tsv ${columns[*]} --steps 1 -o further --quiet" \
  "finetune bad --data train.tsv --text text --label label --steps 1 -o anew --quiet --new-head" \
  'evaluate run --against bad --data dev.tsv --quiet'; do
  # shellcheck disable=SC2086  # several words
  run "$COMERA" $verb
  expect_exit 0
  expect_err '^warning: bad: 2 of its tensors are not used, because this model has no such weights: .*query'
done
run "$COMERA" evaluate run --data dev.tsv
expect_exit 0
expect_no_err
run "$COMERA" inspect run
expect_exit 0
expect_no_err

# A chain with and without diagonals at once, two chains of one weight, cores that config.json does not describe.
for change in 'chain["diagonals"] = "folded"' \
  'config["comera"]["tensors"][query + ".weight"] = {**chain, "bare": True}' \
  'tensors[query + ".tt.9"] = ["F32", [1], b"\0\0\x80?"]' \
  'del config["comera"]["tensors"][query]'; do
  changed "$change"
  for verb in "inspect bad" "export bad -o new --to safetensors" "export bad -o new.onnx" \
    "evaluate bad --data dev.tsv ${columns[*]}" \
    "finetune bad --data train.tsv ${columns[*]} --steps 1 -o new" "tensorize bad -o new --ratio 2"; do
    # shellcheck disable=SC2086  # several words
    run "$COMERA" $verb
    expect_refused 'bad(/model\.safetensors|/config\.json)?: .*query'
    expect_no_file new
  done
done

# Sizes and numbers that no model has.
refused() {
  changed "$1"
  run "$COMERA" evaluate bad --data dev.tsv "${columns[@]}"
  expect_refused "$2"
}
refused 'chain["ranks"] = chain["initial_ranks"] = [1, 2**40, 2**40, 2**40, 1]' \
  'query: ranks .* larger than 2\^40 elements'
refused 'config["layer_norm_eps"] = -1' "the norms' epsilon -1 must lie between"
refused 'config["layer_norm_eps"] = 1e308' "the norms' epsilon 1e308 must lie between"
refused 'config["pad_token_id"] = -2**63' 'pad_token_id is -9223372036854775808; no size or id is that large'
refused 'config["num_hidden_layers"] = 4096' 'tensor bert\.encoder\.layer\.1\..* is missing'
changed 'for bias in "classifier.bias", "bert.embeddings.LayerNorm.bias":
    tensors[bias][2] = b"\xff\xff\x7f\x7f" * (len(tensors[bias][2]) // 4)'
run "$COMERA" evaluate bad --data dev.tsv "${columns[@]}"
expect_exit 1
expect_err 'its answer is not a finite number'
expect_no_out
run_with $'round red\n' "$COMERA" predict bad
expect_exit 1
expect_err 'its answer is not a finite number'

# A label or a name with terminal control sequences.
changed 'labels = {str(i): f"\x1b]0;{i}\x07\u009b2J" for i in range(3)}
config["id2label"] = labels; config["label2id"] = {v: int(k) for k, v in labels.items()}'
run_with $'round red\n' "$COMERA" predict bad
expect_exit 0
expect_out '^\\x1b\]0;[012]\\x07\\xc2\\x9b2J'
if LC_ALL=C grep -qP '\x1b|\x9b' .out; then fail 'no control character on stdout'; fi
changed 'config["id2label"]["1"] = config["id2label"]["0"] = "\x1b[2J"'
run "$COMERA" evaluate bad --data dev.tsv "${columns[@]}"
expect_refused "id2label has '.x1b\[2J' twice"

# An output that the user named reaches the terminal without control characters.
run "$COMERA" export run -o $'d\x1b[31mx' --to safetensors
expect_exit 0
expect_out '^d.x1b\[31mx  dense safetensors'
run "$COMERA" tensorize $'d\x1b[31mx' -o $'t\x1b[31mx' --rank 4
expect_exit 0
expect_out '^t.x1b\[31mx: '

# Cyclic links and names of 5,000 letters, in every place for a path.
ln -s circle circle
long=$(printf 'a%.0s' $(seq 5000))
for path in circle circle/inside "$long" "$long/b"; do
  for verb in "inspect PATH" "export PATH -o new" "export run -o PATH" "evaluate PATH --data dev.tsv" \
    "evaluate run --data PATH" \
    "predict PATH" "tensorize PATH -o new --ratio 2" "tensorize run -o PATH --ratio 2" "pretrain ${tiny[*]} -o PATH" \
    "finetune PATH -o new --data train.tsv" \
    "tokenizer train PATH -o new";  do
    # shellcheck disable=SC2086  # several words
    run "$COMERA" ${verb//PATH/$path}
    [ "$code" = 1 ] || [ "$code" = 2 ] || fail 'exit code 1 or 2'
    if grep -q 'bug' .err; then fail 'no [bug]'; fi
  done
done
finish
