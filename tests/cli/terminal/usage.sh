#!/usr/bin/env bash
# Verbs, help and usage errors: the text, its stream, and the exit code.
. "$(dirname "$0")/../expect.sh"

run "$COMERA" --help
expect_exit 0
expect_out '^usage: comera VERB'
expect_out '^  version '
expect_no_err

run "$COMERA" help
expect_exit 0
expect_out '^usage: comera VERB'

run "$COMERA"
expect_exit 0
expect_out '^usage: comera VERB'
expect_no_err

run "$COMERA" verzion
expect_refused "unknown verb 'verzion'; did you mean version"

# Common terms of other programs, also misspelt, lead to the matching option or verb.
while read -r typed meant; do
  run "$COMERA" "$typed"
  expect_refused "unknown verb '$typed'; did you mean $meant\\?"
done <<'EOF'
compress tensorize
svd tensorize
perplexity evaluate
Tensorize tensorize
quantize tensorize
comprss tensorize
quantsie tensorize
generate predict
genrate predict
info inspect
train pretrain or finetune
trian pretrain or finetune
eval evaluate
tokenize tokenizer encode
sample predict
ls inspect
resume --resume RUN
EOF
run "$COMERA" pretrain --batch-size 3
expect_refused 'unknown option --batch-size; did you mean --batch\?'
run "$COMERA" pretrain --batchsize 3
expect_refused 'unknown option --batchsize; did you mean --batch\?'
run "$COMERA" finetune --learning-rate 3
expect_refused 'unknown option --learning-rate; did you mean --lr\?'
run "$COMERA" finetune --lerning_rate=3
expect_refused 'unknown option --lerning-rate; did you mean --lr\?'
while read -r verb typed meant; do
  run "$COMERA" "$verb" "$typed" 3
  expect_refused "unknown option $typed; did you mean $meant\\?"
done <<'EOF'
pretrain --wd --weight-decay
pretrain --val --dev
pretrain --LR --lr
finetune --Batch-Size --batch
pretrain --cuda --device
pretrain --logging-steps --log-every
pretrain --eval-steps --eval-every
pretrain --lora-rank --rank
pretrain --seq-len --seq
pretrain --hidden-size --hidden
pretrain --num-heads --heads
pretrain --early-stopping --patience
tensorize --data --calibrate
tensorize --quant --bits
predict --temp --temperature
tensorize --lora-rank --rank
predict --stream --jsonl
predict --prompt --data
EOF
run "$COMERA" finetune --student small
expect_refused 'unknown option --student; .comera finetune --help-all. lists all'
run "$COMERA" predict model --max-new-tokens 3
expect_refused 'did you mean --max-tokens\?'

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

# The help of every verb starts with its usage, has at most ten options of its own, and fits the terminal; --help-all
# lists all options.
verbs=$("$COMERA" --help | sed -n '/^Verbs:/,/^$/s/^  \([a-z][a-z]*\( [a-z]*\)\{0,1\}\)  .*/\1/p')
[ "$(printf '%s\n' "$verbs" | wc -l)" -ge 13 ] || fail 'all verbs are found'
longest() { awk '{ if (length($0) > n) n = length($0) } END { print n + 0 }' "$1"; }
options_shown() { sed -n '/ptions:$/,$p' .out | grep -cE '^  (-[a-z], |    )--'; }
while read -r -a verb; do
  for columns in 40 60 80 120; do
    run env COLUMNS=$columns "$COMERA" "${verb[@]}" --help
    expect_exit 0
    head -n 1 .out | grep -q "^usage: comera ${verb[*]}" || fail 'help begins with the usage'
    [ "$(longest .out)" -le $columns ] || fail "no line of help is longer than $columns columns"
    [ "$(options_shown)" -le 10 ] || fail 'help shows ten options at most'
    run env COLUMNS=$columns "$COMERA" "${verb[@]}" --help-all
    expect_exit 0
    expect_out '--dump-config'
    [ "$(longest .out)" -le $columns ] || fail "no line of all help is longer than $columns columns"
  done
done <<<"$verbs"
for verb in pretrain finetune tensorize evaluate predict export bench 'tokenizer train'; do
  # shellcheck disable=SC2086
  run "$COMERA" $verb --help
  [ "$(options_shown)" = 10 ] || fail 'ten options are common'
done

run "$COMERA" finetune --help
expect_out '  --steps N'

# A flag that is on by default is printed with both spellings and the verb's own default.
run "$COMERA" tensorize --help-all
expect_out '--\[no-\]gauge '
expect_out '--\[no-\]sequential '
run "$COMERA" pretrain --help-all
expect_out '--\[no-\]adapt-ranks  *remove entries of rank'
grep -A 5 -F -- '--[no-]adapt-ranks' .out | tr -d '\n' | tr -s ' ' | grep -q '(default: on)' ||
  fail 'ranks are adapted in pretrain by default'
run "$COMERA" finetune --help-all
grep -A 5 -F -- '--[no-]adapt-ranks' .out | tr -d '\n' | tr -s ' ' | grep -q '(default: on with a target, else off)' ||
  fail 'in finetune ranks are adapted if there is a target'

# The help of --data depends on the verb: training, evaluation or prediction.
run "$COMERA" evaluate --help-all
expect_out '--data .*'
grep -q 'files to evaluate on' .out || fail "evaluate has no training data in its help"
if grep -q 'training files' .out; then fail "evaluate has no training data in its help"; fi
run "$COMERA" predict --help
expect_out 'answer the lines or rows of these files'

# Underscores in option names count as dashes.
run "$COMERA" version --log_file "$work/log"
expect_exit 0

# A failed write to stdout is an error with a message.
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

# The completion script works in bash.
# shellcheck disable=SC2016
run bash -c '. ./completion.bash; COMP_WORDS=(comera version --de); COMP_CWORD=2; _comera; echo "${COMPREPLY[@]}"'
expect_out '^--device$'
complete_with() {  # complete_with LAST WORD BEFORE IT...: runs the completion of bash, one word
  # shellcheck disable=SC2016
  run bash -c '. ./completion.bash; last=$1; shift; COMP_WORDS=(comera "$@" "$last"); COMP_CWORD=$#
    COMP_CWORD=$((COMP_CWORD + 1)); _comera; echo ${COMPREPLY[@]}' \
    - "$@"
  expect_exit 0
  expect_no_err
}
complete_with --ga tensorize
expect_out '^--gauge$'
complete_with --no-ga tensorize
expect_out '^--no-gauge$'
complete_with mnli pretrain --model
expect_out '^mnli-6enc$'
complete_with '' tensorize model --form
expect_out '^auto tt ttm lowrank$'
complete_with tt tensorize model --form =
expect_out '^tt ttm$'
complete_with en tokenizer
expect_out '^encode$'
complete_with --vo tokenizer train
expect_out '^--vocab-size$'
complete_with '' tokenizer encode --tokenizer
expect_out '^$'
complete_with z completion
expect_out '^zsh$'
finish
