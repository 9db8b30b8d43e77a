#!/usr/bin/env bash
# A run folder that comes from elsewhere with links in it: nothing outside of it is written, cut or removed.
. "$(dirname "$0")/expect.sh"
# shellcheck source=tiny_task.sh
. "$tests/cli/tiny_task.sh" || exit 1

options=("${tiny[@]}" --steps 8 --save-every 2 --keep 1)
run "$COMERA" pretrain "${options[@]}" -o whole
expect_exit 0
mkdir -p outside/step-00000002 outside/step-00000004 outside/folder
for file in file step-00000002/state.json step-00000004/state.json step-00000004/model.safetensors folder/thing; do
  head -c 100000 /dev/zero | tr '\0' 'p' >"outside/$file"
done
cp -r outside kept

# with_link NAME TARGET: every way to write to the run with that link in it is refused, and what it leads to is as it was.
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
    diff -r outside kept >/dev/null || fail "what $name leads to is as it was ($way)"
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

# The recipe as a link: it is not followed to be replaced.
cp whole/recipe.toml recipe.toml
rm -rf run && cp -r whole run && rm run/recipe.toml && ln -s ../recipe.toml run/recipe.toml
run "$COMERA" pretrain "${options[@]}" -o run --force
expect_refused 'run/recipe.toml: is a link'
expect_same_bytes recipe.toml whole/recipe.toml

# A second name of a file outside: it is not cut.
rm -rf run && cp -r whole run && rm -r run/checkpoints/step-* && cp whole/metrics.jsonl metrics &&
  ln -f metrics run/metrics.jsonl
run "$COMERA" pretrain "${options[@]}" -o run --resume
expect_refused 'metrics.jsonl: has other names'
expect_same_bytes metrics whole/metrics.jsonl

# Links on the way to the folder are the user's: they are followed.
mkdir disk && ln -s disk/run easy
run "$COMERA" pretrain "${options[@]}" -o easy
[ "$code" = 2 ] && mkdir disk/run && run "$COMERA" pretrain "${options[@]}" -o easy
expect_exit 0
expect_same_bytes whole/model.safetensors disk/run/model.safetensors

# swapped NAME: that folder becomes a link while the run goes on. The run stays in the folders that it opened.
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
  diff -r outside kept >>.err || fail "what the link leads to is as it was"
}
swapped run
cmp -s moved/model.safetensors moved/checkpoints/step-*/model.safetensors ||
  fail "the folder has the model of the last step"
swapped run/checkpoints
cmp -s run/model.safetensors moved/step-*/model.safetensors ||
  fail "the folder of checkpoints has that of the last step"
finish
