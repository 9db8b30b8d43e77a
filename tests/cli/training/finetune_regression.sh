#!/usr/bin/env bash
# Regression: real labels select the task, from random weights or on a stored body. Every verb on such a model; refused
# calls.
. "$(dirname "$0")/../expect.sh"
. "$(dirname "$0")/../tiny_task.sh"

{
  printf 'text\tsecond\tscore\tstars\n'
  for _ in $(seq 16); do
    printf 'round red\tround red\t5.0\t5\nround red\tround blue\t2.5\t3\n'
    printf 'square green\tsquare red\t2.5\t3\nsquare blue\tround green\t0.0\t1\n'
  done
} >pairs.tsv
# shellcheck disable=SC2054 # a list of columns is one word
pairs=(--text text,second --label score --data pairs.tsv --dev pairs.tsv)
fast=(--dropout 0 --lr 1e-2 --lr-cores 3e-3 --seq 10 --batch 8 --threads 2 --quiet)

# From random weights: real labels select regression, the model learns, and its files have the measures of a regression
# only.
run "$COMERA" pretrain "${model[@]}" --tokenizer vocab.txt "${fast[@]}" "${pairs[@]}" --steps 60 --eval-every 30 \
  --log-every 10 -o run --json
expect_exit 0
expect_json "d['settings']['task'] == 'regression' and d['dev']['last']['rmse'] < 0.5 \
    and d['dev']['last']['pearson'] > 0.95"
expect_json "d['spearman'] > 0.9 and d['accuracy'] is None and 'accuracy' not in d['dev']['best'] \
    and d['dev']['best']['rmse'] >= 0"
grep -q '^task = "regression"' run/recipe.toml || fail "the recipe names the task"
python3 - <<'PY' || fail "metrics.jsonl has error and correlations, and no accuracy"
import json
lines = [json.loads(line) for line in open("run/metrics.jsonl")]
dev = [line["dev"] for line in lines if "dev" in line]
assert len(dev) == 2, dev
assert all({"loss", "rmse", "pearson", "spearman"} <= set(d) and "accuracy" not in d for d in dev), dev
assert abs(dev[1]["rmse"] ** 2 - dev[1]["loss"]) < 1e-4 * (1 + dev[1]["loss"]), dev
train = [line for line in lines if line.get("split") == "train"]
assert len(train) == 6 and not any("accuracy" in line for line in train) and train[-1]["loss"] < train[0]["loss"]
PY
for words in 'dev correlation' 'dev error' 'dev Spearman'; do
  grep -q "$words" run/report.html || fail "the report page has $words"
done
! grep -q 'dev accuracy' run/report.html || fail "a regression has no accuracy on its page"
python3 - <<'PY' || fail "config.json is what transformers writes for one number"
import json
config = json.load(open("run/config.json"))
assert config["problem_type"] == "regression" and config["num_labels"] == 1, config
assert config["id2label"] == {"0": "LABEL_0"}, config
assert config["architectures"] == ["BertForSequenceClassification"], config
PY

# evaluate with predictions and requirements; predict.
run "$COMERA" evaluate run --data pairs.tsv --json --predictions predicted.tsv --require 'spearman>=0.9' \
  --require 'rmse<0.5'
expect_exit 0
expect_json "d['task'] == 'regression' and d['examples'] == 64 and abs(d['mse'] - d['rmse'] ** 2) < 1e-9 \
    and 'confusion' not in d"
python3 - <<'PY' || fail "error and correlation are those of the written predictions"
import json
rows = [line.split("\t") for line in open("predicted.tsv").read().splitlines()]
assert rows[0] == ["label", "predicted"] and len(rows) == 65, rows[:2]
known, found = zip(*[(float(a), float(b)) for a, b in rows[1:]])
d = json.load(open(".out"))
mean = lambda x: sum(x) / len(x)
mse = mean([(a - b) ** 2 for a, b in zip(known, found)])
k, f = mean(known), mean(found)
products = mean([(a - k) * (b - f) for a, b in zip(known, found)])
pearson = products / (mean([(a - k) ** 2 for a in known]) * mean([(b - f) ** 2 for b in found])) ** 0.5
assert abs(mse - d["mse"]) < 1e-6 * (1 + mse) and abs(pearson - d["pearson"]) < 1e-6, (mse, pearson, d)
PY
run "$COMERA" evaluate run --data pairs.tsv --require 'pearson>1'
expect_exit 1
expect_err 'pearson>1 is not met'
run "$COMERA" evaluate run --data pairs.tsv --require 'accuracy>=0.5'
expect_refused "there is no metric 'accuracy'; use spearman, pearson, rmse, mse, loss"
run_with $'round red\tround red\n\nsquare blue\tround green\n' "$COMERA" predict run
expect_exit 0
python3 -c "
lines = open('.out').read().split('\n')
assert len(lines) == 4 and lines[1] == '' and float(lines[0]) > 3.5 and float(lines[2]) < 1.5, lines" ||
  fail "a number per line"
run_with $'round red\tround red\n\n' "$COMERA" predict run --jsonl
expect_exit 0
expect_jsonl "d[0]['score'] > 3.5 and d[1] == {'line': 2, 'score': None}"
run_with $'round red\n' "$COMERA" predict run --npy none.npy
expect_refused 'npy: run is a regression'

# tensorize, evaluate --against, export: the graph gives one number per text.
run "$COMERA" evaluate run --against run --json --require 'score_spearman>=1' --require 'score_difference<=0'
expect_exit 0
expect_json "'kl' not in d and 'same_best' not in d"
run "$COMERA" export run -o graph --quiet
expect_exit 0
python3 - <<'PY' || fail "the output of the graph is [batch_size, 1]"
data = open("graph/model.onnx", "rb").read()
shape = b"\x0a\x0c\x12\x0abatch_size\x0a\x02\x08\x01"
assert b"logits" in data and shape in data[data.rindex(b"logits"):]
PY
run "$COMERA" inspect --runs run
expect_exit 0
expect_out 'dev Spearman'

# On a stored body: a stopped and resumed run ends with the same bytes. The model keeps its head for the same task and
# gets a new one for another task.
run "$COMERA" pretrain "${model[@]}" --tokenizer vocab.txt --seq 10 --batch 8 --steps 2 --quiet --form dense \
  --text text --label label --data train.tsv -o body
expect_exit 0
go=(--seq 10 --batch 8 --lr 1e-3 --lr-cores 1e-3 --threads 2 --quiet --save-every 3 --log-every 1)
run "$COMERA" finetune body "${go[@]}" "${pairs[@]}" --steps 6 -o tuned --json
expect_exit 0
expect_json "d['settings']['task'] == 'regression' and d['spearman'] is not None"
cp -r tuned whole
rm -r tuned/checkpoints/step-*6 tuned/model.safetensors
run "$COMERA" finetune --resume tuned --quiet --json
expect_exit 0
expect_json "d['dev']['last'] == json.load(open('whole/report.json'))['dev']['last']"
expect_same_bytes tuned/model.safetensors whole/model.safetensors
rm tuned/report.json  # a run that has ended writes it again, from the data in its checkpoint
run "$COMERA" finetune --resume tuned --quiet --json
expect_exit 0
expect_json "d['dev'] == json.load(open('whole/report.json'))['dev'] and d['dev']['best']['spearman'] == d['spearman']"
python3 - <<'PY' || fail "a new head starts at the mean of the labels"
import json
first = json.loads(open("whole/metrics.jsonl").readline())
assert first["loss"] < 4, first  # the variance of the labels is 3.1, the mean of their squares 9.4
PY
run "$COMERA" finetune tuned --data pairs.tsv --text text,second --label stars "${go[@]}" --steps 3 -o stars --json
expect_exit 0
expect_json "d['settings']['task'] == 'regression'"
run "$COMERA" finetune body --data pairs.tsv --text text,second --label stars "${go[@]}" --steps 3 -o classes --json
expect_exit 0
expect_json "d['settings']['task'] == 'classify'"
grep -q '"5"' classes/config.json || fail "whole numbers are classes"
run "$COMERA" finetune body --task classify "${pairs[@]}" "${go[@]}" --steps 3 -o forced --json
expect_exit 0
expect_json "d['settings']['task'] == 'classify'"
run "$COMERA" finetune tuned --task classify --data pairs.tsv --text text,second --label stars "${go[@]}" --steps 3 \
  -o other
expect_exit 0
! grep -q problem_type other/config.json || fail "nothing of the regression is left"
run "$COMERA" finetune body --best-by spearman --eval-every 3 "${pairs[@]}" "${go[@]}" --steps 6 -o ranked --json
expect_exit 0
expect_json "d['dev']['best']['spearman'] == d['spearman']"
run "$COMERA" finetune body --dry-run "${pairs[@]}" --seq 10 --batch 8 --json
expect_exit 0

# With a teacher that was trained for regression, with labels and without.
run "$COMERA" finetune body --teacher run "${pairs[@]}" "${go[@]}" --steps 6 -o taught --json
expect_exit 0
run "$COMERA" finetune tuned --teacher run --text text,second --data pairs.tsv --dev pairs.tsv --dropout 0 "${go[@]}" \
  --lr 1e-2 --steps 40 -o follows --json
expect_exit 0
expect_json "d['settings']['task'] == 'regression' and 'rmse' not in d['dev']['last']"
run "$COMERA" evaluate follows --data pairs.tsv --text text,second --label score --require 'pearson>=0.9'
expect_exit 0

# Many different whole numbers are classes, and the program prints a hint.
{ printf 'text\tscore\n'; for i in $(seq 0 24); do printf 'round red\t%s\n' "$i"; done; } >years.tsv
run "$COMERA" finetune body --data years.tsv --text text --label score --seq 10 --batch 8 --steps 1 -o years
expect_exit 0
expect_err "25 whole numbers of column 'score' become one class each; --task regression"

# Refused calls.
refuse() {  # refuse MESSAGE LABEL OPTION...
  local message=$1 label=$2
  shift 2
  printf 'text\tsecond\tscore\nround\tred\t1.5\nround\tblue\t%s\n' "$label" >bad.tsv
  run_refused "$message" finetune body --data bad.tsv --text text,second --label score "${go[@]}" --steps 2 "$@"
}
refuse "bad.tsv: line 3: the label 'high' \(column 'score'\) is no finite number; .* --task classify" high
refuse "bad.tsv: line 3: the label 'inf'" inf
refuse "bad.tsv: line 3: the label '1e40' .* larger than a float" 1e40
refuse "bad.tsv: line 3: the label \(column 'score'\) is empty" ''
refuse "every label of column 'score' is 1.5" 1.5
refuse "best-by accuracy: the task regression has no such measure; use --best-by loss or spearman" 2 --best-by accuracy --dev train.tsv
refuse "its task is classify, the student's regression" 2 --teacher body
refuse "distill-distance cosine: a regression's numbers are learned by squared error" 2 --teacher run \
  --distill-distance cosine
run_refused "line 2: the label 'red' .* is no finite number" finetune body --task regression "${columns[@]}" \
  --data train.tsv "${go[@]}" --steps 2
run_refused "best-by spearman: the task classify has no such measure" finetune body "${columns[@]}" --data train.tsv \
  "${go[@]}" --steps 2 --best-by spearman --dev dev.tsv
run "$COMERA" evaluate run --data train.tsv --text text,second --label label
expect_refused "train.tsv: line 2: the label 'red' \(column 'label'\) is no finite number"
run "$COMERA" evaluate run --against body --data corpus.txt
expect_refused 'is for classify, .* for regression|is for regression, .* for classify'
finish
