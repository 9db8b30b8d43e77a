#!/usr/bin/env bash
# Models of clicks: trained, resumed, evaluated, asked and exported; wrong data are refused.
. "$(dirname "$0")/../expect.sh"

# 1,200 rows. Some users, some items and large numbers make a click likely.
rows() {
  printf 'click,user,item,tags,price\n'
  awk -v seed="$1" 'BEGIN {
    srand(seed)
    for (i = 0; i < 1200; i++) {
      user = int(rand() * 40); item = int(rand() * 30); price = int(rand() * 100)
      score = (user % 3 - 1) * 1.5 + (item % 3 - 1) * 1.5 + (price - 50) / 40
      printf "%d,u%d,i%d,%s,%d\n", rand() < 1 / (1 + exp(-score)), user, item, \
        (item % 5 ? "t" item % 5 "|t" item % 7 : ""), price
    }
  }'
}
rows 1 >train.csv
rows 2 >dev.csv
cat >schema.json <<'SCHEMA'
{"label": "click", "dense": [{"column": "price", "transform": "standard"}],
 "categories": ["user", "item", {"column": "tags", "separator": "|", "pooling": "mean"}]}
SCHEMA

options=(--model dlrm-small --hidden 8 --bottom-mlp 16 --top-mlp 32 --schema schema.json --data train.csv --dev dev.csv
  --batch 64 --steps 120 --seed 3 --lr 5e-3 --lr-cores 5e-3 --save-every 40 --quiet)
forms=(--form tt --tt-rows 20 --embedding-rank 4 --embedding-order 2)

run "$COMERA" pretrain "${options[@]}" --form dense -o dense
expect_exit 0
expect_file dense/categories.safetensors
expect_file dense/report.html
grep -q Calibration dense/report.html || fail 'the report has a calibration curve'
run "$COMERA" pretrain "${options[@]}" "${forms[@]}" -o whole
expect_exit 0

# Both learn: the constant answer has AUC .5 and NCE 1.
for name in dense whole; do
  run "$COMERA" evaluate $name --data dev.csv --json --require 'auc>=0.7' --require 'nce<0.95'
  expect_exit 0
  expect_json "d['task'] == 'ctr' and d['examples'] == 1200 and 0 < d['auc_error'] < .03 and len(d['calibration_curve']) == 10"
done
# Measures that need both answers have no value where all examples are alike.
awk -F, 'NR == 1 || $1 == 0' dev.csv >alike.csv
run "$COMERA" evaluate dense --data alike.csv --json
expect_exit 0
expect_json "d['auc'] is None and d['loss'] > 0"
run "$COMERA" evaluate dense --data alike.csv --require 'auc>=.5'
expect_exit 1
expect_err 'auc has no value on this data; it needs examples with a click and without, and 0 of [0-9]+ have one; give'
run "$COMERA" inspect whole
expect_out 'emb_l.0.weight +embedding.*ttm'
expect_out 'emb_l.2.weight +embedding.*dense'
run "$COMERA" inspect --runs dense whole
expect_out 'dev AUC'

# Other threads, micro-batches in place of one batch, and a resume give the same bytes.
run "$COMERA" pretrain "${options[@]}" "${forms[@]}" --threads 2 -o threads
expect_same_bytes whole/model.safetensors threads/model.safetensors
cp -r whole again
rm -r again/checkpoints/step-00000120 again/model.safetensors
run "$COMERA" pretrain --resume again
expect_exit 0
expect_same_bytes whole/model.safetensors again/model.safetensors
run "$COMERA" pretrain --resume again --schema other.json
expect_refused 'schema'

# Adagrad on the tables alone, of dense and of TTM form.
tables=("${options[@]}" "${forms[@]}" --optimizer 'emb_l.?=adagrad' --layer 'emb_l.1=form:dense' --lr-tables 5e-2
  --lr-cores 5e-2)
run "$COMERA" pretrain "${tables[@]}" -o adagrad
expect_exit 0
run "$COMERA" pretrain "${tables[@]}" --threads 2 -o adagrad-threads
expect_same_bytes adagrad/model.safetensors adagrad-threads/model.safetensors
rm -r adagrad-threads/checkpoints/step-00000120 adagrad-threads/model.safetensors
run "$COMERA" pretrain --resume adagrad-threads
expect_exit 0
expect_same_bytes adagrad/model.safetensors adagrad-threads/model.safetensors
run "$COMERA" evaluate adagrad --data dev.csv --require 'auc>=0.7'
expect_exit 0

# A run that is stopped after its best model reports what the undisturbed run does.
fast=("${options[@]:0:${#options[@]}-1}" --form dense --lr 3e-2 --schedule constant --eval-every 20 --log-every 1)
run "$COMERA" pretrain "${fast[@]}" -o best
expect_exit 0
"$COMERA" pretrain "${fast[@]}" -o stopped >.out 2>stopped.err &
pid=$!
while kill -0 $pid 2>/dev/null && ! grep -q 'step 90/120' stopped.err 2>.err; do sleep 0.01; done
kill -s TERM $pid 2>/dev/null
wait $pid
run "$COMERA" pretrain --resume stopped
expect_exit 0
expect_same_bytes best/model.safetensors stopped/model.safetensors
python3 - <<'PY' || fail 'a resumed run reports the metrics of clicks of the undisturbed run'
import json
best, stopped = (json.load(open(f"{name}/report.json")) for name in ("best", "stopped"))
assert best["dev"]["best"]["step"] <= 80 and best["dev"] == stopped["dev"], (best["dev"], stopped["dev"])
assert best["dev"]["best"]["auc"] == best["auc"] and best["dev"]["last"]["auc"] != best["auc"], best["dev"]
assert all(best[key] == stopped[key] for key in ("auc", "nce", "calibration", "accuracy")), stopped
PY

# predict: a probability per row, with or without the column of labels, from a file and from standard input.
run "$COMERA" predict whole --data dev.csv
expect_exit 0
expect_equal "$(wc -l <.out)" 1200
cut -d, -f2- dev.csv >unknown.csv
cp .out known.out
run "$COMERA" predict whole --data unknown.csv
expect_same_bytes .out known.out
run_with "$(head -n 3 dev.csv)
" "$COMERA" predict whole
paste .out <(head -n 2 known.out) | awk '{ d = $1 - $2; if (d < -1e-5 || d > 1e-5) exit 1 }' || fail 'standard input gives the same answers'
run "$COMERA" predict whole --data dev.csv --jsonl
expect_jsonl "len(d) == 1200 and all(0 < one['probability'] < 1 for one in d)"

# A dense folder: no chains, the same answers within rounding.
run "$COMERA" export whole -o plain --to safetensors
expect_exit 0
run "$COMERA" predict plain --data dev.csv
expect_exit 0
paste .out known.out | awk '{ d = $1 - $2; if (d < -1e-5 || d > 1e-5) exit 1 }' || fail 'the dense folder answers alike'
run "$COMERA" export whole -o whole.onnx
expect_refused 'not written as ONNX'

# A plan without data has Criteo's tables; with data those of the data.
# Muon is the default, and no weight of this model is for it: the choice and the advice without memory leave it.
run "$COMERA" pretrain "${options[@]}" --fit 1GiB --steps 1 -o fitted
expect_exit 0
last="pretrain with ulimit -v"
(ulimit -v 1500000 && exec "$COMERA" pretrain "${options[@]}" --batch 4000000 --threads 1 -o large >.out 2>.err)
code=$?
expect_exit 1
expect_err '; --activations cheap needs [0-9.]+ GiB by plan'

run "$COMERA" pretrain --model dlrm-kaggle --batch 100 --dry-run --json
expect_json "d['totals']['parameters_dense'] > 99 * d['totals']['parameters']"
run "$COMERA" pretrain "${options[@]}" "${forms[@]}" --dry-run --json
expect_json "[layer['shape'][0] for layer in d['layers'] if layer['name'].startswith('emb_l.')][:2] == [41, 31]"

# Frappe's form needs no schema.
awk -F, 'NR > 1 { printf "%d %d:1 %d:1\n", $1 ? 1 : -1, substr($2, 2), 100 + substr($3, 2) }' train.csv >train.libfm
run "$COMERA" pretrain --task ctr --data train.libfm --batch 64 --steps 3 --quiet -o libfm
expect_exit 0

# Wrong data: one line with file, line and column, and no run folder.
refuses() { # MESSAGE OPTIONS...
  local message=$1
  shift
  run "$COMERA" pretrain "${options[@]}" "$@" -o new
  expect_refused "$message"
  expect_no_file new
}
sed '3s/^./2/' train.csv >label.csv
refuses "label.csv: line 3: the label is '2'; 0 or 1 is wanted" --data label.csv
sed '4s/,[0-9]*$/,cheap/' train.csv >price.csv
refuses "price.csv: line 4: column 'price' has 'cheap'" --data price.csv
cut -d, -f1-4 train.csv >missing.csv
refuses "missing.csv: has no column 'price'" --data missing.csv
sed 's/"item"/"items"/' schema.json >other.json
refuses "has no column 'items'.*did you mean" --schema other.json
sed 's/"item"/{"column": "item", "encoding": "id", "rows": 9}/' schema.json >range.json
refuses "line 2: column 'item' has 'i" --schema range.json
echo '{"label": "click"' >broken.json
refuses 'broken.json' --schema broken.json
run "$COMERA" pretrain --model dlrm-small --data train.csv --steps 1 -o new
expect_refused 'train.csv: the columns are not known; use --schema FILE'
run "$COMERA" pretrain --model encoder-small --task ctr --data train.csv --schema schema.json --steps 1 -o new
expect_refused 'use --model dlrm-small'
# Options that can have no effect on clicks, and what a model of clicks cannot do.
for option in '--text user' '--chat' '--data-format csv' '--tokenizer vocab.txt' '--case cased' '--seq 64'; do
  # shellcheck disable=SC2086
  refuses "${option%% *} has no effect: clicks have no texts, and their schema names the columns; leave it out" $option
done
for option in '--layers 2' '--heads 2' '--dropout 0.1' '--norm-epsilon 1e-5'; do
  # shellcheck disable=SC2086
  refuses "${option%% *} is for transformers, and dlrm-small is a model of clicks; leave it out" $option
done
refuses '--positions is for models of texts, and dlrm-small is a model of clicks' --positions 64
for verb in 'predict whole' 'evaluate whole --data dev.csv'; do
  for option in '--text user' '--label click' '--tokenizer vocab.txt' '--seq 8'; do
    # shellcheck disable=SC2086
    run "$COMERA" $verb $option
    expect_refused "${option%% *} has no effect: clicks have no texts, and their schema names the columns"
  done
done
run "$COMERA" predict whole --data dev.csv --max-tokens 4
expect_refused 'max-tokens has no effect: whole is a model of clicks, and decoders alone continue texts'
run "$COMERA" evaluate whole --against dense
expect_refused 'reads clicks and no text; compare two models by .comera evaluate. of each on clicks'
run "$COMERA" evaluate whole --task choice --data dev.csv
expect_refused 'whole is a model of clicks; choices are compared by the probability that a decoder gives'
run "$COMERA" export whole -o whole.gguf --to gguf
expect_refused 'whole: is a model of clicks; --to gguf writes llama decoders; use --to safetensors'
run "$COMERA" tensorize dense -o small --ratio 2
expect_refused 'dense: is a model of clicks, .* train it by .comera pretrain --form tt., or name its weights with --include'
run "$COMERA" tensorize dense -o small --ratio 2 --include 'top_l.*' --calibrate dev.csv
expect_refused 'dense: reads clicks, but --calibrate gives text; leave it out'
run "$COMERA" evaluate dense --data missing.csv
expect_refused "has no column 'price'"
rm dense/categories.safetensors
run "$COMERA" evaluate dense --data dev.csv
expect_refused 'categories.safetensors: is missing'

finish
