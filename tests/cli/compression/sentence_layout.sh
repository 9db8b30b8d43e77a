#!/usr/bin/env bash
# sentence-transformers folders with the transformer in a subfolder: every verb treats them like the flat ones.
. "$(dirname "$0")/../expect.sh"
python3 "$tests/../scripts/make_checkpoint.py" flat --architecture bert --layers 1 --hidden 32 --intermediate 64 \
  --vocabulary 40 --heads 2 --shards 1 --type F32
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' a b c d e f g h >flat/vocab.txt
printf '{"max_seq_length": 12}' >flat/sentence_bert_config.json
mkdir flat/1_Pooling
printf '{"pooling_mode_cls_token": true}' >flat/1_Pooling/config.json

# modules FOLDER PLACE KIND...: writes modules.json with the transformer in PLACE, the pooling, and modules of KINDs.
modules() {
  python3 - "$@" <<'E2'
import json, sys
folder, place, *kinds = sys.argv[1:]
modules = [("Transformer", place), ("Pooling", "1_Pooling")]
modules += [(kind, f"{i}_{kind}") for i, kind in enumerate(kinds, 2)]
json.dump([{"idx": i, "path": path, "type": f"sentence_transformers.models.{kind}"}
           for i, (kind, path) in enumerate(modules)],
          open(f"{folder}/modules.json", "w"), indent=2)
E2
}
modules flat '' Normalize
mkdir -p deep/0_Transformer
mv flat/sentence_bert_config.json deep/0_Transformer/ && cp deep/0_Transformer/sentence_bert_config.json flat/
cp -r flat/1_Pooling deep/
cp flat/config.json flat/model.safetensors flat/vocab.txt deep/0_Transformer/
printf 'x' >deep/0_Transformer/pytorch_model.bin
printf 'MIT\n' >deep/LICENSE
modules deep 0_Transformer Normalize
printf 'a b c d e f g h\n%.0s' {1..40} >text.txt
printf 'sentence1\tsentence2\tscore\na b\tb a\t0.9\nc\td e\t0.1\na a a\tf\t0.4\n' >scored.tsv

# both ARGUMENTS...: runs the command on both folders, with % for the name. The JSON on stdout differs only in names and
# times.
both() {
  for name in flat deep; do
    run "$COMERA" "${@//%/$name}" --json
    expect_exit 0
    python3 - "$name" >"$name.answer" <<'E2'
import json, re, sys
text = open(".out").read().replace(sys.argv[1], "NAME").replace("0_Transformer/", "")
def kept(value):
    if isinstance(value, dict):
        left_out = "second|^ms|files|left_out|copied|time|per_"
        return {k: kept(v) for k, v in value.items() if not re.search(left_out, k)}
    return [kept(v) for v in value] if isinstance(value, list) else value
print(json.dumps(kept(json.loads(text))))
E2
  done
  expect_same_bytes flat.answer deep.answer
}
same_model() {
  expect_same_bytes "$1/model.safetensors" "$2/0_Transformer/model.safetensors"
  expect_same_bytes "$1/config.json" "$2/0_Transformer/config.json"
}
both inspect %
both evaluate % --data scored.tsv --text sentence1,sentence2 --label score
both tensorize % -o small-% --ratio 1.5
same_model small-flat small-deep
both tensorize % -o aware-% --ratio 1.5 --calibrate text.txt
same_model aware-flat aware-deep
both inspect aware-% --verify % --calibrate text.txt
both export small-% -o dense-% --to safetensors --form dense
same_model dense-flat dense-deep
both export small-% -o dense-% --to safetensors --form dense --force
both export small-% -o onnx-%
expect_same_bytes onnx-flat/model.onnx onnx-deep/model.onnx
for model in % small-% dense-%; do
  for name in flat deep; do run_with $'a b c\nd\n' "$COMERA" predict "${model//%/$name}" && mv .out "$name.answer"; done
  expect_same_bytes flat.answer deep.answer
done
[ -s deep.answer ] || fail "predict prints an answer"

# The default prompt stands before every text of predict and evaluate. Vectors are not learned with it.
for name in flat deep; do
  run_with $'c d a b\n' "$COMERA" predict "$name" && mv .out "$name.answer"
  printf '{"prompts": {"query": "c d "}, "default_prompt_name": "query"}' >"$name/config_sentence_transformers.json"
  run_with $'a b\n' "$COMERA" predict "$name"
  expect_same_bytes .out "$name.answer"
  run "$COMERA" finetune "$name" --task pairs --data scored.tsv --text sentence1,sentence2 --steps 1 -o new
  expect_refused "\[finetune\] $name/config_sentence_transformers.json: default_prompt_name 'query' puts 'c d ' before"
  run "$COMERA" finetune "small-$name" --teacher "$name" --data text.txt --steps 1 -o new
  expect_refused "\[finetune\] $name/config_sentence_transformers.json: default_prompt_name 'query' puts 'c d ' before"
  expect_no_file new
done
both evaluate % --data scored.tsv --text sentence1,sentence2 --label score
mv flat.answer prompted
rm flat/config_sentence_transformers.json deep/config_sentence_transformers.json
printf 'sentence1\tsentence2\tscore\nc d a b\tc d b a\t0.9\nc d c\tc d d e\t0.1\nc d a a a\tc d f\t0.4\n' >scored.tsv
both evaluate % --data scored.tsv --text sentence1,sentence2 --label score
expect_same_bytes flat.answer prompted

# The layout is kept, and other files are copied.
for folder in small-deep dense-deep; do
  for file in modules.json LICENSE 1_Pooling/config.json 0_Transformer/vocab.txt \
    0_Transformer/sentence_bert_config.json; do
    expect_file "$folder/$file"
  done
  for file in config.json model.safetensors 0_Transformer/pytorch_model.bin; do expect_no_file "$folder/$file"; done
  expect_same_bytes "$folder/modules.json" deep/modules.json
done

# In runs and exported graphs the transformer's files are at the top level, and modules.json has that path.
for name in flat deep; do
  run "$COMERA" finetune "small-$name" --teacher "$name" --data text.txt --steps 2 --batch 4 -o "healed-$name" --quiet
  expect_exit 0
done
expect_same_bytes healed-flat/model.safetensors healed-deep/model.safetensors
for folder in healed-deep onnx-deep; do
  for file in modules.json LICENSE 1_Pooling/config.json vocab.txt sentence_bert_config.json config.json; do
    expect_file "$folder/$file"
  done
  expect_no_file "$folder/0_Transformer"
  run python3 -c "import json, sys; sys.exit(json.load(open('$folder/modules.json'))[0]['path'] != '')"
  expect_exit 0
done
run "$COMERA" finetune --resume healed-deep --steps 3 --override --quiet
expect_exit 0

# Modules outside the folder and unsupported modules are refused with one line of message.
mkdir outside
cp deep/0_Transformer/* outside/
ln -s ../outside deep/link
refused() {
  for verb in 'predict deep' 'inspect deep' 'evaluate deep --data scored.tsv' 'tensorize deep -o new --ratio 2' \
    'export deep -o new' 'finetune deep --data text.txt -o new'; do
    # shellcheck disable=SC2086  # words
    run "$COMERA" $verb
    expect_refused "$1"
    expect_no_file new
  done
}
modules deep link &&
  refused "deep/modules.json: the path 'link' of module 'sentence_transformers.models.Transformer' is a link that \
leaves the folder"
modules deep ../outside && refused "deep/modules.json: the path '../outside' .* leaves the folder"
modules deep "$PWD/outside" && refused "leaves the folder"
modules deep 0_BERT && refused "lies in '0_BERT', which is no folder of deep"
modules deep LICENSE && refused "lies in 'LICENSE', which is no folder of deep"
printf '[{"type": "sentence_transformers.models.Transformer", "path": ["0_Transformer"]}]' >deep/modules.json
refused 'the path of a module is .*it must be text'
modules deep 0_Transformer Dense
for verb in 'predict deep' 'tensorize deep -o new --ratio 2' 'export deep -o new'; do
  # shellcheck disable=SC2086  # words
  run "$COMERA" $verb
  expect_refused "deep/modules.json: module 'sentence_transformers.models.Dense' is not supported"
  expect_no_file new
done
finish
