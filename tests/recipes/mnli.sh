#!/usr/bin/env bash
# recipes/mnli.sh from data to tables, with a model that trains in seconds and the CPU in place of the GPU.
. "$(dirname "$0")/../cli/expect.sh"
recipe=$tests/../recipes/mnli.sh
program=$COMERA

cat >small <<STUB
#!/usr/bin/env bash
words=()
for word in "\$@"; do
  case \$word in
    cuda) word=cpu ;;
    bf16) word=fp32 ;;
    mnli-6enc)
      words+=(encoder-small --layers 1 --hidden 32 --heads 2 --intermediate 64 --positions 128 --order 2
        --embedding-order 2) && continue
      ;;
    30 | 32) word=4 ;;
  esac
  words+=("\$word")
done
exec "$program" "\${words[@]}"
STUB
chmod +x small
mkdir -p data/mnli data/tokenizers
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' red green blue round square \
  >data/tokenizers/bert-base-uncased-vocab.txt
{
  printf 'premise\thypothesis\tlabel\n'
  for i in $(seq 200); do printf 'round red %s\tround\tentailment\nsquare green\tround\tneutral\n' "$((i % 3))"; done
} >rows.tsv
zstd -q rows.tsv -o data/mnli/mnli_train_subset.tsv.zst
cp data/mnli/mnli_train_subset.tsv.zst data/mnli/mnli_dev_matched.tsv.zst

export COMERA=$PWD/small COMERA_DATA=$PWD/data BATCH=8 EARLY=2 LATE=2
run "$recipe" --device cuda "$PWD/runs"
expect_exit 0
expect_out '^\| dense \| [0-9.]+ % \| [0-9,]+ \| 1.0x \| .* \| 62.2 %, 256 MB \|$'
expect_out '^\| late-0.2 \| [0-9.]+ % \| '
# dense has all epochs, early its own, late the remaining ones.
expect_equal "$(awk -F ' *[|] *' '$8 ~ /%|^$/ && $3 ~ /^[0-9]+$/ { print $2 $3 }' .out | tr '\n' ' ')" \
  "dense1 dense2 dense3 dense4 early1 early2 late-0.83 late-0.84 late-0.53 late-0.54 late-0.23 late-0.24 "
bytes() { sed -n 's/^ *"file_bytes": \([0-9]*\).*/\1/p' "runs/$1/report.json"; }
[ "$(bytes late-0.2)" -lt "$(bytes late-0.8)" ] ||
  fail "the late stage towards 0.2 is not smaller than the one towards 0.8"
[ "$(bytes late-0.8)" -lt "$(bytes early)" ] || fail "the late stage towards 0.8 is not smaller than the early one"
[ -s runs/compared.html ] || fail "compared.html was not written"

# On the CPU: the same time for both, then a late stage.
TIME=2s LATE=60 run "$recipe" "$PWD/equal"
expect_exit 0
expect_out '^== TT at the steps that dense reached'
expect_out '^tt-half +[0-9.]+ % '

run "$recipe" --device cuda one two
expect_exit 2
expect_err 'recipes/mnli.sh --device cuda'
finish
