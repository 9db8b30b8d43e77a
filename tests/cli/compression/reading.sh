#!/usr/bin/env bash
# Folders made of a run keep how its training read text: evaluate, export and finetune follow it.
. "$(dirname "$0")/../expect.sh"
. "$(dirname "$0")/../tiny_task.sh"

for _ in $(seq 40); do printf 'red round\nand green square\n\f\nblue square and red\n\f\n'; done >stories.txt
decoder=(--model llama-6m --task clm --form dense --layers 1 --hidden 32 --heads 4 --intermediate 48 --positions 32
  --tokenizer vocab.txt --data stories.txt --seq 16 --batch 8 --steps 20 --lr 1e-2 --threads 2 --quiet)
examples() { "$COMERA" evaluate "$1" --data stories.txt --json 2>told | python3 -c 'import json, sys; print(json.load(sys.stdin)["examples"])'; }

for ends in document-end no-document-end; do
  run "$COMERA" pretrain "${decoder[@]}" "--$ends" -o "run-$ends"
  expect_exit 0
  wanted=$(examples "run-$ends")
  run "$COMERA" tensorize "run-$ends" -o "small-$ends" --bits 8
  expect_exit 0
  expect_equal "$(examples "small-$ends")" "$wanted"
  grep -q 'end token, as the model was trained' told || fail "evaluate tells why"
  run "$COMERA" export "small-$ends" -o "plain-$ends" --to safetensors
  expect_exit 0
  expect_equal "$(examples "plain-$ends")" "$wanted"
  run "$COMERA" tensorize "plain-$ends" -o "again-$ends" --ratio 1.2
  expect_exit 0
  expect_equal "$(examples "again-$ends")" "$wanted"
  run "$COMERA" finetune "plain-$ends" --data stories.txt --batch 8 --steps 1 --quiet -o "tuned-$ends"
  expect_exit 0
  expect_equal "$(grep -c '^document-end = true' "tuned-$ends/recipe.toml")" "$([ "$ends" = document-end ] && echo 1 || echo 0)"
done
[ "$(examples run-document-end)" -gt "$(examples run-no-document-end)" ] || fail "documents with ends have more tokens"
run "$COMERA" finetune plain-no-document-end --data stories.txt --document-end --batch 8 --steps 1 --quiet -o asked
expect_equal "$(grep -c '^document-end = true' asked/recipe.toml)" 1

# A checkpoint of unknown training.
python3 - <<'PY'
import json
config = json.load(open("again-document-end/config.json"))
config["comera"].pop("reading")
json.dump(config, open("again-document-end/config.json", "w"))
PY
unknown=$(examples run-no-document-end)
expect_equal "$(examples again-document-end)" "$unknown"
grep -q 'the folder does not tell how the model was trained' told || fail "evaluate tells why: $(cat told)"

# A recipe.toml of another program is no recipe; one that is no TOML is refused.
printf '[project]\nname = "cake"\n' | tee again-document-end/recipe.toml >plain-document-end/recipe.toml
expect_equal "$(examples again-document-end)" "$unknown"
run "$COMERA" tensorize plain-document-end -o foreign --bits 8
expect_exit 0
echo '[' >again-document-end/recipe.toml
run "$COMERA" evaluate again-document-end --data stories.txt
expect_exit 2
expect_err 'again-document-end/recipe.toml:'

# Columns of a table.
run "$COMERA" pretrain "${tiny[@]}" --form dense -o labels
expect_exit 0
run "$COMERA" tensorize labels -o labels-small --bits 8
expect_exit 0
run "$COMERA" evaluate labels --data dev.tsv --json
expect_exit 0
run "$COMERA" evaluate labels-small --data dev.tsv --json
expect_exit 0
expect_json "d['task'] == 'classify' and d['examples'] == 60"

# What a file must not hold.
for wrong in document-end=perhaps steps=3 case=none; do
  rm -rf wrong
  cp -r small-no-document-end wrong
  python3 - "${wrong%=*}" "${wrong#*=}" <<'PY'
import json, sys
config = json.load(open("wrong/config.json"))
config["comera"]["reading"] = {sys.argv[1]: sys.argv[2]}
json.dump(config, open("wrong/config.json", "w"))
PY
  run "$COMERA" evaluate wrong --data stories.txt
  expect_refused "wrong/config.json: comera.reading: ${wrong%=*}"
done
finish
