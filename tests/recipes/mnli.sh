#!/usr/bin/env bash
# recipes/mnli.sh from data to tables, with a model that trains in seconds and the CPU in place of the GPU.
. "$(dirname "$0")/../cli/expect.sh"
# shellcheck source=shared/product.sh
. "$tests/recipes/shared/product.sh"
recipe=$tests/../recipes/mnli.sh
program=$COMERA

cat >small <<STUB
#!/usr/bin/env bash
words=()
for word in "\$@"; do
  case \$word in
    cuda) word=cpu ;;
    bf16) word=fp32 ;;
  esac
  words+=("\$word")
done
exec "$program" "\${words[@]}"
STUB
chmod +x small
made_mnli

export COMERA=$PWD/small EARLY=2 LATE=2
run "$recipe" --smoke --device cuda "$PWD/runs"
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

expect_results runs

run "$recipe" --device cuda one two
expect_exit 2
expect_err 'recipes/mnli.sh .--smoke. --device cuda'

# On the CPU: the same time for both, then a late stage.
unset EARLY LATE
cat >python <<'STUB'
#!/bin/sh
[ "$1" = -c ] || echo '{"hypothesis alone": 0.5}'
STUB
chmod +x python
export COMERA=$program PYTHON=$PWD/python
check_recipe mnli '^== TT at the steps that dense reached' '^\| dense \| [0-9.]+ % \| .* \| 62.2 %, 256 MB \|$' \
  '^\| late-0.2 \| [0-9.]+ % ' '^\| small \| [0-9.]+ % ' \
  '^\| bag of words: hypothesis alone \| 50.00 % '
grep -q 'dev accuracy against bytes' folder/runs.html || fail "runs.html has no picture of accuracy against bytes"
grep -q 'class="map"' folder/runs.html || fail "runs.html has no picture of ranks"
run "$recipe" --smoke --device cpu "$PWD/folder"
expect_exit 0
run env -u COMERA_DATA "$recipe" --smoke "$PWD/none"
expect_exit 2
expect_err 'COMERA_DATA is not set. Get MNLI like this'
expect_no_file none
finish
