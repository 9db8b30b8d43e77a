#!/usr/bin/env bash
# Folders of several families are compressed, checked, compared, exported and healed under their Hugging Face names.
. "$(dirname "$0")/../expect.sh"
make="python3 $tests/../scripts/make_checkpoint.py"
small="--layers 2 --hidden 32 --intermediate 48 --heads 4 --shards 1 --type F32"
for i in $(seq 96); do
  printf 'the cat number %s sat on the mat and saw %s dogs\n' "$i" "$((i * 7 % 13))"
done >text.txt

# gpt2's files: the 256 characters of bytes, a merge, and for RoBERTa its own pieces.
python3 - <<'END'
import json
shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
letters = [chr(b) for b in shown] + [chr(256 + i) for i in range(256 - len(shown))]
for name, pieces in (("gpt2", ["<|endoftext|>"]), ("roberta", ["<s>", "<pad>", "</s>", "<unk>", "<mask>"])):
    vocabulary = {piece: i for i, piece in enumerate([*pieces, *letters, "at"])}
    json.dump(vocabulary, open(f"{name}.json", "w"))
open("merges.txt", "w").write("#version: 0.2\na t\n")
END

# tokenizer FOLDER NAME: gives a folder the files of gpt2 or roberta.
tokenizer() { cp "$2.json" "$1/vocab.json" && cp merges.txt "$1"; }

# compress NAME: compresses it with text, and goes back.
compress() {
  run "$COMERA" tensorize "$1" -o "$1-small" --ratio 1.5 --calibrate text.txt --calibrate-tokens 1000
  expect_exit 0
  run "$COMERA" inspect "$1-small" --verify "$1"
  expect_exit 0
  run "$COMERA" export "$1-small" -o "$1-back" --to safetensors --form dense
  expect_exit 0
}

for name in mistral qwen3 gpt2; do
  # shellcheck disable=SC2086  # lists of words
  $make $name $small --vocabulary 258 --architecture $name
  tokenizer $name gpt2
  compress $name
  grep -q "\"model_type\": \"$name\"" $name-back/config.json || fail "$name keeps its type"
  run "$COMERA" evaluate $name-back --against $name-small --data text.txt --seq 32 --json
  expect_exit 0
  run "$COMERA" export $name-small -o $name-onnx --with-past
  expect_exit 0
  run "$COMERA" finetune $name-small --data text.txt --seq 16 --batch 2 --steps 2 --quiet -o $name-healed
  expect_exit 0
  run_with 'the cat' "$COMERA" predict $name-healed --max-tokens 12
  expect_exit 0
  expect_out 'the cat'
done
run "$COMERA" export gpt2 -o gpt2.gguf
expect_refused 'gpt2/config.json: model_type is gpt2; GGUF files of llama, qwen2 and qwen3 models are written'
run "$COMERA" export qwen3 -o qwen3.gguf
expect_exit 0
run "$COMERA" export qwen3.gguf -o qwen3-again --to safetensors
expect_exit 0
grep -q Qwen3ForCausalLM qwen3-again/config.json || fail "the way back names the architecture"

for name in roberta distilbert mpnet modernbert; do
  # shellcheck disable=SC2086  # lists of words
  $make $name $small --vocabulary 262 --architecture $name
  tokenizer $name roberta
  compress $name
  run "$COMERA" evaluate $name-back --against $name-small --data text.txt --json
  expect_exit 0
  run "$COMERA" export $name-small -o $name-onnx
  expect_exit 0
  run "$COMERA" finetune $name-small --teacher $name --data text.txt --task embed --distill embedding --seq 16 \
    --batch 2 --steps 2 --quiet -o $name-healed
  expect_exit 0
  grep -q "\"model_type\": \"$name\"" $name-healed/config.json || fail "$name keeps its type"
  run "$COMERA" predict $name-healed --data text.txt
  expect_exit 0
done
finish
