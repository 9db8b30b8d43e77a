#!/usr/bin/env bash
# Damaged model folders: wrong weights, wrong config.json, impossible sizes.
. "$(dirname "$0")/../expect.sh"
# shellcheck source=../tiny_task.sh
. "$tests/cli/tiny_task.sh" || exit 1

run "$COMERA" pretrain "${tiny[@]}" -o run
expect_exit 0
cat >damage.py <<'PY'
"""damage.py NAME PYTHON: writes a copy of the run as folder NAME, changed by the statements.

The statements read header (dict), order (its names), data (bytes) and config (dict). They may set length (of the
header), raw (its text) and text (of config.json).
"""
import json, os, shutil, struct, sys
name, code = sys.argv[1:]
blob = open("run/model.safetensors", "rb").read()
size = struct.unpack("<Q", blob[:8])[0]
header, data = json.loads(blob[8:8 + size]), blob[8 + size:]
order = sorted((key for key in header if key != "__metadata__"), key=lambda key: header[key]["data_offsets"])
config, length, raw, text = json.load(open("run/config.json")), None, None, None
first, second, last = header[order[0]], header[order[1]], header[order[-1]]
query = config["comera"]["tensors"]["bert.encoder.layer.0.attention.self.query"]
def poke(part, value):
    at = header[next(key for key in order if part in key)]["data_offsets"][0]
    return data[:at] + struct.pack("<f", value) + data[at + 4:]
exec(code)
raw = json.dumps(header) if raw is None else raw
shutil.copytree("run", name, ignore=shutil.ignore_patterns("checkpoints"))
with open(name + "/model.safetensors", "wb") as out:
    out.write(struct.pack("<Q", len(raw) if length is None else length) + raw.encode() + data)
with open(name + "/config.json", "w") as out:
    out.write(json.dumps(config) if text is None else text)
PY
# refused STATEMENTS REGEX [both]: evaluate refuses the changed folder; with `both`, inspect refuses it too.
refused() {
  rm -rf bad
  python3 damage.py bad "$1" || fail "damage: $1"
  run "$COMERA" evaluate bad --data dev.tsv
  expect_refused "bad/(model\.safetensors|config\.json): $2"
  [ "${3:-}" = both ] || return
  run "$COMERA" inspect bad
  expect_refused "bad(/model\.safetensors|/config\.json)?: $2"
}

refused 'length = 10**6' 'claims a header of 1000000 bytes, but only [0-9]+ follow; it is truncated' both
refused 'length = 2**63' 'claims a header of 9223372036854775808 bytes \(at most 100000000\)' both
refused 'length = 0' 'claims a header of 0 bytes; the file is damaged' both
refused 'raw = "{\"a\":"' 'not valid JSON at byte' both
refused 'data = data[:-10]' 'tensor [a-zA-Z0-9._]+: its data ends at byte [0-9]+ of [0-9]+; the file is truncated' both
refused 'data += b"1234"' '4 bytes follow the last tensor' both
refused 'second["data_offsets"] = [at - 4 for at in second["data_offsets"]]' \
  "tensor .*: its data overlaps with another tensor's" both
refused 'last["data_offsets"] = [at + 10**9 for at in last["data_offsets"]]' 'tensor .*: its data ends at byte' both
refused 'last["data_offsets"] = [at + 8 for at in last["data_offsets"]]; data += b"12345678"' \
  'tensor .*: 8 unused bytes lie before its data' both
refused 'first["dtype"] = "F12"' "tensor .*: unknown dtype 'F12'; convert it" both
refused 'first["shape"] = [2**60]' 'tensor .*: F32 \[1152921504606846976\] needs [0-9]+ bytes, but data_offsets are' \
  both
refused 'first["shape"] = [2**40, 2**40]' 'tensor .*: its shape has more than 2\^60 elements' both
refused 'first["shape"] = [-1]' 'tensor .*: shape holds something other than a whole number from 0' both
refused 'raw = json.dumps(header)[:-1] + ", " + json.dumps(order[0]) + ": {}}"' 'key ".*" stands there twice' both
refused 'header["other"] = header.pop(order[0])' 'tensor .* is missing; the file belongs to another model'
refused 'data = poke("query.rank.0", float("nan"))' 'tensor .*query\.rank\.0: its element 0 is nan; the file is damaged'
refused 'data = poke("query.tt.1", float("inf"))' 'tensor .*query\.tt\.1: its element 0 is inf'
refused 'core = header[next(k for k in order if "query.tt.0" in k)]; core["shape"].reverse()' \
  'tensor .*query\.tt\.0:? has shape \[[0-9, ]+\], but'

refused 'text = ""' 'not valid JSON at byte 1' both
refused 'text = "[]"' 'is not a JSON object' both
refused 'config["hidden_act"] = "relu"' "hidden_act is 'relu'; only 'gelu' is supported"
refused 'config["position_embedding_type"] = "relative_key"' \
  "position_embedding_type is 'relative_key'; only 'absolute'"
refused 'config["is_decoder"] = True' 'is_decoder is true; only false is supported'
refused 'config["model_type"] = "t5"' "model_type is 't5'; supported here are"
refused 'config["architectures"] = ["BertForQuestionAnswering"]' \
  'architecture BertForQuestionAnswering is not supported'
refused 'config["hidden_size"] = 48' 'comera block: .* is a table of shape'
refused 'config["hidden_size"] = "32"' 'hidden_size is "32"; it must be a whole number'
refused 'config["num_attention_heads"] = 3' '.*hidden_size 32 is not a multiple of num_attention_heads 3'
refused 'config["vocab_size"] = 10**15' '.*vocab_size is 1000000000000000; it must lie between'
refused 'config["num_hidden_layers"] = 2' 'tensor bert\.encoder\.layer\.1\..* is missing'
refused 'config["id2label"] = {"0": "red", "5": "blue"}' 'id2label has no text for "1"'
refused 'config["id2label"]["1"] = config["id2label"]["0"]' "id2label has '.*' twice; labels must differ"
refused 'config["num_labels"] = 7' 'num_labels is 7, but id2label has 3 entries'
refused 'config["hidden_dropout_prob"] = 1.5' '.*dropout 1.5 must be at least 0 and less than 1'
refused 'query["in_modes"] = [4, 4]' \
  '.*query: in_modes and out_modes \[4, 4, 4, 8\] multiply to 16 and 32, not to the 32 inputs' both
refused 'query["in_modes"] = [2**62, 4]' '.*query: "in_modes" is not a list of whole numbers from 1' both
refused 'query["ranks"] = [1, 4, 5, 4, 1]' '.*query: rank 5 at bond 2 is above the initial rank 4' both
refused 'query["ranks"] = [1, 4, 4, 1]' '.*query: "ranks" \[1, 4, 4, 1\] must be 5 numbers' both
refused 'query["kind"] = "cp"' '.*query: "kind" is "cp", which this program does not know' both
refused 'query["colour"] = 1' '.*query: unknown key "colour"' both
refused 'config["comera"]["version"] = 99' 'comera: version 99 is not one this program reads' both

run "$COMERA" evaluate nowhere --data dev.tsv
expect_refused 'nowhere: no such folder; name a model folder or a run folder'
run "$COMERA" evaluate run/checkpoints/step-00000004 --data dev.tsv
expect_refused 'this folder holds none of tokenizer\.json, vocab\.txt.*; name one with --tokenizer'

# A tokenizer with more ids than the model has rows is refused before text is read. A folder without the recipe of its
# run does not know which vocabulary it was trained with.
mkdir model && cp run/config.json run/model.safetensors model
{ cat run/vocab.txt && printf 'unknown_one\nunknown_two\n'; } >more.txt
rows=$(grep -c '' run/vocab.txt)
for command in 'evaluate model --data dev.tsv' 'predict model' \
  'tensorize model --again --ratio 1.2 --calibrate dev.tsv -o new'; do
  # shellcheck disable=SC2086  # a list of words
  run "$COMERA" $command --tokenizer more.txt
  expect_refused "more.txt: the tokenizer has $((rows + 2)) pieces, the model (has|knows) $rows; use the tokenizer that"
  expect_no_file new
  expect_no_file new.partial
done

# Sizes on the command line.
sizes() {
  local message=$1
  shift
  refuses "$message" "${columns[@]}" --data train.tsv "$@"
}
sizes 'self\.query \(--rank\): rank 4000 exceeds the largest possible 32 at bond 2; use rank 32 or fewer' --rank 4000
sizes 'word_embeddings \(--embedding-rank\): rank 4000 exceeds the largest possible 12 at bond 1' --embedding-rank 4000
sizes '--modes 8 4 4 9: no weight has that size; in modes must multiply' --modes '8x4|4x9'
sizes "'4' has 1 sizes; write as many in modes as out modes" --modes 4
sizes "no weight is named like 'nothing\.\*'" --layer 'nothing.*=rank:3'
sizes "there is no form 'ttt'; use dense, tt or lowrank" --layer 'bert.*=form:ttt'
sizes 'hidden_size 32 is not a multiple of num_attention_heads 3' --heads 3
sizes 'sequences of 17 tokens are longer than the model.s 16 positions; use --seq 16 or --positions 17' --seq 17
sizes '--target-ratio 1000000 cannot be reached: .* limits the ratio to [0-9.]+' --target-ratio 1000000
sizes '--target-size of 1 bytes cannot be reached: .* takes [0-9]+ bytes' --target-size 1
sizes '--target-fraction 0 cannot be reached' --target-fraction 0
sizes 'the model has no ranks that could be cut; leave out the target, or use --form tt' --form dense \
  --target-fraction 0.5
sizes 'a target needs ranks that may be cut; leave out --no-adapt-ranks' --no-adapt-ranks --target-fraction 0.5
sizes "there is no preset 'bert'; use one of" --model bert
finish
