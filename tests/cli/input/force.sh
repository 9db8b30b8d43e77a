#!/usr/bin/env bash
# --force replaces a run and all files that the run copied from its model. Other files in the folder stay.
[ -w /dev/shm ] && export TMPDIR=/dev/shm
. "$(dirname "$0")/../expect.sh"
# shellcheck source=../tiny_task.sh
. "$tests/cli/tiny_task.sh" || exit 1

run "$COMERA" pretrain "${tiny[@]}" --form dense -o plain
expect_exit 0
cp -r plain sentence
mkdir -p sentence/1_Pooling sentence/docs/deep
rm -r sentence/checkpoints sentence/recipe.toml
printf '{"pooling_mode_cls_token": true}' >sentence/1_Pooling/config.json
printf '[{"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"}, %s]' \
  '{"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}' \
  >sentence/modules.json
for name in README.md notes 'docs/with space "and quotes"' docs/changed docs/deep/file $'docs/not\xffutf'; do
  printf 'of the old model\n' >"sentence/$name"
done
options=(--data train.tsv "${columns[@]}" --seq 8 --batch 4 --steps 2 --quiet --threads 1)
run "$COMERA" finetune plain "${options[@]}" -o fresh
expect_exit 0
run "$COMERA" finetune sentence "${options[@]}" -o old
expect_exit 0
for name in modules.json README.md docs/deep/file $'docs/not\xffutf'; do
  expect_same_bytes "sentence/$name" "old/$name"
done

printf 'of the user\n' >old/mine
printf 'of the user\n' >old/docs/mine
printf 'of the user\n' >old/docs/changed
names() { (cd "$1" && find . -type f | grep -v 'checkpoints/' | sort); }
names fresh >wanted
printf './docs/changed\n./docs/mine\n./mine\n' | sort - wanted >with_mine
# replaced: the folder has a fresh run and the user's files.
replaced() {
  expect_exit 0
  names run >found
  diff with_mine found >>.err || fail "the files of a fresh run and those of the user ($1)"
  for name in mine docs/mine docs/changed; do expect_equal "$(cat "run/$name")" 'of the user'; done
  expect_same_bytes run/model.safetensors fresh/model.safetensors
}
cp -r old run
run "$COMERA" finetune plain "${options[@]}" -o run --force
expect_err 'docs/changed: was changed since .* it stays'
replaced "at once"
expect_no_file run/1_Pooling

kills=0
for ((fault = 1; fault < 1000; fault += 3)); do
  rm -rf run && cp -r old run
  run env COMERA_FAULT_AT=$fault "$COMERA" finetune plain "${options[@]}" -o run --force
  [ "$code" = 0 ] && break
  expect_exit 137
  kills=$((kills + 1))
  run "$COMERA" finetune plain "${options[@]}" -o run --force
  last="finetune --force after COMERA_FAULT_AT=$fault"
  replaced "killed at write $fault"
done
[ "$kills" -gt 10 ] || fail "the run is killed at more than 10 writes"

# A run of an older program has no list of copied files: files of tokenizer and modules are removed, other copies stay.
rm -rf run && cp -r old run && sed -i '/^\[files\]/,$d' run/recipe.toml
run "$COMERA" finetune plain "${options[@]}" -o run --force
expect_exit 0
expect_no_file run/modules.json
expect_same_bytes run/README.md sentence/README.md
# A forged list does not affect files outside the folder.
printf 'precious\n' >precious && cp -r old run2
checksum=$(sed -n 's/^"README.md" = "\(.*\)"/\1/p' old/recipe.toml)
cp sentence/README.md outside.md
printf '"../outside.md" = "%s"\n"/%s/outside.md" = "%s"\n' "$checksum" "$PWD" "$checksum" >>run2/recipe.toml
run "$COMERA" finetune plain "${options[@]}" -o run2 --force
expect_exit 0
expect_file outside.md
finish
