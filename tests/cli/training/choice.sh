#!/usr/bin/env bash
# Multiple choice: log-likelihoods are those of `evaluate` on the same texts; refused calls and questions.
. "$(dirname "$0")/../expect.sh"

printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' red green blue round square and >vocab.txt
for i in $(seq 60); do
  printf 'red round and green square\n\f\nblue %s and red\n\f\n' "$([ $((i % 2)) = 0 ] && echo round || echo square)"
done >train.txt
run "$COMERA" pretrain --model llama-6m --task clm --layers 1 --hidden 32 --heads 4 --intermediate 48 --positions 32 \
  --form dense --data train.txt --tokenizer vocab.txt --seq 16 --batch 8 --steps 60 --lr 1e-2 --seed 7 --threads 2 \
  -o run --json
expect_exit 0

cat >questions.jsonl <<'END'
{"question": "red round and", "choices": ["green square", "red"], "answer": 0}
{"question": "blue square", "choices": ["green", "and red", "square square square"], "answer": "and red", "source": 7}
{"question": "red round and", "choices": ["square", "green"], "answer": 0}
END
run "$COMERA" evaluate run --task choice --data questions.jsonl --predictions found.tsv --json
expect_exit 0
expect_json "d['task'] == 'choice' and d['questions'] == 3 and abs(d['chance'] - 4 / 9) < 1e-9"
expect_json "abs(d['accuracy'] - 2 / 3) < 1e-9 and abs(d['accuracy_error'] ** 2 - 2 / 27) < 1e-9"
expect_equal "$(cut -f 1,2 found.tsv | tr '\t\n' ' ,')" 'answer by_sum,0 0,1 1,0 1,'

# log p(choice | question) is the difference of the losses of the two texts.
loss_of() {
  printf '%s\n' "$1" >text.txt
  "$COMERA" evaluate run --data text.txt --no-document-end --json |
    sed -n 's/^ *"\(loss\|examples\)": \([0-9.e+-]*\),*$/\2/p' | tr '\n' ' '
}
loss_of 'blue square and red' >whole.txt
loss_of 'blue square' >question.txt
run python3 - <<'END'
product = lambda path: (lambda a, b: float(a) * float(b))(*open(path).read().split())
found = float(open('found.tsv').read().splitlines()[2].split('\t')[4].split()[1])
expected = product('question.txt') - product('whole.txt')
assert abs(found - expected) < 1e-4, (found, expected)
END
expect_exit 0

# White space at the end of a question or the begin of a choice is what stands between them.
tr '\f' '\n' <train.txt >lines.txt
run "$COMERA" tokenizer train --data lines.txt --kind bpe --vocab-size 280 -o pieces
expect_exit 0
run "$COMERA" pretrain --model llama-6m --task clm --layers 1 --hidden 32 --heads 4 --intermediate 48 --positions 32 \
  --form dense --data train.txt --tokenizer pieces --seq 16 --batch 8 --steps 3 --quiet -o bytes
expect_exit 0
cat >blanks.jsonl <<'END'
{"question": "red round and", "choices": ["green square", " green square"], "answer": 0}
{"question": "red round and ", "choices": ["green square", "red"], "answer": 0}
{"question": "red round and\n", "choices": ["green square", "red"], "answer": 0}
END
run "$COMERA" evaluate bytes --task choice --data blanks.jsonl --predictions blanks.tsv
expect_exit 0
run python3 - <<'END'
rows = [line.split("\t")[4].split() for line in open("blanks.tsv").read().splitlines()[1:]]
assert rows[0][0] == rows[0][1], rows
# The blank counts in no length, whether the file has it or it is added: of equal choices the first is found.
assert open("blanks.tsv").read().splitlines()[1].split("\t")[3] == "0", rows
assert rows[2][0] != rows[0][0], rows
END
expect_exit 0

run "$COMERA" evaluate run --task choice --data questions.jsonl
expect_exit 0
expect_out 'guesses'
run "$COMERA" evaluate run --task choice --data questions.jsonl --require 'accuracy_per_byte>=1'
expect_exit 1
expect_err 'accuracy_per_byte'
run "$COMERA" evaluate run --task choice --data questions.jsonl --require 'spearman>=1'
expect_refused 'accuracy, accuracy_per_token'
run "$COMERA" evaluate run --task choice --data questions.jsonl --seq 4 --json
expect_exit 0
expect_json "d['shortened'] > 0"

refuse() { # line message
  printf '{"question": "red", "choices": ["green", "blue"], "answer": 0}\n%s\n' "$1" >wrong.jsonl
  run "$COMERA" evaluate run --task choice --data wrong.jsonl --predictions wrong.tsv
  expect_refused "$2"
  expect_no_file wrong.tsv
}
refuse '[1]' 'line 2: is not a JSON object'
refuse '{"question": "red"' 'line 2'
refuse '{"question": "red", "answer": 0}' "line 2: has no key 'choices'"
refuse '{"question": "", "choices": ["a", "b"], "answer": 0}' "line 2: 'question' is empty"
refuse '{"question": "red", "choices": ["a"], "answer": 0}' 'line 2: .*a list of two texts or more'
refuse '{"question": "red", "choices": ["a", 3], "answer": 0}' "line 2: 'choices' is 3"
refuse '{"question": "red", "choices": ["a", "b"], "answer": 2}' 'line 2: the answer 2 is none of the 2 choices'
refuse '{"question": "red", "choices": ["a", "b"], "answer": "c"}' 'the answer "c" is none of the 2 choices'
refuse '{"question": "red", "choices": ["a", "  "], "answer": 0}' 'question 2: .*no tokens for its choice 2'
printf '' >empty.jsonl
run "$COMERA" evaluate run --task choice --data empty.jsonl
expect_refused 'holds no question'
finish
