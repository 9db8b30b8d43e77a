#!/usr/bin/env bash
# recipes/bits.sh: five rows for each number of bits, equal bytes for the budget, by a program that writes folders whose
# size is known; then --smoke with the program itself.
. "$(dirname "$0")/../cli/expect.sh"
# shellcheck source=shared/product.sh
. "$tests/recipes/shared/product.sh"

mkdir -p data/text model && head -c 1000 /dev/zero >model/model.safetensors
for ((i = 1; i <= 20; ++i)); do echo "line $i"; done >data/text/lines.txt
cat >program <<'STUB'
#!/usr/bin/env bash
case $1 in
  evaluate)
    echo '  "perplexity": 4.25,'
    while [ $# -gt 0 ] && [ "$1" != --predictions ]; do shift; done
    # Cosines in the order of the scores; of the dense model two pairs have changed places.
    [ $# -eq 0 ] || case $2 in
      *dense.tsv) printf 'score\tcosine\n1\t.2\n2\t.1\n3\t.3\n4\t.4\n5\t.5\n' >"$2" ;;
      *) printf 'score\tcosine\n1\t.1\n2\t.2\n3\t.3\n4\t.4\n5\t.5\n' >"$2" ;;
    esac
    ;;
  tensorize)
    echo "$@" >>"$calls"
    while [ "$1" != -o ]; do shift; done
    mkdir -p "$2" && head -c 300 /dev/zero >"$2/model.safetensors"
    ;;
esac
STUB
chmod +x program
real=$COMERA
export COMERA=$PWD/program MODEL=$PWD/model TEXT=$PWD/data/text/lines.txt calls=$PWD/calls
BITS='4 3' run "$tests/../recipes/bits.sh" "$PWD/folder"
expect_exit 0
expect_out '^[|] dense [|] - [|] 1000 [|] 4.2500 [|]$'
for method in nearest gptq comera budget refined; do
  expect_out "^[|] 4 [|] $method [|] 300 [|] 4.2500 [|]$"
  expect_out "^[|] 3 [|] $method [|] 300 [|] 4.2500 [|]$"
done
expect_equal "$(wc -l <folder/calibration.txt)" 16
expect_equal "$(wc -l <folder/last.txt)" 4
grep -q -- '--bits auto --budget 4396 ' calls || fail "the budget is the bytes of comera's folder"
# An encoder: tables too, and further ratios.
sed -i 's/"perplexity": 4.25/"spearman": 0.5/' program
PAIRS=$PWD/pairs.tsv BITS=8 RATIOS='2 5' run "$tests/../recipes/bits.sh" "$PWD/encoder"
expect_exit 0
expect_out '^[|] dense [|] - [|] 1000 [|] 0.5000 [|]$'
expect_out '^[|] ratio-5 [|] refined [|] 300 [|] 0.5000 [|]$'
expect_out '^[|] refined-ratio-5 [|] 1.0000 [|] [+]10.00 [(].0.00 to [+][0-9.]+[)] [|] [+]0.00 [(][+]0.00 to [+]0.00[)] [|]$'
grep -q -- '--ratio 5 ' calls || fail "further ratios are made"
expect_equal "$(grep -c -- '--exclude' calls)" 10
sed -i 's/"spearman": 0.5/"perplexity": 4.25/' program

# What is there is not made again.
BITS='4 3' run "$tests/../recipes/bits.sh" "$PWD/folder"
expect_exit 0
expect_equal "$(wc -l <calls)" 17

unset MODEL TEXT
export COMERA=$real
expect_needs checkpoints/stories15M/model.safetensors bits
rm -r folder
made_text tinystories_sample
made_decoder data/checkpoints/stories15M
check_recipe bits '^[|] dense [|] - [|] ' '^[|] 4 [|] nearest [|] ' '^[|] 4 [|] gptq [|] ' '^[|] 4 [|] comera [|] ' \
  '^[|] 4 [|] budget [|] [0-9]+ [|] [0-9.]+ [|]$'
finish
