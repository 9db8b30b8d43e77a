#!/usr/bin/env bash
# Typical first commands: each works, or its message gives the true reason and the remedy.
. "$(dirname "$0")/../expect.sh"
. "$(dirname "$0")/../tiny_task.sh"

go=(--seq 8 --batch 4 --steps 4 --threads 2 --quiet)
run "$COMERA" pretrain "${tiny[@]}" -o dense --form dense
expect_exit 0
run "$COMERA" finetune dense --task embed --teacher dense --distill hidden "${go[@]}" --data corpus.txt -o body
expect_exit 0

# --label selects a task with labels, whatever the model's task was. A dry run needs no more options than the run.
run "$COMERA" finetune body "${go[@]}" --data train.tsv --text text --label label --dry-run
expect_exit 0
run "$COMERA" finetune body "${go[@]}" --data train.tsv --text text --label label -o labelled
expect_exit 0
grep -q '"0": "blue"' labelled/config.json || fail "the labels of the column are in config.json"
run "$COMERA" finetune body "${go[@]}" --label label --dry-run
expect_exit 0
sed 's/^red/0.5/; s/^green/1/; s/^blue/2.25/' train.tsv >scores.tsv
run "$COMERA" finetune body "${go[@]}" --data scores.tsv "${columns[@]}" -o scores
expect_exit 0
grep -q '"problem_type": "regression"' scores/config.json || fail "real labels are learned as numbers"
run "$COMERA" finetune body --task classify "${go[@]}" --data scores.tsv "${columns[@]}" -o classes
expect_exit 0
run_refused 'teacher is missing: body gives embeddings.*to learn labels, name their column with --label' finetune body \
  "${go[@]}" --data corpus.txt
run_refused 'cannot learn --task clm; start from a decoder' finetune dense --task clm "${go[@]}" --data corpus.txt
run "$COMERA" evaluate body --data train.tsv --text text --label label
expect_refused "body gives embeddings, .*--text names 'text' alone; \
name the two columns .*comera finetune body --label COLUMN"
run "$COMERA" evaluate body --data train.tsv --text text,second
expect_refused 'name the column with their score with --label, or measure pairs without a score with --task pairs'

# A run resumes with the verb that started it.
for folder in /nope nope; do
  for verb in finetune pretrain; do
    run "$COMERA" $verb --resume $folder
    expect_refused "--resume $folder: no such folder; name the folder of a run"
  done
  run "$COMERA" --resume $folder
  expect_refused "--resume $folder: no such folder"
done
run "$COMERA" finetune --resume "$PWD"
expect_refused 'there is no run to resume in that folder; it has no recipe.toml'
run "$COMERA" finetune dense "${go[@]}" --steps 6 --save-every 3 "${columns[@]}" --data train.tsv -o on
expect_exit 0
for way in 'pretrain --resume again' 'finetune --resume again' '--resume again' '--resume=again' \
  'pretrain -o again --resume'; do
  cp -r on again
  rm -r again/checkpoints/step-*6 again/model.safetensors
  # shellcheck disable=SC2086
  run "$COMERA" $way --threads 1
  expect_exit 0
  expect_same_bytes again/model.safetensors on/model.safetensors
  case "$way" in
    pretrain*) expect_err 'again is a run of finetune: it continues as comera finetune --resume again' ;;
  esac
  rm -r again
done
run "$COMERA" --resume
expect_refused '--resume needs the folder of a run'
for file in corpus.txt on/recipe.toml; do
  for verb in finetune pretrain ''; do
    # shellcheck disable=SC2086
    run "$COMERA" $verb --resume $file
    [ $file = corpus.txt ] || expect_refused "--resume $file: is a file; name the folder of a run: on$"
    [ $file != corpus.txt ] || expect_refused "--resume $file: is a file; name the folder of a run$"
  done
done

# A model of images comes from pretrain; a preset is no folder, and a folder no preset.
run_refused 'dense reads no images; .*comera pretrain --model vit-mini' finetune dense --task image --steps 1 \
  --data corpus.txt
run_refused 'vit-mini: no such folder; .*comera pretrain --model vit-mini' finetune --model vit-mini "${go[@]}" \
  --data corpus.txt
run_refused "there is no preset 'dense'; .* is trained further by .comera finetune FOLDER.$" pretrain --model dense \
  "${words[@]}" --data corpus.txt
run_refused "there is no preset 'some/model-v1.5'; .* FOLDER.; .*hf download some/model-v1.5" pretrain \
  --model some/model-v1.5 "${words[@]}" --data corpus.txt

# The model twice.
run_refused 'MODEL and --model mean the same, but MODEL is dense and --model is body; leave one out' finetune dense --model body \
  "${go[@]}" --data train.tsv "${columns[@]}"
run "$COMERA" finetune dense --model dense "${go[@]}" --data train.tsv "${columns[@]}" --dry-run
expect_exit 0

# From another folder.
mkdir elsewhere
run env -C elsewhere "$COMERA" --resume ../on
expect_refused 'dense: no such file here; the paths in ../on/recipe.toml count from the folder where the run started'

# The error names the format of a file that is no checkpoint.
printf 'GGUF\3\0\0\0\1\0\0\0\0\0\0\0' >model.gguf
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 90868376\n' >pointer.safetensors
printf 'PK\3\4\0\0\0\0\0\0\0\0' >weights.safetensors
printf '<!DOCTYPE html><html><body>404' >page.safetensors
printf '\n\016\n\005<unk>\025\0\0\0\0\030\002' >tokenizer.model
printf '\211PNG\r\n\032\n\0\0\0\rIHDR' >picture.png
printf '\033\0\0\0\0\0\0\0\005\0\0\0<unk>' >tokenizer.bin
printf '\001%.0s' $(seq 20) >unknown.bin
while IFS='|' read -r file words; do
  run "$COMERA" inspect "$file"
  expect_refused "$file: is $words"
done <<'EOF'
dense/config.json|JSON text, no safetensors file; name the folder that it lies in
vocab.txt|text, no safetensors file
pointer.safetensors|a pointer of Git LFS, not the file itself.*git lfs pull
weights.safetensors|a zip archive, no safetensors file; PyTorch's pickled weights are such files, and opening one can run any code
page.safetensors|a web page.*fetch the file again
tokenizer.model|a SentencePiece model, which is a tokenizer, no safetensors file; name the folder that it lies in
picture.png|a PNG image, no safetensors file
tokenizer.bin|a vocabulary of llama2.c, no safetensors file
unknown.bin|no safetensors file; by its name it holds pickled weights, which are not read
EOF
# Weights alone where a folder is wanted.
for call in "export -o made" "export -o made.gguf" "evaluate --data train.tsv" predict \
  "tensorize -o made --ratio 2 --budget-of onnx" "tensorize -o made --ratio 2 --calibrate corpus.txt" \
  "finetune -o made --data train.tsv" "evaluate dense --data corpus.txt --against"; do
  # shellcheck disable=SC2086  # a verb and its options
  run "$COMERA" $call dense/model.safetensors </dev/null
  expect_refused 'dense/model.safetensors: is .*; name the folder that it lies in: dense$'
done
for call in inspect "export -o made --to safetensors" "export -o made" "evaluate --data train.tsv" "predict" \
  "tensorize -o made --ratio 2" "finetune -o made --data train.tsv" "evaluate dense --data corpus.txt --against" \
  "evaluate dense --data corpus.txt --tokenizer"; do
  # shellcheck disable=SC2086  # a verb and its options
  run "$COMERA" $call model.gguf </dev/null
  expect_refused 'model.gguf: byte 16: claims 1 tensors, but only 0 bytes follow'
done

# For a model name of the hub the error shows the command that downloads it. A path gets no such hint.
hint='hf download some/model-v1.5 --local-dir model-v1.5'
for call in inspect "evaluate --data train.tsv" predict "export -o out" "tensorize -o out --ratio 2" \
  "finetune -o out --data train.tsv" \
  "finetune dense -o out --data train.tsv --text text --teacher" "evaluate dense --data corpus.txt --against"; do
  # shellcheck disable=SC2086
  run "$COMERA" $call some/model-v1.5
  expect_refused "$hint"
done
# The same hint for other options that take a path. Data files come from repositories of data sets.
for call in "tensorize dense -o out --ratio 2 --calibrate" \
  "tensorize dense -o out --ratio 2 --calibrate corpus.txt --tokenizer" \
  "finetune dense -o out --text text --label label --steps 1 --data" \
  "finetune dense -o out --text text --label label --steps 1 --data train.tsv --dev" \
  "evaluate dense --data" "predict dense --data" "tokenizer train -o out --vocab-size 50 --data" \
  "tokenizer encode --tokenizer" "evaluate dense --data corpus.txt --adapter" "evaluate dense --data train.tsv --tokenizer"; do
  # shellcheck disable=SC2086
  run "$COMERA" $call some/model-v1.5
  expect_refused 'hf download some/model-v1.5 (--repo-type dataset )?--local-dir model-v1.5'
done
mkdir some  # now the name is a path of this machine
run "$COMERA" predict dense --data some/texts
expect_refused 'some/texts: no such file; check the path$'
rmdir some
run "$COMERA" inspect ./some/model
expect_refused 'no such file or folder; check the path$'

# A file of options names its verb, and no key of another verb is looked at before it.
"$COMERA" tensorize --ratio 3 --dump-config >tensorize.toml
"$COMERA" finetune dense --data train.tsv --teacher dense --dump-config >finetune.toml
while read -r verb file other; do
  run "$COMERA" "$verb" --config "$file"
  expect_refused "$file:2: verb: the file is for .comera $other., not for .comera $verb."
done <<'EOF'
tensorize finetune.toml finetune
finetune tensorize.toml tensorize
pretrain finetune.toml finetune
pretrain on/recipe.toml finetune
EOF

# Options that would be ignored.
run "$COMERA" inspect dense --calibrate corpus.txt
expect_refused '--calibrate has no effect without --verify'
run "$COMERA" evaluate dense --data train.tsv "${columns[@]}" --predictions predicted.csv
expect_refused 'predictions predicted.csv: columns are separated by tabs, not by commas; give the name of a .tsv file'
expect_no_file predicted.csv

# A Mistral folder with the tensors of a llama and no attention window runs as a llama.
for _ in $(seq 40); do cat corpus.txt; done >long.txt
run "$COMERA" pretrain --model llama-6m --task clm --form dense --layers 1 --hidden 32 --heads 2 --intermediate 64 \
  --positions 16 \
  --tokenizer vocab.txt --seq 8 --batch 2 --steps 4 --quiet --data long.txt -o llama
expect_exit 0
cp -r llama mistral
sed 's/"llama"/"mistral"/; s/LlamaForCausalLM/MistralForCausalLM/; s/^{/{"sliding_window": null,/' llama/config.json \
  >mistral/config.json
run "$COMERA" evaluate llama --data long.txt --seq 8 --json
cp .out llama.json
run "$COMERA" evaluate mistral --data long.txt --seq 8 --json
expect_exit 0
expect_json "{**d, 'model': 'llama'} == json.load(open('llama.json'))"
run "$COMERA" tensorize mistral -o smaller --rank 4
expect_exit 0
run "$COMERA" evaluate smaller --data long.txt --seq 8
expect_exit 0
sed -i 's/"sliding_window": null/"sliding_window": 4/' mistral/config.json
# With a window it attends to fewer keys, in evaluation, in generation and in ONNX.
run "$COMERA" evaluate mistral --data long.txt --seq 8 --json
expect_exit 0
expect_json "d['loss'] != json.load(open('llama.json'))['loss']"
run "$COMERA" tensorize mistral -o near --rank 4
expect_exit 0
grep -q '"sliding_window": 4' near/config.json || fail "the window is in config.json"
run "$COMERA" export near -o near-onnx --with-past
expect_exit 0
run "$COMERA" export near -o near.gguf
expect_refused 'near/config.json: sliding_window is 4; GGUF files of such models are not written'
sed -i 's/"sliding_window": 4/"sliding_window": -4/' mistral/config.json
run "$COMERA" evaluate mistral --data long.txt --seq 8
expect_refused 'mistral/config.json: sliding_window is -4; it must be at least 1, or null'
finish
