#!/usr/bin/env bash
# Sets of labels, labels of words, and pairs of texts: every verb on such a model, resume, and refused calls; masked words
# of pairs and of whole words; F1 and Matthews' correlation of classes.
. "$(dirname "$0")/../expect.sh"
. "$(dirname "$0")/../tiny_task.sh"

fast=(--tokenizer vocab.txt --dropout 0 --lr 1e-2 --lr-cores 1e-2 --seq 10 --batch 8 --threads 2 --quiet)
{
  printf 'text\tlabel\tsecond\n'
  for _ in $(seq 8); do
    printf 'round red\tcurved|warm\tround\nsquare green\t\tsquare\nround blue\tcurved\tround\nsquare red\twarm\tsquare\n'
  done
} >sets.tsv
{
  printf 'text\tlabel\n'
  for _ in $(seq 8); do
    printf 'round red\tshape colour\nsquare and green\tshape word colour\nblue and red\tcolour word colour\n'
  done
} >tags.tsv

# Sets of labels.
run "$COMERA" pretrain "${model[@]}" "${fast[@]}" --task multilabel --data sets.tsv --dev sets.tsv --steps 100 \
  --form dense -o sets
expect_exit 0
run "$COMERA" evaluate sets --data sets.tsv --json --predictions predicted.tsv --require 'exact>=0.9'
expect_exit 0
expect_json "d['task'] == 'multilabel' and d['examples'] == 64 and d['micro_f1'] > 0.9 and d['macro_f1'] > 0.9"
[ "$(head -n 1 predicted.tsv)" = $'label\tpredicted\tprobability' ] || fail "the right labels are a column"
[ "$(sed -n 2p predicted.tsv | cut -f1,2)" = $'curved|warm\tcurved|warm' ] || fail "the first row has both labels"
sed 's/curved|warm/ curved |\twarm/' sets.tsv | sed 's/|\t/| /' >blanks.tsv
run "$COMERA" evaluate sets --data blanks.tsv --json
expect_json "d['exact'] >= 0.9 and d['examples'] == 64"
run_with $'round red\n\nsquare green\n' "$COMERA" predict sets --jsonl
expect_exit 0
expect_out '"labels":\["curved","warm"\]'
expect_out '"labels":\[\]'
run "$COMERA" export sets -o sets-onnx
expect_exit 0
run "$COMERA" finetune sets --data sets.tsv --steps 2 --quiet -o sets-further
expect_exit 0
grep -q '^task = "multilabel"' sets-further/recipe.toml || fail "the task of a stored model goes on"
grep -q '"problem_type": "multi_label_classification"' sets-further/config.json || fail "config.json names the problem"
printf 'text\tlabel\nround red\tcurved|cold\n' >unknown.tsv
run "$COMERA" evaluate sets --data unknown.tsv
expect_refused "unknown.tsv: line 2: unknown label 'cold'; the labels are 'curved', 'warm'"

# Labels of words.
run "$COMERA" pretrain "${model[@]}" "${fast[@]}" --task tag --data tags.tsv --dev tags.tsv --steps 60 --save-every 30 \
  -o tags
expect_exit 0
run "$COMERA" evaluate tags --data tags.tsv --json --require 'accuracy>=0.9'
expect_exit 0
expect_json "d['task'] == 'tag' and d['examples'] == 64 and d['labels'] == ['colour', 'shape', 'word'] \
    and d['f1'] > 0.9 and d['matthews'] > 0.9"
run_with $'square and red\n' "$COMERA" predict tags
expect_exit 0
expect_out '^shape word colour$'
# A word without tokens, and words beyond --seq, have a label each.
run_with $'square \u200b red\n' "$COMERA" predict tags
expect_out '^shape [a-z]* colour$'
run_with "$(printf 'square and %.0s' $(seq 9))"$'red\n' "$COMERA" predict tags
expect_out "^$(printf 'shape word %.0s' $(seq 9))colour\$"
run_with $'red and red\n' "$COMERA" predict tags --seq 8
expect_out '^colour word colour$'
printf 'text\tlabel\n%sred\t%scolour\n' "$(printf 'square and %.0s' $(seq 9))" "$(printf 'shape word %.0s' $(seq 9))" >long.tsv
run "$COMERA" evaluate tags --data long.tsv --json
expect_json "d['examples'] == 8"
expect_err 'warning: 11 of 19 words lie beyond --seq 10 tokens of their text and are not counted'
grep -q 'BertForTokenClassification' tags/config.json || fail "config.json has transformers' name"
run "$COMERA" export tags -o tags-onnx
expect_exit 0
rm -rf again
cp -r tags again
rm -r again/checkpoints/step-00000060 again/model.safetensors
run "$COMERA" pretrain --resume again
expect_exit 0
expect_same_bytes tags/model.safetensors again/model.safetensors
printf 'text\tlabel\nround red\tshape\n' >short.tsv
refuses 'short.tsv: line 2: the text has 2 words and column .label. has 1 labels; write one label per word' \
  --task tag --data short.tsv
refuses 'the tag task reads one column' --task tag --data sets.tsv --text text,second

# Masked words of pairs, by whole words; then pairs on the stored body.
run "$COMERA" pretrain "${model[@]}" "${fast[@]}" --task mlm --data sets.tsv --dev sets.tsv --text second,text \
  --first-length 2 --whole-words --mask-probability 0.6 --steps 6 --eval-every 3 -o words
expect_exit 0
run "$COMERA" evaluate words --data sets.tsv --mask-probability 0.6 --json
masked_more=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["loss"])' "$work/.out")
run "$COMERA" evaluate words --data sets.tsv --mask-probability 0.15 --json
expect_json "d['loss'] != $masked_more"
run "$COMERA" evaluate words --data sets.tsv --json
expect_exit 0
expect_json "d['task'] == 'mlm' and d['examples'] == 64 and d['loss'] == $masked_more"
refuses 'leaves no room for the second in 10 tokens; use --first-length 2' --task mlm --data sets.tsv \
  --text second,text --first-length 7 --seq 10
for text in text ''; do
  refuses 'first-length has no effect: .*--text names no two columns' --task mlm --data sets.tsv --first-length 3 \
    ${text:+--text $text}
done
run "$COMERA" finetune words --task pairs --data sets.tsv --dev sets.tsv --text text,second --steps 40 --batch 4 \
  --seq 10 --lr 1e-2 --lr-cores 1e-2 --quiet -o pairs
expect_exit 0
head -n 3 sets.tsv >two.tsv
run "$COMERA" evaluate pairs --task pairs --data two.tsv --batch 2 --json --require 'accuracy>=1'
expect_exit 0
expect_json "d['task'] == 'pairs' and d['examples'] == 2 and d['loss'] < 0.7"
expect_json "d['candidates'] == 2 and d['fewest_candidates'] == 2"
grep -q 'second text' .err && fail "all texts have the same number of candidates"
# A short last batch makes the task easier, which is told; among one text its own is always the nearest.
head -n 4 sets.tsv >three.tsv
run "$COMERA" evaluate pairs --task pairs --data three.tsv --batch 2 --json
expect_exit 0
expect_json "d['examples'] == 3 and d['candidates'] == 2 and d['fewest_candidates'] == 1"
expect_err 'warning: the last 1 of 3 pairs are compared with 1 second text, the others with 2'
run "$COMERA" evaluate pairs --task pairs --data two.tsv --batch 1
expect_refused '--batch 1: a first text would be compared with its own second text alone'
head -n 2 sets.tsv >one.tsv
run "$COMERA" evaluate pairs --task pairs --data one.tsv --batch 4
expect_refused 'one.tsv: holds one pair'
run "$COMERA" evaluate pairs --task pairs --data two.tsv --predictions pairs.tsv
expect_refused 'predictions has no effect: --task pairs compares'
expect_no_file pairs.tsv
for row in $'round red\t\t' $'\t\tround'; do
  { cat two.tsv && printf '%s\n' "$row"; } >hole.tsv
  run "$COMERA" evaluate pairs --task pairs --data hole.tsv --batch 3
  expect_refused "hole.tsv: line 4: the text \\(column '(text|second)'\\) is empty; a pair is of two texts"
done
run "$COMERA" finetune words --task pairs --data sets.tsv --text text,second --batch 1 --steps 2 -o alone
expect_refused '--task pairs --batch 1: a text learns from the other pairs'
expect_no_file alone
# A teacher's loss counts sequences, the accuracy pairs.
run "$COMERA" finetune pairs --task pairs --teacher pairs --data sets.tsv --dev two.tsv --text text,second --steps 2 \
  --batch 2 --seq 10 --lr 1e-9 --lr-cores 1e-9 --quiet -o taught
expect_exit 0
run cat taught/metrics.jsonl
expect_jsonl "[(line['dev']['accuracy'], line['dev']['counted']) for line in d if 'dev' in line][-1] == (1, 2)"
run_with $'square and red\n' "$COMERA" predict pairs
expect_exit 0
run "$COMERA" evaluate words --task pairs --data two.tsv --text text,second
expect_refused '--task pairs: words gives no embeddings; its task is mlm'
refuses 'the pairs task reads two columns' --task pairs --data sets.tsv --text text

# Of evaluations with the same accuracy, the one with the least loss is the best.
{ printf 'label\ttext\n' && yes $'red\tround red' | head -n 29 && printf 'green\tsquare\n'; } >most.tsv
run "$COMERA" pretrain "${model[@]}" "${fast[@]}" --data most.tsv --dev most.tsv --steps 12 --eval-every 1 --lr 1e-3 \
  --lr-cores 1e-3 -o best
expect_exit 0
python3 - <<'PY' || fail "the best step has the most accuracy, and of these the least loss"
import json
rows = [row for row in map(json.loads, open("best/metrics.jsonl")) if "dev" in row]
most = max(row["dev"]["accuracy"] for row in rows)
best = [row for row in rows if row["dev"]["accuracy"] == most]
assert len(best) > 1, rows
step = min(best, key=lambda row: row["dev"]["loss"])["step"]
assert step > best[0]["step"] and json.load(open("best/report.json"))["dev"]["best"]["step"] == step, (step, rows)
PY

# Empty texts are counted, and told, in both columns.
printf 'text\tother\tlabel\nround red\t\tred\nround red\tsquare\tred\n' >half.tsv
run "$COMERA" evaluate best --data half.tsv --text text,other
expect_exit 0
expect_err "warning: half.tsv: 1 of 2 rows have an empty text in the column 'other'"
printf 'text\tlabel\n\tred\nround red\tred\n' >empty.tsv
run "$COMERA" evaluate best --data empty.tsv
expect_exit 0
expect_err 'warning: empty.tsv: 1 of 2 rows have an empty text'
printf 'text\tlabel\n\tred\n \tgreen\n' >void.tsv
run "$COMERA" evaluate best --data void.tsv
expect_refused "void.tsv: holds no text; every row of the column 'text' is empty"

# Classes.
run "$COMERA" pretrain "${tiny[@]}" -o classes
expect_exit 0
run "$COMERA" evaluate classes --data dev.tsv --json --require 'f1>=0' --require 'matthews>=-1'
expect_exit 0
expect_json "0 <= d['f1'] <= 1 and -1 <= d['matthews'] <= 1"
finish
