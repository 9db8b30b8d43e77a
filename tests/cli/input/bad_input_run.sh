#!/usr/bin/env bash
# Wrong options, run folders and disks: the right exit code, one line of message, no partial files.
. "$(dirname "$0")/../expect.sh"
# shellcheck source=../tiny_task.sh
. "$tests/cli/tiny_task.sh" || exit 1

option() {
  local message=$1
  shift
  refuses "$message" "${columns[@]}" --data train.tsv "$@"
}
option 'unknown option --stepz; did you mean --steps' --stepz 4
option "unexpected argument 'extra'" extra
option '--steps needs a value' --steps
option "--rank: expected a whole number, got 'abc'" --rank abc
option "--rank: expected a whole number, got '1.5'" --rank 1.5
option '--rank: 0 is too small; the least is 1' --rank 0
option '--batch: 0 is too small' --batch 0
option "--lr: expected a number, got 'nan'" --lr nan
option '--max-time is a time, but 8 came; write for example 90s, 20m or 8h' --max-time 8
option "--save-every: expected steps .*, got '20q'" --save-every 20q
option "--target-size: expected a size such as 4096, 1\.5MB or 2GiB, got '1XB'" --target-size 1XB
option "--form: 'ttt' is none of dense, tt, lowrank, auto; did you mean tt" --form ttt
option "--isa: 'v9' is none of" --isa v9
option '--steps and --epochs exclude each other' --epochs 2
option '--target-ratio, --target-size and --target-fraction exclude each other' --target-ratio 4 --target-fraction 0.5
option 'the late stage begins at step 100, but the run has 4; use a smaller --late-after' --target-fraction 0.5 \
  --late-after 100
option "--dtype: 'fp16' is none of fp32, tf32, bf16, fp8" --dtype fp16
option "--dtype bf16 needs a GPU or the CPU's instruction set v4bf16" --dtype bf16 --isa v3
option '--dtype tf32 needs a GPU: --device cpu computes in fp32 with v3; add --device cuda, or leave out --dtype' \
  --dtype tf32 --isa v3
option '--dtype tf32 needs a GPU: --device reference computes in fp32' --dtype tf32 --device reference
printf 'stepz = 4\n' >recipe.toml
option 'recipe\.toml:1: stepz: no such option of .*; did you mean steps' --config recipe.toml
printf 'steps = = 4\n' >recipe.toml
option 'recipe\.toml:1: ' --config recipe.toml
for line in '8 x 8 -> 8/16" = "fast"' '8 x 8" = "fused"'; do
  { cat ranks.toml && printf '[paths]\n"tt_linear_forward bf16 %s\n' "$line"; } >recipe.toml
  option 'recipe\.toml: .*: no choice between fused and library; remove this line' --config recipe.toml
done
{ cat ranks.toml && printf '[paths]\n"tt_linear_forward bf16 8 x 8 -> 8/16" = 1\n'; } >recipe.toml
option 'recipe\.toml:6: .*expected a string' --config recipe.toml
run "$COMERA" pretrian
expect_refused "unknown verb 'pretrian'; did you mean pretrain"

# Output folders.
mkdir taken && touch taken/file
run "$COMERA" pretrain "${tiny[@]}" -o taken
expect_refused 'taken holds files but no run'
expect_equal "$(ls taken)" file
run "$COMERA" pretrain "${tiny[@]}" -o corpus.txt
expect_refused "corpus\.txt is a file; name a folder with --output"

# Resuming.
run "$COMERA" pretrain "${tiny[@]}" --save-every 2 -o run
expect_exit 0
resume() {
  local message=$1
  shift
  run "$COMERA" pretrain --resume run --quiet "$@"
  expect_refused "$message"
}
resume '--lr was 0.002 and is 3; --override' --lr 3
resume '--dtype was fp32 and is bf16; --override' --dtype bf16
resume '--batch was 4 and is 8, --rank was 4 and is 5' --rank 5 --batch 8
resume '--resume names run, --output names other; name one folder' -o other
state=run/checkpoints/step-00000004/state.json
cp "$state" state.json
sed -i 's/"step": 4/"step": "four"/' "$state"
resume "step-00000004/state\.json: does not have the checksum at its end; it was damaged; \
the checkpoint before it is .*step-00000002: --override"
printf '{}' >"$state"
resume 'state\.json: not the state of a run: the key "schema_version" is missing'
cp state.json "$state"
mv run/checkpoints/step-00000004/optimizer.safetensors .
resume 'step-00000004/optimizer\.safetensors: cannot read: No such file'
mv optimizer.safetensors run/checkpoints/step-00000004
cp train.tsv train.bak
printf 'red\tred\tand\n' >>train.tsv
resume 'the training data changed since the run began'
mv train.bak train.tsv
cp vocab.txt vocab.bak
echo more >>vocab.txt
resume 'the tokenizer changed since the run began'
mv vocab.bak vocab.txt
mv dev.tsv dev.bak
resume 'dev\.tsv: no such file'
mv dev.bak dev.tsv
run "$COMERA" pretrain --resume run
expect_exit 0

# A diverged run names a checkpoint from before the weights that caused it.
run "$COMERA" pretrain "${tiny[@]}" --steps 40 --lr 1e30 --clip 0 --save-every 1 -o diverged
expect_exit 1
expect_err "step [0-9]+: the loss or a gradient is not finite .*; \
(the last good checkpoint is diverged/checkpoints/step-|there is no good checkpoint)"
failing=$(sed -n 's/.*step \([0-9]*\): the loss.*/\1/p' .err)
if grep -q "step-$(printf %08d $((failing - 1)));" .err; then
  fail "the checkpoint with the diverged weights is not called good"
fi

# A closed pipe on stdout ends the program without a message. A failed write to stdout is an error.
last="inspect | head"
"$COMERA" inspect run 2>.err | head -n 1 >.out
expect_no_err
expect_out '^weight'

# Missing permissions. Root ignores permissions, so root runs these commands as another user.
user=()
if [ "$(id -u)" = 0 ]; then
  command -v setpriv >/dev/null && user=(setpriv --reuid 65534 --regid 65534 --clear-groups)
  [ ${#user[@]} -gt 0 ] && ! "${user[@]}" test -x "$COMERA" && echo "skipped: others cannot run $COMERA" && finish
fi
if [ "$(id -u)" != 0 ] || [ ${#user[@]} -gt 0 ]; then
  chmod 755 "$work"
  touch .out .err && chmod 644 ./*.txt ./*.tsv
  mkdir closed && chmod 555 closed
  run "${user[@]}" "$COMERA" pretrain "${tiny[@]}" -o closed/run
  expect_refused 'closed/run: cannot write: Permission denied; choose a folder that you may write to'
  expect_no_file closed/run
  cp train.tsv secret.tsv && chmod 000 secret.tsv
  run "${user[@]}" "$COMERA" pretrain "${model[@]}" "${words[@]}" "${columns[@]}" --data secret.tsv -o new
  expect_refused 'secret\.tsv: cannot be read: Permission denied'
fi

# A full disk, if a small file system can be mounted.
mkdir small
if mount -t tmpfs -o size=64k tmpfs small 2>/dev/null; then
  trap 'umount "$work/small"; chmod -R u+rwX "$work"; rm -rf "$work"' EXIT
  run "$COMERA" pretrain "${tiny[@]}" --save-every 1 --keep 100 --steps 100 -o small/run
  expect_exit 1
  expect_err 'small/run.*: cannot write: No space left on device; free some space'
  expect_equal "$(find small -name '*.comera' | wc -l)" 0
else
  echo "skipped: no small disk can be mounted"
fi
finish
