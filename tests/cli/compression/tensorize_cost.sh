#!/usr/bin/env bash
# The cost of compression is reported in the last line, in report.json and in the page. evaluate --against reports the
# same for any two models.
. "$(dirname "$0")/../expect.sh"
make="python3 $tests/../scripts/make_checkpoint.py"
small="--layers 2 --hidden 64 --intermediate 128 --vocabulary 100 --heads 4"
last_line() { tail -n 1 .out | grep -qE -- "$1" || fail "the last line matches '$1'"; }

# shellcheck disable=SC2086  # lists of words
{
  $make bert $small --architecture bert --shards 1 --type F32
  $make llama $small --architecture llama --shards 1 --type F32
  $make other $small --architecture gpt2 --shards 1 --type F32
}
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' a e i o u s t n r d l h c m the of and >bert/vocab.txt
for letter in a b c d e f g h i j k l m n o p q r s t u v w x y z; do
  printf '##%s\n%s\n' "$letter" "$letter"
done >>bert/vocab.txt
awk '!seen[$0]++' bert/vocab.txt >vocab.txt && cp vocab.txt bert/vocab.txt && cp vocab.txt llama/vocab.txt
for i in $(seq 96); do
  printf 'the cat number %s sat on the mat and saw %s dogs\n' "$i" "$((i * 7 % 13))"
done >text.txt

run "$COMERA" tensorize bert -o small --ratio 2
expect_exit 0
last_line '^cost: .*cosine of hidden states 0\.[0-9]+ .*the sample that is built in; text given with --calibrate '\
'keeps more'
expect_out '^cut: [01] of 1 tables, [0-9]+ of 8 attention layers, [0-9]+ of 4 feed-forward layers'
run python3 -c "
import json
d = json.load(open('small/report.json'))
assert 0 < d['cost']['hidden_cosine'] < 1 and d['cost']['tokens'] > 100 and d['kinds']['tables']['of'] == 1, d['cost']"
expect_exit 0
grep -q 'cosine of hidden states' small/report.html || fail "the page reports the cost"
run "$COMERA" tensorize bert -o small_1 --ratio 2 --threads 1 --json
expect_json "d['cost'] == json.load(open('small/report.json'))['cost']"
run "$COMERA" tensorize bert -o aware --ratio 2 --calibrate text.txt --calibrate-tokens 2000
expect_exit 0
last_line '^cost: .*held-out text of text.txt$'

# A decoder: loss of the next token. Several ratios: a cost for each, and one hint for all.
run "$COMERA" tensorize llama -o words --ratio 1.3,2 --exclude '*embed*'
expect_exit 0
last_line '^cost: perplexity [0-9.]+ -> [0-9.]+, KL [0-9.]+ nats, same answer in .*keeps more'
[ "$(grep -c '^cost: perplexity' .out)" = 2 ] || fail "each ratio has its cost"
[ "$(grep -c 'keeps more' .out)" = 1 ] || fail "the hint appears once"

# A model that comera cannot run: the cost is left out, with the reason.
sed -i 's/"gpt2"/"gpt_of_others"/' other/config.json
run "$COMERA" tensorize other -o small_other --rank 4 --include 'h.*.c_*'
expect_exit 0
last_line '^cost: not measured: .*gpt_of_others'
rm llama/vocab.txt
run "$COMERA" tensorize llama -o no_words --ratio 2 --exclude '*embed*'
expect_exit 0
last_line '^cost: not measured: .*llama'
cp vocab.txt llama/vocab.txt

# Any two models.
run "$COMERA" evaluate small --against bert --data text.txt --json
expect_exit 0
expect_json "d['kind'] == 'compare' and d['against'] == 'bert' and 0 < d['hidden_cosine'] < 1 and d['texts'] == 96"
run "$COMERA" evaluate bert --against bert --data text.txt --require 'hidden_cosine>=0.99999'
expect_exit 0
expect_out 'hidden states'
run "$COMERA" evaluate small --against bert --data text.txt --require 'hidden_cosine>=0.99999'
expect_exit 1
expect_err 'hidden_cosine is 0\.'
run "$COMERA" evaluate small --against bert
expect_exit 0
head -n 3 text.txt >few.txt
run "$COMERA" evaluate small --against bert --data few.txt
expect_refused '\[evaluate\] --data: few.txt holds 3 lines of 4 tokens or more .* 8 or more are needed'
run "$COMERA" evaluate small --against llama --data text.txt
expect_refused 'only models of one task can be compared'
printf 'zebra\n' >>llama/vocab.txt
run "$COMERA" evaluate words/ratio-2 --against llama --data text.txt
expect_refused 'different tokenizers'
run "$COMERA" evaluate small --against bert --require 'accuracy>=1'
expect_refused 'there is no metric .accuracy.; use cosine, '
run "$COMERA" evaluate small --against bert --data text.txt --label x
expect_refused '--against reads only texts'
finish
