#!/usr/bin/env bash
# Effects of the system on a run: a closed terminal, a file size limit, threads that do not start, a changed vocabulary.
. "$(dirname "$0")/../expect.sh"
# shellcheck source=../tiny_task.sh
. "$tests/cli/tiny_task.sh" || exit 1

# SIGHUP ends a run with a checkpoint; under nohup the run continues.
long=("${tiny[@]}" --steps 100000 --log-every 1)
hang_up() {
  for ((wait = 0; wait < 500; ++wait)); do
    grep -qs '"step":3,' run/metrics.jsonl && break
    sleep 0.02
  done
  kill -s HUP "$1"
}
last="pretrain stopped by SIGHUP"
"$COMERA" pretrain "${long[@]}" -o run >.out 2>.err &
hang_up $!
wait $!
code=$?
expect_exit 129
[ "$(ls run/checkpoints)" != "" ] || fail "a checkpoint is saved"
last="pretrain under nohup"
rm -rf run
nohup "$COMERA" pretrain "${long[@]}" -o run >.out 2>.err &
pid=$!
hang_up $pid
sleep 0.2
kill -s TERM $pid
wait $pid
code=$?
expect_exit 143

# metrics.jsonl reaches the file size limit: the run saves a checkpoint and ends. It resumes when the limit is higher.
rm -rf run
last="pretrain with ulimit -f"
(ulimit -f 64 && exec "$COMERA" pretrain "${tiny[@]}" --steps 400 --log-every 1 --save-every 1000 -o run >.out 2>.err)
code=$?
expect_exit 153
step=$(find run/checkpoints -name 'step-*' | sed 's/.*step-0*//')
[ "${step:-0}" -gt 20 ] || fail "a checkpoint of a later step is saved"
[ "$(tail -c 1 run/metrics.jsonl | od -An -c | tr -d ' ')" = '\n' ] || fail "the last line is whole"
run "$COMERA" pretrain --resume run --quiet
expect_exit 0
run "$COMERA" pretrain "${tiny[@]}" --steps 400 --log-every 1 --save-every 1000 -o whole
expect_same_bytes run/model.safetensors whole/model.safetensors
last="pretrain with a limit that no checkpoint fits into"
(ulimit -f 8 && exec "$COMERA" pretrain "${tiny[@]}" -o small >.out 2>.err)
code=$?
expect_exit 1
expect_err 'cannot write: File too large'

# A graph that does not fit: a message, and nothing is left.
python3 "$tests/../scripts/make_checkpoint.py" dense --layers 2 --hidden 256 --intermediate 512 --vocabulary 500 \
  --heads 4 --architecture llama --shards 1 --type F32
run "$COMERA" tensorize dense -o factors --ratio 2
expect_exit 0
last="export with ulimit -f"
(ulimit -f 1000 && exec "$COMERA" export factors -o graph.onnx --form factors >.out 2>.err)
code=$?
expect_exit 1
expect_err 'cannot write: File too large'
[ -z "$(find . -maxdepth 1 -name '*graph.onnx*')" ] || fail "nothing is left of the graph"

# Threads that do not start give an error message. The limit counts the processes of a user; root has no limit.
run_limited() {
  last="$* with ulimit -u"
  if [ "$(id -u)" = 0 ]; then
    setpriv --reuid=65533 --clear-groups bash -c 'ulimit -u 1; exec "$@"' bash "$@" >.out 2>.err </dev/null
  else
    (ulimit -u 1 && exec "$@") >.out 2>.err </dev/null
  fi
  code=$?
}
chmod 777 .
if [ "$(id -u)" != 0 ] || { command -v setpriv >/dev/null &&
  setpriv --reuid=65533 --clear-groups test -x "$COMERA" -a -r train.tsv; }; then
  run_limited "$COMERA" pretrain "${tiny[@]}" --threads 4 -o threads
  expect_exit 1
  expect_err '^error: \[machine\] 4 threads do not start: .*ulimit -u'
  run_limited "$COMERA" pretrain "${tiny[@]}" --threads 1 -o threads
  expect_exit 1
  expect_err '^error: \[machine\] no further thread starts: .*ulimit -u'
  [ "$(wc -l <.err)" = 1 ] || fail "one line on stderr"
else
  echo "skipped: threads that do not start (no setpriv, or the program is not readable for others)"
fi

# A recipe with a key of a million levels, which would overflow the stack of its parser.
cp -r whole deep
python3 -c "print('.'.join(['a'] * 1000000) + ' = 1')" >deep/recipe.toml
for verb in "evaluate deep --data dev.tsv" "predict deep" "export deep -o new" "--resume deep" "finetune --resume deep"; do
  # shellcheck disable=SC2086  # words
  run "$COMERA" $verb
  expect_refused 'deep/recipe.toml:1: a key has more than 32 levels'
done

# Another vocabulary of the same size.
cp -r whole other
sed -i '6{h;d};7{G}' other/vocab.txt
columns=(--text text --label label)
for verb in "evaluate other --data dev.tsv ${columns[*]}" "predict other" "export other -o new" \
  "export other -o new --to safetensors" "tensorize other -o new --ratio 1.1" \
  "finetune other --data train.tsv ${columns[*]} --steps 1 -o new"; do
  # shellcheck disable=SC2086  # words
  run "$COMERA" $verb
  expect_refused 'other/vocab.txt: is not the vocabulary that the model was trained with'
  expect_no_file new
done
run "$COMERA" evaluate other --data dev.tsv "${columns[@]}" --tokenizer whole/vocab.txt
expect_exit 0
finish
