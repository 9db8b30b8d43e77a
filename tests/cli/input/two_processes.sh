#!/usr/bin/env bash
# Two processes on one folder: one works, the other is refused with a message that names it. The result is always
# complete.
. "$(dirname "$0")/../expect.sh"
# shellcheck source=../tiny_task.sh
. "$tests/cli/tiny_task.sh" || exit 1

options=("${tiny[@]}" --steps 40 --save-every 2 --keep 2 --eval-every 8 --seed 3 --threads 1)
run "$COMERA" pretrain "${options[@]}" -o whole
expect_exit 0
run "$COMERA" pretrain "${options[@]}" --seed 4 -o other
expect_exit 0

same() {
  expect_same_bytes "$1/model.safetensors" "$2/model.safetensors"
  expect_same_bytes "$1/checkpoints/step-00000040/optimizer.safetensors" \
    "$2/checkpoints/step-00000040/optimizer.safetensors"
  python3 - "$1" "$2" <<'E2' || fail "$2 has the metrics of an undisturbed run"
import json, re, sys
timed = re.compile("time|seconds|_ms$|per_second|peak|memory")
def untimed(value):
    return {k: v for k, v in value.items() if not timed.search(k)} if isinstance(value, dict) else value
def lines(folder):
    kept = []
    for line in open(f"{folder}/metrics.jsonl"):
        kept.append({k: untimed(v) for k, v in json.loads(line).items() if not timed.search(k)})
    return kept
a, b = lines(sys.argv[1]), lines(sys.argv[2])
assert a == b, (a, b)
E2
  expect_equal "$(find "$2" -name '*.comera' -o -name '.comera.*')" ''
}
# ends PID...: waits for the processes and stores their exit codes in $codes.
ends() {
  codes=()
  for pid in "$@"; do
    wait "$pid" 2>/dev/null
    codes+=($?)
  done
}
# refused_by_lock FILE: that process was refused because of the other one.
refused_by_lock() {
  grep -qE 'process [0-9]+ on [^ ]+ since .* writes to this folder|is not empty|made by somebody else|exists already' \
    "$1" || fail "$1 names the other process"
}
# One of the two processes of `codes` succeeded, and the lock refused the other.
expect_one_refused() {
  code="${codes[*]}"
  case "$code" in
    '0 2') refused_by_lock .second ;;
    '2 0') refused_by_lock .first ;;
    *) fail "one ends and one is refused" ;;
  esac
}

# Two processes start at once or shortly after each other: one ends, with the bytes of a run alone.
RANDOM=5
for round in $(seq 10); do
  last="two runs at once, round $round"
  rm -rf both
  "$COMERA" pretrain "${options[@]}" -o both >.out 2>.first &
  first=$!
  sleep "0.0$((RANDOM % 10))"
  "$COMERA" pretrain "${options[@]}" -o both >.out 2>.second &
  ends $first $!
  expect_one_refused
  same whole both
done

# Two processes resume one run, and one of them is killed. The run can always be resumed, to the same bytes.
for round in $(seq 12); do
  last="two resumes, round $round"
  rm -rf both
  "$COMERA" pretrain "${options[@]}" -o both --resume >.out 2>.first &
  first=$!
  sleep "0.0$((RANDOM % 10))"
  "$COMERA" pretrain "${options[@]}" -o both --resume >.out 2>.second &
  second=$!
  sleep "0.$((RANDOM % 4))"
  [ $((round % 2)) = 0 ] && kill -s KILL $first 2>/dev/null
  [ $((round % 3)) = 0 ] && kill -s KILL $second 2>/dev/null
  ends $first $second
  run "$COMERA" pretrain "${options[@]}" -o both --resume
  expect_exit 0
  same whole both
done

# --force beside a working run: that run continues, and the other process is refused and names it. Later, --force
# replaces it.
for round in 1 2 3; do
  last="--force beside a live run, round $round"
  rm -rf both
  "$COMERA" pretrain "${options[@]}" --steps 400 --save-every 20 -o both >.out 2>.first &
  first=$!
  while kill -0 $first 2>/dev/null && [ ! -e both/checkpoints ]; do sleep 0.01; done
  run "$COMERA" pretrain "${options[@]}" --seed 4 -o both --force
  kill -0 $first 2>/dev/null || continue  # it had ended before, so the round tests nothing
  expect_refused "both: process $first on $(hostname) since .* writes to this folder"
  run "$COMERA" pretrain --resume both
  expect_refused "process $first on "
  run "$COMERA" export whole -o both --force
  expect_refused "process $first on "
  # Single files in the folder too: the run would lose them, or go on with those of others.
  for command in "tokenizer train --data train.tsv --text text --vocab-size 60 -o both --force" \
    "evaluate whole --data dev.tsv --predictions both/metrics.jsonl" "predict whole --data dev.tsv --npy both/x.npy" \
    "tensorize whole --ratio 2 --dump-plan both/config.json" "tensorize whole --ratio 2 -o both/new/deeper" \
    "evaluate whole --data dev.tsv --log-file both/checkpoints/log"; do
    # shellcheck disable=SC2086  # several words
    run "$COMERA" $command
    kill -0 $first 2>/dev/null || break
    expect_refused "both: process $first on $(hostname) since .* writes to this folder"
  done
  kill -s KILL $first
  ends $first
  run "$COMERA" pretrain "${options[@]}" --seed 4 -o both --force
  expect_exit 0
  same other both
done

# Two processes compress into one folder: one ends with complete output.
run "$COMERA" pretrain --model encoder-small --layers 2 --hidden 64 --heads 2 --intermediate 128 --positions 16 \
  --form dense "${words[@]}" "${columns[@]}" \
  --data train.tsv -o dense
expect_exit 0
run "$COMERA" export dense -o dense.onnx --form dense
expect_exit 0
run "$COMERA" tensorize dense -o alone --ratio 1.5
expect_exit 0
run "$COMERA" tensorize dense.onnx -o alone.onnx --ratio 1.3
expect_exit 0
for round in $(seq 8); do
  for kind in '' .onnx; do
    last="two tensorize dense$kind, round $round"
    rm -rf made made.onnx*
    ratio=$([ -z "$kind" ] && echo 1.5 || echo 1.3)
    "$COMERA" tensorize "dense$kind" -o "made$kind" --ratio "$ratio" >.out 2>.first &
    first=$!
    sleep "0.$((RANDOM % 3))"
    "$COMERA" tensorize "dense$kind" -o "made$kind" --ratio "$ratio" >.out 2>.second &
    ends $first $!
    expect_one_refused
    [ -z "$kind" ] && expect_same_bytes alone/model.safetensors made/model.safetensors
    [ -n "$kind" ] && expect_same_bytes alone.onnx made.onnx
    expect_equal "$(find . -maxdepth 1 -name '*.partial' -o -maxdepth 1 -name '*.comera')" ''
  done
done
finish
