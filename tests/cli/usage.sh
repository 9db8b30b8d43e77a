#!/usr/bin/env bash
# Verbs, help, mistakes: what is said where, and with which exit code.
. "$(dirname "$0")/expect.sh"

run "$COMERA" --help
expect_exit 0
expect_out '^usage: comera VERB'
expect_out '^  version '
expect_no_err

run "$COMERA" help
expect_exit 0
expect_out '^usage: comera VERB'

run "$COMERA"
expect_refused 'no verb was given; `comera --help` lists them'

run "$COMERA" verzion
expect_refused "unknown verb 'verzion'; did you mean version"

run "$COMERA" version --devise cuda
expect_refused 'unknown option --devise; did you mean --device'

run "$COMERA" version --device gpu
expect_refused "'gpu' is none of cpu, cuda"

run "$COMERA" version extra
expect_refused "unexpected argument 'extra'"

for way in "version --help" "version -h" "help version" "--version --help"; do
  # shellcheck disable=SC2086
  run "$COMERA" $way
  expect_exit 0
  expect_out '^usage: comera version'
  expect_out '--device'
  expect_no_err
done

# Every verb has help that fits what it takes, and an example of a script can be completed for it.
for verb in $("$COMERA" --help | sed -n '/^Verbs:/,/^$/s/^  \([a-z]*\)\( [a-z]*\)\{0,1\}  .*/\1/p' | sort -u); do
  run "$COMERA" "$verb" --help
  expect_exit 0
  expect_out "^usage: comera $verb"
done

# --data trains, measures, or is answered.
run "$COMERA" evaluate --help
expect_out '--data .*'
grep -q 'files to evaluate on' .out || fail "what evaluate reads is no training data"
if grep -q 'training files' .out; then fail "what evaluate reads is no training data"; fi
run "$COMERA" predict --help
expect_out 'answer the lines or rows of these files'

# Underscores are dashes.
run "$COMERA" version --log_file "$work/log"
expect_exit 0

# stdout that cannot be written is a failure, not silence.
if [ -e /dev/full ]; then
  last="comera --help >/dev/full"
  "$COMERA" --help >/dev/full 2>.err
  code=$?
  : >.out
  expect_exit 1
  expect_err 'stdout cannot be written: No space left'
fi

for shell in bash zsh fish; do
  run "$COMERA" completion "$shell"
  expect_exit 0
  expect_out 'version'
  cp .out "completion.$shell"
done
run "$COMERA" completion csh
expect_refused "'csh' is none of bash, zsh, fish"

# The bash script works in a bash.
# shellcheck disable=SC2016
run bash -c '. ./completion.bash; COMP_WORDS=(comera version --de); COMP_CWORD=2; _comera; echo "${COMPREPLY[@]}"'
expect_out '^--device$'
finish
