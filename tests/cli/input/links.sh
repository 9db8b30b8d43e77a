#!/usr/bin/env bash
# A run folder of unknown origin that contains links: no file outside it is written, cut or removed.
. "$(dirname "$0")/../expect.sh"
# shellcheck source=../tiny_task.sh
. "$tests/cli/tiny_task.sh" || exit 1

options=("${tiny[@]}" --steps 8 --save-every 2 --keep 1)
run "$COMERA" pretrain "${options[@]}" -o whole
expect_exit 0
mkdir -p outside/step-00000002 outside/step-00000004 outside/folder
for file in file step-00000002/state.json step-00000004/state.json step-00000004/model.safetensors folder/thing; do
  head -c 100000 /dev/zero | tr '\0' 'p' >"outside/$file"
done
cp -r outside kept

# with_link NAME TARGET: every verb that writes to the run refuses the link, and its target does not change.
with_link() {
  local name=$1 target=$2
  for way in "--resume" "--force"; do
    rm -rf run
    cp -r whole run
    rm -rf run/checkpoints/step-00000008
    rm -rf "run/$name"
    mkdir -p "$(dirname "run/$name")"
    ln -s "$PWD/outside/$target" "run/$name"
    run "$COMERA" pretrain "${options[@]}" -o run "$way"
    diff -r outside kept >/dev/null || fail "the target of $name is unchanged ($way)"
    expect_refused "run/$name: is a link"
    [ -L "run/$name" ] || fail "the link is still there"
  done
}
for name in metrics.jsonl model.safetensors config.json report.json report.html vocab.txt recipe.toml.tmp .comera.lock \
  anything; do
  with_link $name file
done
for name in checkpoints 1_Pooling checkpoints.old; do with_link $name ''; done
for name in checkpoints/step-00000004 checkpoints/step-00000008 checkpoints/best-00000004; do
  with_link $name step-00000004
done
with_link checkpoints/step-00000008.tmp folder
with_link checkpoints/step-00000006/state.json file

# The recipe is a link: the program does not follow it to replace the target.
cp whole/recipe.toml recipe.toml
rm -rf run && cp -r whole run && rm run/recipe.toml && ln -s ../recipe.toml run/recipe.toml
run "$COMERA" pretrain "${options[@]}" -o run --force
expect_refused 'run/recipe.toml: is a link'
expect_same_bytes recipe.toml whole/recipe.toml

# A hard link to a file outside: the file is not cut.
rm -rf run && cp -r whole run && rm -r run/checkpoints/step-* && cp whole/metrics.jsonl metrics &&
  ln -f metrics run/metrics.jsonl
run "$COMERA" pretrain "${options[@]}" -o run --resume
expect_refused 'metrics.jsonl: has other names'
expect_same_bytes metrics whole/metrics.jsonl

# Links in the path to the folder belong to the user, and the program follows them.
mkdir disk && ln -s disk/run easy
run "$COMERA" pretrain "${options[@]}" -o easy
[ "$code" = 2 ] && mkdir disk/run && run "$COMERA" pretrain "${options[@]}" -o easy
expect_exit 0
expect_same_bytes whole/model.safetensors disk/run/model.safetensors

# swapped NAME: replaces that folder by a link during the run. The run keeps writing to the folders that it opened.
swapped() {
  rm -rf run moved
  "$COMERA" pretrain "${tiny[@]}" --steps 1000000 --save-every 20 --keep 1 -o run >.out 2>.err </dev/null &
  local process=$!
  for ((i = 0; i < 400; ++i)); do
    compgen -G 'run/checkpoints/step-*/state.json' >/dev/null && break
    sleep 0.05
  done
  mv "$1" moved && ln -s "$PWD/outside" "$1"
  sleep 0.5
  kill -TERM $process
  wait $process
  code=$?
  last="a run whose folder $1 becomes a link"
  expect_exit 143
  diff -r outside kept >>.err || fail "the target of the link is unchanged"
}
swapped run
cmp -s moved/model.safetensors moved/checkpoints/step-*/model.safetensors ||
  fail "the folder has the model of the last step"
swapped run/checkpoints
cmp -s run/model.safetensors moved/step-*/model.safetensors ||
  fail "the folder of checkpoints has that of the last step"
finish
