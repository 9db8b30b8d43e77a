#!/usr/bin/env bash
# --again: the certificate of the earlier run stays true, and parts of compressed weights are no weights.
. "$(dirname "$0")/../expect.sh"
. "$(dirname "$0")/../small_checkpoint.sh"
$make bert --layers 2 --hidden 64 --intermediate 128 --vocabulary 500 --heads 4 --architecture bert --shards 1 --type F32
run "$COMERA" tensorize bert -o refined --bits 3 "${text[@]}" --include '*attention*' --refine --refine-steps 2
expect_exit 0
run "$COMERA" inspect refined --verify bert "${text[@]}"
expect_exit 0
run "$COMERA" tensorize refined -o more --again --bits 4 --include '*intermediate*'
expect_exit 0
run "$COMERA" inspect more --verify bert
expect_exit 0
tac text.txt | sed 's/green/blue/' >other.txt
other=(--calibrate other.txt --tokenizer vocab.txt --calibrate-tokens 800)
run "$COMERA" tensorize refined -o fitted --again --bits 4 --include '*intermediate*' "${other[@]}"
expect_exit 0
run "$COMERA" inspect fitted --verify bert "${other[@]}"
expect_exit 0

run "$COMERA" tensorize bert -o exact --bits 2 --include '*word*' --exact-rows 8 "${text[@]}"
expect_exit 0
run "$COMERA" tensorize exact -o all --again --bits 8 --include '*'
expect_exit 0
run "$COMERA" inspect all --verify bert
expect_exit 0
finish
