#!/usr/bin/env bash
# A GGUF file is a model in every verb that takes a folder, and its answers are those of the folder that export makes
# of it, to the bit.
. "$(dirname "$0")/../expect.sh"
python3 "$tests/../scripts/make_checkpoint.py" llama --layers 2 --hidden 64 --intermediate 96 --vocabulary 260 \
  --heads 4 --architecture llama --shards 1 --type F32
# A tokenizer of bytes: the characters that byte-level BPE writes for them, and four more pieces.
python3 - <<'PY'
import json
plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
rest = [b for b in range(256) if b not in plain]
vocabulary = {chr(b): i for i, b in enumerate(plain)} | {chr(256 + i): len(plain) + i for i in range(len(rest))}
for piece in ("th", "he", "in", "<end>"):
    vocabulary[piece] = len(vocabulary)
byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
end = {"id": 259, "content": "<end>", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
       "special": True}
model = {"type": "BPE", "vocab": vocabulary, "merges": ["t h", "h e", "i n"]}
json.dump({"version": "1.0", "added_tokens": [end], "normalizer": None, "pre_tokenizer": byte_level,
           "post_processor": None, "decoder": byte_level, "model": model}, open("llama/tokenizer.json", "w"))
json.dump({"eos_token": "<end>"}, open("llama/tokenizer_config.json", "w"))
with open("text.txt", "w") as text:
    for i in range(60):
        print("the thing in the inn, number", i, file=text)
PY

# A model with 4-bit weights, as one file, and the folder of it.
run "$COMERA" tensorize llama -o bits --bits 4 --exclude '*embed*'
expect_exit 0
run "$COMERA" export bits -o model.gguf
expect_exit 0
run "$COMERA" export model.gguf -o folder --to safetensors --json
expect_exit 0
expect_json "d['quantised'] == 15 and d['tokenizer']"

# same VERB WORDS...: the JSON of both models, without times and names.
same() {
  local verb=$1
  shift
  for model in model.gguf folder; do
    run "$COMERA" "$verb" "$model" "$@" --json
    expect_exit 0
    python3 - >"$model.json.txt" "$work/.out" <<'PY'
import json, sys
answer = json.loads(open(sys.argv[1]).read())
print(json.dumps({key: answer[key] for key in sorted(answer)
                  if key not in ("model", "seconds", "tokens_per_second", "ms", "memory")}))
PY
  done
  expect_same_bytes model.gguf.json.txt folder.json.txt
}
same evaluate --data text.txt --seq 32
head -n 2 text.txt >prompts.txt
for model in model.gguf folder; do
  "$COMERA" predict "$model" --max-tokens 6 <prompts.txt >"$model.said" 2>/dev/null || fail "$model continues texts"
done
expect_same_bytes model.gguf.said folder.said

# Compression, training and export give the same result for the file and for the folder.
for model in model.gguf folder; do
  run "$COMERA" tensorize "$model" -o "$model-small" --ratio 1.3 --exclude '*embed*' --calibrate text.txt
  expect_exit 0
  run "$COMERA" finetune "$model" -o "$model-tuned" --data text.txt --seq 32 --batch 2 --steps 2 --teacher "$model"
  expect_exit 0
  run "$COMERA" export "$model" -o "$model-graph.onnx"
  expect_exit 0
  run "$COMERA" export "$model" -o "$model-again.gguf"
  expect_exit 0
done
for file in model.safetensors tokenizer.json config.json; do
  expect_same_bytes "model.gguf-small/$file" "folder-small/$file"
done
expect_same_bytes model.gguf-tuned/model.safetensors folder-tuned/model.safetensors
run "$COMERA" inspect model.gguf-small --verify model.gguf
expect_exit 0
run "$COMERA" inspect model.gguf-small --verify folder
expect_exit 0
run "$COMERA" evaluate model.gguf-small --against model.gguf --data text.txt --json
expect_exit 0
run "$COMERA" evaluate llama --tokenizer model.gguf --data text.txt --seq 32
expect_exit 0
run "$COMERA" evaluate model.gguf --against folder --data text.txt --require 'hidden_cosine>=0.999999'
expect_exit 0
printf 'GGUF\003\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' > empty.gguf
run "$COMERA" inspect empty.gguf
expect_refused 'empty.gguf: holds no tensors, so it is no model'

# Positions of kind llama3: the constants come back from the divisors of the file. A key that no model here has is
# refused.
cp -r llama scaled
python3 - <<'PY'
import json
config = json.load(open("scaled/config.json"))
config["rope_scaling"] = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                          "original_max_position_embeddings": 64}
json.dump(config, open("scaled/config.json", "w"))
PY
run "$COMERA" export scaled -o scaled.gguf
expect_exit 0
for model in scaled scaled.gguf llama; do
  "$COMERA" evaluate "$model" --data text.txt --seq 32 --json >"$model.json" 2>/dev/null || fail "$model is evaluated"
done
python3 - <<'PY'
import json
folder, file, plain = (json.load(open(f"{name}.json"))["loss"] for name in ("scaled", "scaled.gguf", "llama"))
assert folder == file != plain, (folder, file, plain)
data = open("scaled.gguf", "rb").read()
open("unknown.gguf", "wb").write(data.replace(b"llama.feed_forward_length", b"llama.something_else_here"))
open("partial.gguf", "wb").write(data.replace(b"llama.rope.dimension_count\4\0\0\0\x10", b"llama.rope.dimension_count\4\0\0\0\x08"))
PY
run "$COMERA" evaluate unknown.gguf --data text.txt
expect_refused 'key llama.something_else_here is not known'
run "$COMERA" evaluate partial.gguf --data text.txt
expect_refused 'key llama.rope.dimension_count is 8, and 16 alone is read'

# SentencePiece's BPE: the file has the tokenizer of the folder, and so has the folder of the file.
cp -r llama pieces
rm pieces/tokenizer*
python3 - <<'PY'
import struct

def field(number, value):
    if isinstance(value, bytes):
        assert len(value) < 128
        return bytes([number << 3 | 2, len(value)]) + value
    return bytes([number << 3 | 5]) + struct.pack("<f", value) if isinstance(value, float) else bytes([number << 3, value])

pieces = [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3)]
texts = ["▁t", "he", "in", "▁the", "▁in", *"▁thenumbrigk0123456789,"]
pieces += [(text, -1.0 - i, 1) for i, text in enumerate(dict.fromkeys(texts))]
pieces += [(f"unused{i}", -99.0, 5) for i in range(len(pieces), 260)]
assert len(pieces) == 260
with open("pieces/tokenizer.model", "wb") as model:
    for text, score, kind in pieces:
        entry = field(1, text.encode()) + field(2, score) + field(3, kind)
        model.write(bytes([1 << 3 | 2, len(entry)]) + entry)
    model.write(field(2, field(3, 2)) + field(3, field(1, b"identity") + field(3, 1) + field(4, 0)))
PY
run "$COMERA" export pieces -o pieces.gguf
expect_exit 0
run "$COMERA" export pieces.gguf -o unpacked --to safetensors
expect_exit 0
for tokenizer in pieces pieces.gguf unpacked; do
  "$COMERA" tokenizer encode --tokenizer "$tokenizer" <text.txt >"$tokenizer.ids" || fail "$tokenizer encodes lines"
done
[ "$(cut -d ' ' -f 1 pieces.ids | sort -u)" = 6 ] || fail "lines begin with the piece of 'the'"
expect_same_bytes pieces.ids pieces.gguf.ids
expect_same_bytes pieces.ids unpacked.ids
for model in pieces pieces.gguf; do
  "$COMERA" predict "$model" --max-tokens 6 <prompts.txt >"$model.said" 2>/dev/null || fail "$model continues texts"
done
expect_same_bytes pieces.said pieces.gguf.said
finish
