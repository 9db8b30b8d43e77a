#!/usr/bin/env bash
# Files and folders beside an output do not change, whatever their names. Leftovers of a killed process are removed by
# the next.
. "$(dirname "$0")/../expect.sh"
# shellcheck source=../tiny_task.sh
. "$tests/cli/tiny_task.sh" || exit 1

run "$COMERA" pretrain "${tiny[@]}" --form dense -o model
expect_exit 0
run "$COMERA" export model -o graph.onnx --form dense
expect_exit 0

names=()
for name in out out.onnx graph.onnx predictions plan.json run vectors; do
  for ending in .tmp .partial.tmp .made .made.tmp .old .plan.made .plan.made.tmp .plan .lock; do
    names+=("$name$ending")
  done
done
for name in "${names[@]}"; do
  mkdir "$name"
  printf 'precious\n' >"$name/thing"
done
mkdir -p folder.tmp/checkpoints.old && printf 'precious\n' >folder.tmp/checkpoints.old/thing

# precious: all files of the user exist. leftovers: no file of a killed process exists.
precious() {
  for name in "${names[@]}" folder.tmp/checkpoints.old; do
    [ "$(cat "$name/thing" 2>&1)" = precious ] || fail "$name/thing is unchanged"
  done
}
no_leftovers() { expect_equal "$(find . -name '*.comera' -o -name '.comera.*')" ''; }

run "$COMERA" tensorize graph.onnx --ratio 1.3 --dry-run
expect_exit 0
precious
run "$COMERA" tensorize graph.onnx --ratio 1.3 --dump-plan plan.json
expect_exit 0
run "$COMERA" tensorize graph.onnx -o out.onnx --ratio 1.3
expect_exit 0
run "$COMERA" tensorize graph.onnx -o never.onnx --ratio 1e8
[ "$code" != 0 ] || fail "a ratio that cannot be reached is an error"
run "$COMERA" tensorize model --ratio 1.3 --dry-run
expect_exit 0
run "$COMERA" tensorize model -o out --ratio 1.3
expect_exit 0
rm -r out
run "$COMERA" export model -o out
expect_exit 0
run "$COMERA" export model -o out --force
expect_exit 0
run "$COMERA" export model -o out.onnx --force
expect_exit 0
run "$COMERA" evaluate model --data dev.tsv "${columns[@]}" --predictions predictions
expect_exit 0
run "$COMERA" pretrain "${tiny[@]}" -o run
expect_exit 0
precious
no_leftovers

# A replaced run loses only files that a run writes.
for name in run/checkpoints.old run/checkpoints.tmp run/recipe.toml.tmp run/model.safetensors.tmp run/notes; do
  mkdir "$name"
  printf 'precious\n' >"$name/thing"
  names+=("$name")
done
run "$COMERA" pretrain "${tiny[@]}" -o run --force
expect_exit 0
precious
mkdir photos && printf 'precious\n' >photos/model.safetensors
run "$COMERA" pretrain "${tiny[@]}" -o photos --force
expect_refused 'photos holds files but no run'
run "$COMERA" pretrain "${tiny[@]}" -o photos
expect_refused 'photos holds files but no run \(no recipe.toml\), so --resume has nothing .*; name another folder'
[ "$(cat photos/model.safetensors)" = precious ] || fail "photos/model.safetensors is unchanged"

# All inputs are read before the old run is removed, so a damaged model or teacher causes no loss.
cp -r model damaged
python3 - <<'E2'
import json
data = open("damaged/model.safetensors", "rb").read()
n = int.from_bytes(data[:8], "little")
header = json.loads(data[8:8 + n])
name = next(key for key in header if key.endswith("output.dense.weight"))
header[name[:-1] + "x"] = header.pop(name)
text = json.dumps(header, separators=(",", ":")).encode()
open("damaged/model.safetensors", "wb").write(len(text).to_bytes(8, "little") + text + data[8 + n:])
E2
find run -type f -not -name '.*' -exec md5sum {} + | sort >before
for pair in "damaged" "model --teacher damaged"; do
  # shellcheck disable=SC2086
  run "$COMERA" finetune $pair --seq 8 --batch 4 --steps 2 --quiet --data train.tsv "${columns[@]}" -o run --force
  expect_refused 'damaged'
  find run -type f -not -name '.*' -exec md5sum {} + | sort >after
  cmp -s before after || fail "the run to be replaced is unchanged"
  # shellcheck disable=SC2086
  run "$COMERA" finetune $pair --seq 8 --batch 4 --steps 2 --quiet --data train.tsv "${columns[@]}" -o never
  expect_refused 'damaged'
  expect_no_file never
done

# The folder of unfinished work has a fixed name. A folder of the user with that name is refused, whatever it contains.
mkdir work.partial && printf 'precious\n' >work.partial/thing && names+=(work.partial)
mkdir work.onnx.partial && printf 'precious\n' >work.onnx.partial/key && printf 'precious\n' >work.onnx.partial/thing &&
  names+=(work.onnx.partial)
run "$COMERA" tensorize model -o work --ratio 1.3
expect_refused "work.partial: .* none of this program's"
run "$COMERA" tensorize graph.onnx -o work.onnx --ratio 1.3
expect_refused "work.onnx.partial: .* none of this program's"
mkdir theirs && ln -s theirs linked.partial
run "$COMERA" tensorize model -o linked --ratio 1.3
expect_refused 'linked.partial: is a link'
expect_equal "$(ls theirs)" ''
precious

# Files of the user in the folder of unfinished work: the first is named, and none is removed.
for made in "model -o begun" "graph.onnx -o begun.onnx"; do
  partial=${made#* -o }.partial
  # shellcheck disable=SC2086
  for fault in 40 30 20 15 10; do
    rm -rf "$partial"
    run env COMERA_FAULT_AT=$fault "$COMERA" tensorize $made --ratio 1.3
    [ -e "$partial/.comera.work" ] && break
  done
  expect_exit 137
  mkdir "$partial/sub" && printf 'precious\n' >"$partial/sub/x" && printf 'precious\n' >"$partial/mine"
  for left in mine sub; do
    # shellcheck disable=SC2086
    run "$COMERA" tensorize $made --ratio 1.3
    expect_refused "$partial/$left: is no file of the unfinished work"
    expect_equal "$(cat "$partial/sub/x")" precious
    rm -f "$partial/mine"
  done
  rm -r "$partial/sub"
  # shellcheck disable=SC2086
  run "$COMERA" tensorize $made --ratio 1.3
  expect_exit 0
  expect_no_file "$partial"
  rm -rf "${partial%.partial}"*
done

# The data file of a large graph is written beside it.
printf 'precious\n' >large.onnx.data
run "$COMERA" tensorize graph.onnx -o large.onnx --ratio 1.3
expect_refused 'large.onnx.data: exists already'
run "$COMERA" export model -o large.onnx
expect_refused 'large.onnx.data: exists already'
expect_equal "$(cat large.onnx.data)" precious

# Killed at any change of the file system, then the same command again: the neighbours exist, and no leftovers do.
commands=("tensorize model -o killed --ratio 1.3" "tensorize model -o killed --ratio 1.3,2"
  "tensorize graph.onnx -o killed.onnx --ratio 1.3"
  "tensorize graph.onnx --ratio 1.3 --dry-run" "export model -o killed" "export model -o killed.onnx"
  "export model -o killed --to safetensors"
  "evaluate model --data dev.tsv --text text --label label --predictions killed"
  "tokenizer train --data corpus.txt --vocab-size 40 -o killed --force")
for command in "${commands[@]}"; do
  for fault in 1 4 11 30 80 1000; do
    # shellcheck disable=SC2086
    run env COMERA_FAULT_AT=$fault "$COMERA" $command
    [ "$code" = 137 ] || break
    # shellcheck disable=SC2086
    run "$COMERA" $command
    if grep -q 'exists already' .err; then  # the kill came after the complete output was written
      rm -rf killed killed.onnx
      # shellcheck disable=SC2086
      run "$COMERA" $command
    fi
    expect_exit 0
    no_leftovers
    rm -rf killed killed.onnx*
  done
  expect_exit 0
  [ "$fault" -gt 1 ] || fail "the command changes the file system"
  rm -rf killed killed.onnx*
done
precious
no_leftovers
finish
