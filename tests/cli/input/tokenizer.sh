#!/usr/bin/env bash
# comera tokenizer: lines in, lines out; refused calls.
. "$(dirname "$0")/../expect.sh"

printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' the cat sat '##s' . >vocab.txt
run_with $'The cats sat.\n\nxyzzy cat\n' "$COMERA" tokenizer encode --tokenizer vocab.txt
expect_exit 0
expect_equal "$(cat .out)" $'5 6 8 7 9\n\n1 6'
expect_no_err
run_with $'cat\n' "$COMERA" tokenizer encode --tokenizer vocab.txt --special
expect_equal "$(cat .out)" '2 6 3'
run_with $'5 6 8 7 9\n\n2 6 3\n' "$COMERA" tokenizer decode --tokenizer vocab.txt
expect_exit 0
expect_out '^the cats sat'
expect_equal "$(sed -n 3p .out)" cat

run_with $'the cat\nsat\n' "$COMERA" tokenizer encode --tokenizer vocab.txt --json
expect_json "d['schema_version'] == 1 and d['lines'] == [[5, 6], [7]]"
run_with $'5 6\n' "$COMERA" tokenizer decode --tokenizer vocab.txt --json
expect_json "d['lines'] == ['the cat']"

run_with '' "$COMERA" tokenizer encode --tokenizer vocab.txt
expect_exit 0
expect_no_out

run "$COMERA" tokenizer
expect_refused 'expected .*encode.* after `comera tokenizer`'
run "$COMERA" tokenizer enkode
expect_refused "'enkode' is none of .*did you mean encode"
run "$COMERA" tokenizer encode
expect_refused '--tokenizer is missing'
run "$COMERA" tokenizer encode --tokenizer missing.txt
expect_refused 'missing.txt'
echo >some.safetensors
run "$COMERA" tokenizer encode --tokenizer some.safetensors
expect_refused 'some.safetensors: a file of weights alone has no tokenizer; give the folder'
run_with $'5 six\n' "$COMERA" tokenizer decode --tokenizer vocab.txt
expect_refused "stdin:1: 'six' is not an id"
run_with $'5\n99\n' "$COMERA" tokenizer decode --tokenizer vocab.txt
expect_exit 2
expect_err '99'
run_with $'cat \xc3\n' "$COMERA" tokenizer encode --tokenizer vocab.txt
expect_refused 'stdin: line 1: .*UTF-8'
printf '%s\n' the cat >bad.txt
run_with x "$COMERA" tokenizer encode --tokenizer bad.txt
expect_exit 2
expect_err 'bad.txt.*\[UNK\]'

# A line that never ends is refused before it fills the memory.
head -c 70000000 /dev/zero | tr '\0' x >long.txt
"$COMERA" tokenizer encode --tokenizer vocab.txt <long.txt >.out 2>.err
code=$?
expect_exit 2
expect_err 'stdin: line 1.* 64 MiB'
rm long.txt

# Training from text: two calls give the same bytes, and encoded text decodes to itself.
for i in $(seq 200); do echo "the quick brown fox jumps over the lazy dog number $i"; done >corpus.txt
run "$COMERA" tokenizer train --data corpus.txt --vocab-size 120 --sample 150 --seed 3 -o one --json
expect_exit 0
expect_json "d['texts'] == 150 and 5 < d['vocab_size'] <= 120"
expect_file one/vocab.txt
expect_file one/report.json
run "$COMERA" tokenizer train --data corpus.txt --vocab-size 120 --sample 150 --seed 3 -o two
expect_same_bytes one/vocab.txt two/vocab.txt
run_with $'the lazy fox\n' "$COMERA" tokenizer encode --tokenizer one
expect_exit 0
cp .out ids.txt
run_with "$(cat ids.txt)"$'\n' "$COMERA" tokenizer decode --tokenizer one
expect_equal "$(cat .out)" 'the lazy fox'
expect_file one/tokenizer.json
run "$COMERA" tokenizer train --data corpus.txt --kind sentencepiece-bpe --vocab-size 90 -o three
expect_exit 0
expect_file three/tokenizer.model
run "$COMERA" tokenizer train --data corpus.txt --kind bpe --vocab-size 90 -o four --quiet
expect_refused 'no room for the 261 of special pieces and bytes; use --vocab-size 261'
expect_no_file four
run "$COMERA" tokenizer train --data corpus.txt --kind wordpiece --frame decoder -o four
expect_refused 'frame decoder does not fit'
for kind in bpe unigram; do
  run "$COMERA" tokenizer train --data corpus.txt --kind $kind --frame decoder --vocab-size 270 -o "json-$kind" --quiet
  expect_exit 0
  expect_file "json-$kind/tokenizer.json"
  run_with $'the lazy fox\n' "$COMERA" tokenizer encode --tokenizer "json-$kind"
  expect_exit 0
  cp .out ids.txt
  run_with "$(cat ids.txt)"$'\n' "$COMERA" tokenizer decode --tokenizer "json-$kind"
  expect_equal "$(cat .out)" 'the lazy fox'
  run "$COMERA" pretrain --model llama-6m --task clm --form dense --layers 1 --hidden 32 --intermediate 64 --heads 2 \
    --data corpus.txt --tokenizer "json-$kind" --seq 16 --batch 4 --steps 2 --quiet -o "run-$kind"
  expect_exit 0
  expect_same_bytes "run-$kind/tokenizer.json" "json-$kind/tokenizer.json"
done
run "$COMERA" tokenizer train --data corpus.txt -o one
expect_refused 'one: exists and is not an empty folder'
run "$COMERA" tokenizer train --data corpus.txt
expect_refused 'output is missing'
run "$COMERA" tokenizer train --data nothing.txt -o four
expect_exit 2
expect_err 'nothing.txt'
expect_no_file four
finish
