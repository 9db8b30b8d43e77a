#!/usr/bin/env bash
# Model folders with pipes, devices, links and changing files: every verb ends at once with a message; only links to
# files are followed.
. "$(dirname "$0")/../expect.sh"
# shellcheck source=../tiny_task.sh
. "$tests/cli/tiny_task.sh" || exit 1
run "$COMERA" pretrain "${tiny[@]}" --form dense -o run
expect_exit 0
mkdir model outside
cp run/config.json run/model.safetensors run/vocab.txt model/
printf 'secret\n' >outside/passwd
head -c 1000000 /dev/zero >outside/large

# refused FOLDER MESSAGE: every verb that reads the folder refuses it within ten seconds.
refused() {
  for verb in "inspect $1" "evaluate $1 --data dev.tsv --text text --label label" \
    "finetune $1 --data train.tsv --text text --label label --steps 1 -o new" \
    "tensorize $1 -o new --ratio 1.1" "export $1 -o new" "predict $1"; do
    # shellcheck disable=SC2086  # words
    run timeout 10 "$COMERA" $verb
    expect_refused "$2"
    expect_no_file new
  done
}
for name in config.json model.safetensors; do
  rm -rf odd && cp -r model odd && rm "odd/$name"
  mkfifo "odd/$name" && refused odd "odd/$name: is a pipe; give a regular file"
  rm "odd/$name" && ln -s /dev/zero "odd/$name" && refused odd "odd/$name: is a device; give a regular file"
done
rm -rf odd && cp -r model odd && mkfifo odd/modules.json && refused odd 'odd/modules.json: is a pipe'
rm -rf odd && cp -r model odd && rm odd/vocab.txt && mkfifo odd/vocab.txt
run timeout 10 "$COMERA" evaluate odd --data dev.tsv --text text --label label
expect_refused 'odd/vocab.txt: is a pipe'
mkfifo data.tsv
run timeout 10 "$COMERA" evaluate model --data data.tsv --text text --label label
expect_refused 'data.tsv: is a pipe'

# Copied side files: targets of links within the folder and to blobs of a hub cache. Links to other files, to folders,
# pipes and devices are left out.
rm -rf odd && cp -r model odd
mkdir odd/blobs
mv odd/model.safetensors odd/blobs/1234 && ln -s blobs/1234 odd/model.safetensors
mkdir -p hub/blobs hub/snapshots
cp outside/large hub/blobs/5678
ln -s ../hub/blobs/5678 odd/large.txt
ln -s ../outside/passwd odd/pw.txt
ln -s /proc/self/environ odd/env.txt
mkdir odd/many
touch odd/many/{1..1200}
ln -s ../outside odd/docs
for name in a b c; do ln -s . "odd/$name"; done
mkfifo odd/pipe
ln -s /dev/zero odd/zeros
skipped='(a|b|c|docs|env.txt|pipe|pw.txt|zeros)'
for verb in "tensorize odd -o out --ratio 1.01" "export odd -o out" \
  "finetune odd --data train.tsv --text text --label label --steps 1 --batch 4 -o out"; do
  rm -rf out
  # shellcheck disable=SC2086  # words
  run timeout 60 "$COMERA" $verb
  expect_exit 0
  expect_equal "$(grep -cE "^warning: odd/$skipped: not copied: a (link to (a folder|/)|pipe, a device)" .err)" 8
  expect_err "odd/pw.txt: not copied: a link to $(realpath outside/passwd), which is not of this model"
  expect_err 'odd/env.txt: not copied: a link to /proc/.*/environ, which is not of this model'
  # The files at the top come before the many of a folder; what was left out is counted.
  expect_err 'warning: odd: 2[0-9][0-9] more files, folders or links are not copied'
  expect_equal "$(grep -c safetensors .err)" 0
  expect_same_bytes out/large.txt outside/large
  expect_file out/vocab.txt
  for name in a b c docs env.txt pipe pw.txt zeros; do expect_no_file "out/$name"; done
  [ "$(du -sk out | cut -f 1)" -lt 8000 ] || fail "the copy is small"
done

# A log file that is a pipe without a reader would block the program.
mkfifo log
run timeout 60 "$COMERA" inspect odd --log-file log
expect_refused 'log: is a pipe that no program reads'
finish
