#!/usr/bin/env bash
# LoRA adapters: extracted from two models, merged into one of them by every verb, and written beside a quantised base.
. "$(dirname "$0")/../expect.sh"
make="python3 $tests/../scripts/make_checkpoint.py"
# shellcheck disable=SC2086  # lists of words
$make base --layers 2 --hidden 64 --intermediate 96 --vocabulary 100 --heads 4 --architecture llama --shards 1 --type F32
python3 - <<'PY'
words = ["<pad>", "<s>", "</s>"] + [chr(97 + i) for i in range(26)] + ["##" + chr(97 + i) for i in range(26)]
open("base/vocab.txt", "w").write("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + words[3:]) + "\n")
open("text.txt", "w").write("".join(f"ab {'cde fgh'[i % 7:]} ij klm nop\n" for i in range(200)))
PY
run "$COMERA" finetune base -o tuned --data text.txt --seq 16 --batch 4 --steps 6 --lr 1e-3 --lr-cores 1e-3
expect_exit 0

# All of the difference: the smaller side is 64.
run "$COMERA" extract base tuned -o whole --rank 64 --json
expect_exit 0
expect_err 'tensors differ that are no linear weights.*layernorm'
expect_json "len(d['layers']) >= 14 and all(l['rank'] <= 64 and l['rel_error'] < 1e-6 < l['change'] for l in d['layers'])"
expect_json "d['bytes'] == $(stat -c %s whole/adapter_model.safetensors) and 'model.norm.weight' in d['others']"
expect_file whole/report.json
# The smallest rank within a tolerance; the merged weights keep it.
run "$COMERA" extract base tuned -o small --tol 0.01 --json
expect_exit 0
expect_json "all(l['rel_error'] <= 0.01 for l in d['layers']) and max(l['rank'] for l in d['layers']) < 64"
run "$COMERA" export base --adapter small -o merged --to safetensors
expect_exit 0
run python3 - <<'PY'
import json, struct
def tensors(folder):
    data = open(folder + "/model.safetensors", "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    return {name: struct.unpack(f"<{(e['data_offsets'][1] - e['data_offsets'][0]) // 4}f",
                                data[8 + size + e["data_offsets"][0]:8 + size + e["data_offsets"][1]])
            for name, e in json.loads(data[8:8 + size]).items() if name != "__metadata__"}
tuned, merged, base = map(tensors, ("tuned", "merged", "base"))
for layer in json.load(open("small/report.json"))["layers"]:
    name = layer["name"] + ".weight"
    size = sum(x * x for x in tuned[name]) ** .5
    error = sum((x - y) ** 2 for x, y in zip(tuned[name], merged[name])) ** .5 / size
    assert abs(error - layer["rel_error"]) <= 1e-6, (name, error, layer)
    if layer["rank"] == 0:
        assert merged[name] == base[name], name
PY
expect_exit 0
run "$COMERA" extract base tuned --rank 4 --dry-run --json
expect_json "d['output'] is None and all(l['rank'] == 4 and l['rel_error'] is None for l in d['layers'])"

# Every verb gives the same result with --adapter and for the merged folder.
run "$COMERA" evaluate base --adapter small --data text.txt --seq 16 --json
cp .out with.json
run "$COMERA" evaluate merged --data text.txt --seq 16 --json
expect_json "d['loss'] == json.load(open('with.json'))['loss']"
run "$COMERA" evaluate base --data text.txt --seq 16 --json
expect_json "d['loss'] != json.load(open('with.json'))['loss']"
run "$COMERA" evaluate base --adapter small --against merged --data text.txt --require 'hidden_cosine>=0.999999'
expect_exit 0
for model in "base --adapter small" merged; do
  name=${model%% *}
  # shellcheck disable=SC2086
  run "$COMERA" tensorize $model -o "$name-tt" --budget 256000 --exclude '*embed*' --calibrate text.txt
  expect_exit 0
  # shellcheck disable=SC2086
  run "$COMERA" finetune $model -o "$name-more" --data text.txt --seq 16 --batch 4 --steps 2
  expect_exit 0
  # shellcheck disable=SC2086
  "$COMERA" predict $model --max-tokens 5 <<<"ab" >"$name-said" 2>/dev/null || fail "$name continues a text"
  # shellcheck disable=SC2086
  run "$COMERA" export $model -o "$name.onnx"
  expect_exit 0
done
expect_same_bytes base-tt/model.safetensors merged-tt/model.safetensors
expect_same_bytes base-more/model.safetensors merged-more/model.safetensors
expect_same_bytes base-said merged-said
expect_same_bytes base.onnx merged.onnx
run "$COMERA" inspect base-tt --verify merged
expect_exit 0
run "$COMERA" inspect base-tt --verify base --adapter small --calibrate text.txt
expect_exit 0
run "$COMERA" inspect base-tt --verify base
expect_exit 1
expect_err 'not the one that it was made from'
run "$COMERA" inspect base-tt --adapter small
expect_exit 2
expect_err '--adapter belongs to the MODEL of --verify'

# Corrections of a quantised model become an adapter of its base.
run "$COMERA" tensorize tuned -o bits --bits 4 --rank 4 --exclude '*embed*' --calibrate text.txt
expect_exit 0
run "$COMERA" export bits -o peft --to peft --json
expect_exit 0
expect_json "d['corrections'] == 14 and d['merged'] == [] and d['largest_difference'] <= d['bound']"
expect_json "d['bytes'] == $(stat -c %s peft/model.safetensors)"
expect_json "d['bytes_adapter'] == $(stat -c %s peft/adapter/adapter_model.safetensors)"
run "$COMERA" evaluate peft --adapter peft/adapter --against bits --data text.txt --require 'hidden_cosine>=0.99999'
expect_exit 0
run "$COMERA" export bits -o none --to peft --dry-run --json
expect_json "d['corrections'] == 14"
expect_no_file none

# Adapters that cannot be merged, and outputs that cannot be written, are refused.
run "$COMERA" evaluate base --adapter base --data text.txt
expect_exit 2
expect_err 'base: holds no adapter_config.json'
# shellcheck disable=SC2086
$make other --layers 2 --hidden 32 --intermediate 96 --vocabulary 100 --heads 4 --architecture llama --shards 1 --type F32
run "$COMERA" export other --adapter small -o x --to safetensors
expect_exit 2
expect_err 'it is an adapter of another model'
run "$COMERA" extract base other -o x --rank 2
expect_exit 2
expect_err 'it is another model'
run "$COMERA" extract base bits -o x --rank 2
expect_exit 2
run "$COMERA" extract base base -o x --rank 2
expect_exit 2
expect_err 'no linear weight differs'
run "$COMERA" extract base tuned -o x --rank 2000
expect_exit 2
expect_err 'rank 2000 exceeds the size of every weight'
run "$COMERA" extract base tuned -o x
expect_exit 2
expect_err 'give one of --rank and --tol'
run "$COMERA" extract base tuned -o small --rank 2
expect_exit 2
expect_err 'exists already'
run "$COMERA" export base -o x --to peft
expect_exit 2
expect_err 'none of its weights has a low-rank correction'
expect_no_file x
finish
