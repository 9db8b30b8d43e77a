#!/usr/bin/env bash
# recipes/longest_sequence.sh: the longest sequence below the limit, by a program whose plan grows by 1 MiB per token
# above 64, and a row of its run; then --smoke with the program itself.
. "$(dirname "$0")/../cli/expect.sh"
# shellcheck source=shared/product.sh
. "$tests/recipes/shared/product.sh"

mkdir -p data/text folder/text/tokenizer && touch folder/text/tokenizer/tokenizer.model
cat >program <<'STUB'
#!/usr/bin/env bash
for ((i = 1; i <= $#; ++i)); do
  [ "${!i}" = --seq ] && next=$((i + 1)) && tokens=${!next}
  [ "${!i}" = -o ] && next=$((i + 1)) && run=${!next}
  [ "${!i}" = --dry-run ] && dry=yes
done
[ "${dry:-}" ] && echo "peak        $((64 + tokens)) MiB" && exit
mkdir -p "$run"
echo "{\"step_ms\": 2000, \"memory\": {\"planned_peak\": $(((64 + tokens) * 1048576)), \"measured_peak\": 1048576}}" >"$run/report.json"
STUB
chmod +x program
real=$COMERA
export COMERA=$PWD/program
touch data/text/gutenberg16.txt.zst
LIMIT=2048 ROWS='dense:cheap,int8:adamw tt:keep:adamw' run "$tests/../recipes/longest_sequence.sh" "$PWD/folder"
expect_exit 0
# 64 + 1920 + 2 <= 2048 < 64 + 2048
expect_out '^[|] dense [|] `cheap,int8` [|] adamw [|] 1,920 [|] 1984 [|] 1 [|] 2.0 [|] 960 [|]$'
LIMIT=100 ROWS=dense:keep:adamw run "$tests/../recipes/longest_sequence.sh" "$PWD/folder"
expect_out '^[|] dense [|] `keep` [|] adamw [|] none'

export COMERA=$real
rm -r data folder
expect_needs text/gutenberg16.txt.zst longest_sequence
made_text gutenberg16
check_recipe longest_sequence '^[|] dense [|] `keep` [|] adamw [|] [0-9,]+ [|] 1[0-9] [|]' \
  '^[|] tt [|] `block,int8` [|] adamw [|] [0-9,]+ [|] 1[0-9] [|]'
finish
