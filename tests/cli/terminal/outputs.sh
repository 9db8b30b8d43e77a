#!/usr/bin/env bash
# Every verb refuses an output that is an input, contains one or is inside one, also by a hard link, and changes no
# file.
. "$(dirname "$0")/../expect.sh"
# shellcheck source=../tiny_task.sh
. "$tests/cli/tiny_task.sh" || exit 1

run "$COMERA" pretrain "${tiny[@]}" --form dense -o model
expect_exit 0
run "$COMERA" export model -o graph.onnx --form dense
expect_exit 0
rm -rf model/checkpoints model/recipe.toml
cp -r model teacher
ln -s model link
ln -s "$PWD/model/deeper" dangling
ln train.tsv second.tsv
mkdir around && cp -r model around/model && cp train.tsv vocab.txt around/

fingerprint() {
  find model teacher around train.tsv vocab.txt second.tsv graph.onnx link dangling -printf '%p %y %s %l\n' -type f \
    -exec md5sum {} + | sort
}
fingerprint >before

# refused REGEX VERB...: refused with a message, and no file changes.
refused() {
  local message=$1
  shift
  run "$COMERA" "$@"
  expect_refused "$message"
  fingerprint >after
  cmp -s before after || { fail "no file has changed"; diff before after | head; }
}

go=(--seq 8 --batch 4 --steps 2 --quiet --data train.tsv "${columns[@]}")
for out in model model/ ./model link "$PWD/model" model/../link; do
  refused ': is MODEL model' finetune model "${go[@]}" -o "$out" --force
  refused ': is MODEL model' finetune model "${go[@]}" -o "$out"
  refused ': is --model model' finetune --model model "${go[@]}" -o "$out" --force
  refused ': is --teacher model' finetune teacher --teacher model "${go[@]}" -o "$out" --force
  refused ': is MODEL link' finetune link "${go[@]}" -o "$out" --force
  refused ': is MODEL model' tensorize model --ratio 1.5 -o "$out"
  refused ': is MODEL model' export model -o "$out" --force
  refused ': is MODEL model' export model -o "$out" --force --to safetensors
done
for out in model/new link/new dangling model/checkpoints; do
  refused ': lies in MODEL model' finetune model "${go[@]}" -o "$out" --force
  refused ': lies in --teacher model' finetune teacher --teacher model "${go[@]}" -o "$out"
  refused ': lies in MODEL model' tensorize model --ratio 1.5 -o "$out"
  refused ': lies in MODEL model' tensorize model --ratio 1.5 --dump-plan "$out"
  refused ': lies in MODEL model' export model -o "$out"
  [ "$out" = dangling ] || refused ': lies in MODEL model' export model -o "$out.onnx"
  refused ': lies in MODEL model' evaluate model --data dev.tsv "${columns[@]}" --predictions "$out"
  refused ': lies in MODEL model' predict model --npy "$out"
  refused ': lies in --tokenizer model' pretrain "${model[@]}" "${go[@]}" --tokenizer model -o "$out"
done
for out in around . /; do
  refused ': holds (MODEL|--data) ' finetune around/model "${go[@]}" -o "$out" --force
  refused ': holds MODEL around/model' tensorize around/model --ratio 1.5 -o "$out"
  refused ': holds MODEL around/model' export around/model -o "$out" --force
done
refused ': holds --tokenizer around/vocab.txt' pretrain "${model[@]}" "${go[@]}" --tokenizer around/vocab.txt \
  -o around --force
refused ': holds --data around/train.tsv' pretrain "${tiny[@]}" --data around/train.tsv -o around --force
refused ': holds --dev around/train.tsv' pretrain "${tiny[@]}" --dev around/train.tsv -o around --force
refused ': holds --data around/train.tsv' tokenizer train --data 'around/*.tsv' --text text -o around --force
refused ': holds MODEL model' tensorize model --ratio 1.5 --calibrate corpus.txt -o .
refused ': is --plan plan.json' tensorize model --plan plan.json --dump-plan plan.json

for out in train.tsv second.tsv ./train.tsv; do
  refused ': is --data train.tsv' evaluate model --data train.tsv "${columns[@]}" --predictions "$out"
  refused ': is --data train.tsv' evaluate model --data '*n.tsv' "${columns[@]}" --predictions "$out"
  refused ': is --data train.tsv' pretrain "${tiny[@]}" -o new --log-file "$out"
  refused ': is --data train.tsv' tokenizer train --data train.tsv --text text -o "$out" --force
done
refused ': is MODEL graph.onnx' tensorize graph.onnx --ratio 1.5 -o graph.onnx
refused ': is MODEL graph.onnx' tensorize graph.onnx --ratio 1.5 --dump-plan graph.onnx
refused ': lies in [A-Z]+ model' inspect model --log-file model/log
echo 'verbose = true' >config.toml
refused ': is --config config.toml' inspect model --config config.toml --log-file ./config.toml
refused 'both name' evaluate model --data dev.tsv "${columns[@]}" --predictions out --log-file ./out
refused ': is --data corpus.txt' predict model --data corpus.txt --npy corpus.txt
refused ': is --data corpus.txt' predict model --data dev.tsv,corpus.txt --npy ./corpus.txt
refused ': is --data corpus.txt' predict model --data corpus.txt --log-file corpus.txt
expect_no_file new
expect_no_file out

# A redirected stdin is an input too.
last='predict --npy with stdin from the same file'
# shellcheck disable=SC2094  # that the program refuses it is the test
"$COMERA" predict model --npy corpus.txt <corpus.txt >.out 2>.err
code=$?
expect_refused ': is stdin'
[ "$(wc -l <corpus.txt)" = 4 ] || fail "the text is there"

# The recipe of a foreign run names its inputs. An input inside the run's own folder is refused.
run "$COMERA" pretrain "${tiny[@]}" -o run
expect_exit 0
rm -r run/checkpoints
cp train.tsv run/
sed -i 's|"train.tsv"|"run/train.tsv"|' run/recipe.toml
run "$COMERA" pretrain --resume run
expect_refused ': holds --data run/train.tsv'

# Harmless outputs are written: beside an input, and in place of a link, whose target is kept.
run "$COMERA" finetune model "${go[@]}" -o model2
expect_exit 0
ln -s "$PWD/corpus.txt" predictions
run "$COMERA" evaluate model --data train.tsv "${columns[@]}" --predictions predictions
expect_exit 0
[ "$(head -c 5 corpus.txt)" = round ] || fail "the target of the link is unchanged"
[ "$(head -c 5 predictions)" = label ] || fail "predictions are written"
finish
