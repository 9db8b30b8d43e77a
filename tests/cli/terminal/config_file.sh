#!/usr/bin/env bash
# --dump-config writes the complete call of every verb; --config reads it back to the same call.
. "$(dirname "$0")/../expect.sh"

verbs=$("$COMERA" --help | sed -n '/^Verbs:/,/^$/s/^  \([a-z][a-z]*\( [a-z]*\)\{0,1\}\)  .*/\1/p')
[ "$(printf '%s\n' "$verbs" | wc -l)" -ge 13 ] || fail 'all verbs are found'

# Prints valid values of every option of a verb from its page, one argument per line: choices, numbers, sizes, names.
cat >arguments.py <<'EOF'
import re, sys

skipped = {"config", "dump-config", "help", "help-all", "log-file"}
for line in open(sys.argv[1]):
    row = re.match(r"\| (?:`-\w` )?`--(\[no-\])?([a-z0-9-]+) ?(.*?)` \|", line)
    if not row or row[2] in skipped:
        continue
    negatable, name, value = row[1], row[2], row[3].replace("\\|", "|").strip("[]")
    if not value:
        print("--no-" + name if negatable else "--" + name)
        continue
    samples = {"N": "17", "X": "0.5", "SIZE": "3MiB", "STEPS|TIME": "20m", "R,...": "2,3"}
    text = samples.get(value) or (value.split("|")[-1] if "|" in value and value == value.lower() else 'a "name", \\ b')
    print("--" + name)
    print(text)
EOF
"$COMERA" manual markdown -o pages
while read -r -a verb; do
  page=pages/$(IFS=-; echo "${verb[*]}").md
  mapfile -t arguments < <(python3 arguments.py "$page")
  words=()
  grep -q '^    comera .* [A-Z]' "$page" && words=('a word "in" quotes')
  # Some options have tighter bounds than the sample values.
  for i in "${!arguments[@]}"; do
    case "${arguments[$i]}" in
    --seq | --opset | --calibrate-tokens | --calibrate-length | --vocab-size) arguments[i + 1]=128 ;;
    --order | --embedding-order | --channels) arguments[i + 1]=2 ;;
    --target-ratio | --rope-theta) arguments[i + 1]=9 ;;
    esac
  done
  run "$COMERA" "${verb[@]}" "${words[@]}" "${arguments[@]}" --dump-config
  expect_exit 0
  cp .out first.toml
  # The dump has every given option and no other.
  given=$(printf '%s\n' "${arguments[@]}" | sed -n 's/^--\(no-\)\{0,1\}//p' | sort)
  written=$(sed -n 's/^\([a-z][a-z0-9-]*\) = .*/\1/p' first.toml | grep -v '^verb$' | sort)
  [ ${#words[@]} = 0 ] || given=$(printf '%s\n%s\n' "$given" \
    "$(sed -n 's/^    comera [a-z ]* \[\{0,1\}\([A-Z]*\).*/\1/p' "$page" | tr '[:upper:]' '[:lower:]')" | sort -u)
  expect_equal "$written" "$given"
  run "$COMERA" "${verb[@]}" --config first.toml --dump-config
  expect_exit 0
  expect_same_bytes .out first.toml

  # A call without options dumps no defaults.
  run "$COMERA" "${verb[@]}" --dump-config
  expect_exit 0
  expect_equal "$(grep -c '^[a-z]' .out)" 1
done <<<"$verbs"

# Regression test: the dump contains the folder to start from.
run "$COMERA" finetune model --data t.tsv -o run --dump-config
cp .out call.toml
run "$COMERA" finetune --config call.toml
expect_refused 'model: '
run "$COMERA" evaluate model --data t.tsv --dump-config
cp .out call.toml
run "$COMERA" evaluate --config call.toml
expect_refused 'model: '
# A dumped call without options reads back without given options: --to safetensors refuses options of ONNX.
run "$COMERA" export model --to safetensors -o out --dump-config
cp .out call.toml
run "$COMERA" export --config call.toml
expect_refused 'model: no such'
# A real number has one spelling in help, in a dumped call and in an error.
run "$COMERA" pretrain --lr 0.00005 --weight-decay 0.0100 --dump-config
expect_exit 0
expect_out '^lr = 5e-5$'
expect_out '^weight-decay = 0\.01$'
run "$COMERA" finetune --help-all
expect_out '\(default: 5e-5\)'
if grep -qE '[0-9]e-0[0-9]|[0-9]\.0e-' .out; then fail 'exponents have no zeros'; fi

finish
