#!/usr/bin/env bash
# recipes/smollm2.sh: a row for each size and method, budgets of equal bytes, plans of EoRA, and the shares of the
# bootstrap, by a program that writes folders and likelihoods that are known.
. "$(dirname "$0")/../cli/expect.sh"
# shellcheck source=shared/product.sh
. "$tests/recipes/shared/product.sh"
[ -f /usr/share/wordnet/data.noun ] || { echo "SKIPPED: there is no wordnet-base" && exit 77; }
command -v zstd >/dev/null || { echo "SKIPPED: there is no zstd" && exit 77; }

mkdir -p data/text folder/original folder/rotated folder/trained
for ((i = 1; i <= 50; ++i)); do echo "line $i"; done | zstd -q -o data/text/c4_sample.txt.zst
echo "weights on the 4-bit grid of their group: 99.9% before, 15.5% after" >folder/rotated.log
python3 - <<'PY'
import json, struct
header = {"model.embed_tokens.weight": {"dtype": "F32", "shape": [1000, 576], "data_offsets": [0, 0]}}
for i in range(4):
    header[f"model.layers.{i}.mlp.up_proj.weight"] = {"dtype": "F32", "shape": [1536, 576], "data_offsets": [0, 0]}
text = json.dumps(header).encode()
open("folder/trained/report.json", "w").write("{}")
for name in ("trained", "original"):
    open(f"folder/{name}/model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text)
PY
cat >program <<'STUB'
#!/usr/bin/env bash
echo "$@" >>"$calls"
out='' kind=text budgets=''
model=$2
verb=$1
while [ $# -gt 0 ]; do
  case $1 in
    -o | --predictions) out=$2 ;;
    --task) kind=$2 ;;
    --budget) budgets=$2 ;;
  esac
  shift
done
case $verb in
  inspect) printf 'name,parameters\na,576000\nb,3538944\n' ;;
  tensorize)
    case $budgets in *,*) set -- $(printf "$out/budget-%s " ${budgets//,/ }) ;; *) set -- "$out" ;; esac
    for out; do mkdir -p "$out" && head -c 300 /dev/zero >"$out/model.safetensors"; done
    ;;
  evaluate)
    loss=$(case $model in */nearest*) echo 40 ;; */trained | */original) echo 10 ;; *) echo 20 ;; esac)
    if [ "$kind" = choice ]; then
      printf 'answer\tsum\n0\t0\n1\t%s\n' "$((loss > 30 ? 0 : 1))" >"$out"
    else
      printf 'tokens\tloss\n10\t%s\n10\t%s\n' "$loss" "$loss" >"$out"
    fi
    echo '{}'
    ;;
esac
STUB
chmod +x program
real=$COMERA
export COMERA=$PWD/program calls=$PWD/calls
BITS='4.5 3' QUESTIONS=5 run "$tests/../recipes/smollm2.sh" "$PWD/folder"
expect_exit 0
expect_out '15.5% after'
expect_out '^\| original \| 0.00 \| 2.718 \| 100.0 % \| 0.500 \| 0.500 \|  \|$'
for size in 4.5 3; do
  expect_out "^\\| nearest-$size \\| 0.00 \\| 54.598 \\| 50.0 % \\| 0.000 \\| 0\\.[01][0-9]* \\| [0-9]+ \\|$"
  expect_out "^\\| comera-$size \\| 0.00 \\| 7.389 \\| 100.0 % \\| 0.500 \\| 0.500 \\| [0-9]+ \\|$"
  expect_out "^\\| refined-$size \\| 0.00 \\| 7.389 \\| 100.0 % \\| 0.000 \\| 0.500 \\| [0-9]+ \\|$"
  expect_out "^\\| eora-$size \\| 0.00 \\| 7.389 .* 0.500 \\| 0.500 \\|"
done
# Budgets count every weight at so many bits; a whole number of bits needs no budget to round.
budget=$((4114944 * 9 / 16 + 250000)),1793104
grep -q -- "comera.sizes .*--bits auto --budget $budget --calibrate" calls || fail "comera has the budgets $budget"
grep -q -- "refined.sizes .*--budget $budget .*--refine --refine-steps 60" calls || fail "so does the refined model"
grep -q -- "gptq.sizes .*--bits auto --budget $budget .*--sweeps 0 --no-sequential" calls || fail "so does GPTQ"
grep -q -- "nearest-4.5 .*--bits 4" calls || fail "rounding to 4 bits"
grep -q -- "nearest-3 .*--bits auto --budget 1793104$" calls || fail "rounding by budget"
python3 - <<'PY' || fail "EoRA's plan fills the budget with one rank"
import json
layers = json.load(open("folder/eora-4.5.plan.json"))["layers"]
ranks = {layer["name"]: layer["rank"] for layer in layers}
assert {layer["base"] for layer in layers} == {"q4_0g128"} and ranks.pop("model.embed_tokens") == 0
rank = set(ranks.values()).pop()
used = sum(rows * (columns / 2 + 2 * -(-columns // 128)) for rows, columns in (layer["shape"] for layer in layers))
step = 2 * 4 * (1536 + 576)
assert used + rank * step <= 4114944 * 9 / 16 < used + (rank + 1) * step, rank
PY
# A second call makes nothing again.
lines=$(wc -l <calls)
BITS='4.5 3' run "$tests/../recipes/smollm2.sh" "$PWD/folder"
expect_exit 0
expect_equal "$(grep -cvE '^inspect|^--version' calls)" "$(head -n "$lines" calls | grep -cvE '^inspect|^--version')"
METHODS=other BITS=3 run "$tests/../recipes/smollm2.sh" "$PWD/folder"
expect_exit 2

# --smoke with the program itself, from a model whose weights are not on a grid, so that nothing is rotated.
export COMERA=$real
rm -r data folder
expect_needs text/c4_sample.txt.zst smollm2
made_text c4_sample
made_decoder folder/original 256 # more than the 250,000 bytes that each budget adds
cp -r folder/original folder/rotated
echo 'no grid' >folder/rotated.log
check_recipe smollm2 '^\| original \| ' '^\| reference \| ' '^\| nearest-4.5 \| ' '^\| gptq-4.5 \| ' '^\| eora-4.5 \| ' \
  '^\| comera-4.5 \| '
finish
