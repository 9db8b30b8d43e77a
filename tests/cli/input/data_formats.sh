#!/usr/bin/env bash
# The same data as TSV, CSV and JSONL, plain and packed, gives the same bytes in every verb. Other formats are refused.
. "$(dirname "$0")/../expect.sh"
. "$(dirname "$0")/../tiny_task.sh"

python3 - <<'PY'
import csv, gzip, json
rows = [line.split("\t") for line in open("train.tsv").read().splitlines()]
names, rows = rows[0], rows[1:]
def text(row, i):  # commas, quotes and line ends; a vocabulary without them gives [UNK] or blanks
    return dict(zip(names, row)) | {"text": f'"{row[1]}", {i % 3}'}
rows = [text(row, i) for i, row in enumerate(rows)]
with open("hard.csv", "w", newline="") as f:
    out = csv.DictWriter(f, names); out.writeheader()  # writes \r\n
    for row in rows: out.writerow(row | {"text": row["text"].replace(" ", "\r\n", 1)})
with open("hard.jsonl", "w") as f:
    for row in rows: f.write(json.dumps(row) + "\n")
with open("hard.tsv", "w") as f:
    f.write("\t".join(names) + "\n" + "".join("\t".join(row[n] for n in names) + "\n" for row in rows))
with open("hard.txt", "w") as f:
    f.write("".join(row["text"] + "\n" for row in rows))
gzip.open("packed.csv.gz", "wb").write(open("hard.csv", "rb").read())
PY
zstd -q hard.tsv -o packed.tsv.zst
cp hard.csv data.dat

# The weights without the header, because the header contains file names.
numbers_of() {
  python3 -c 'import struct, sys
data = open(sys.argv[1], "rb").read()
sys.stdout.buffer.write(data[8 + struct.unpack("<Q", data[:8])[0]:])' "$1"
}

# same_everywhere OUTPUT-FILE COMMAND...: runs the command with each form of the data in place of FILE.
same_everywhere() {
  local file=$1 data first=
  shift
  for data in hard.tsv hard.csv hard.jsonl packed.csv.gz packed.tsv.zst; do
    run "$COMERA" "${@//FILE/$data}" -o "out-$data"
    expect_exit 0
    [ -n "$first" ] || first=$data
    [ "$file" != model.safetensors ] || { numbers_of "out-$data/$file" >numbers && mv numbers "out-$data/$file"; }
    expect_same_bytes "out-$first/$file" "out-$data/$file"
  done
  run "$COMERA" "${@//FILE/data.dat}" --data-format csv -o out-named
  expect_exit 0
  [ "$file" != model.safetensors ] || { numbers_of "out-named/$file" >numbers && mv numbers "out-named/$file"; }
  expect_same_bytes "out-$first/$file" "out-named/$file"
  rm -r out-*
}
llama=(--model llama-6m --task clm --layers 1 --hidden 32 --heads 4 --key-heads 2 --intermediate 48 --positions 16
  --rank 4 --embedding-rank 4 --order 2
  --embedding-order 2)
same_everywhere model.safetensors pretrain "${model[@]}" "${words[@]}" "${columns[@]}" --data FILE --dev FILE
same_everywhere model.safetensors pretrain "${model[@]}" "${words[@]}" --task mlm --text text --data FILE --dev FILE
same_everywhere model.safetensors pretrain "${llama[@]}" "${words[@]}" --text text --data FILE
same_everywhere vocab.txt tokenizer train --data FILE --text text --vocab-size 60 --min-count 1
run "$COMERA" pretrain "${model[@]}" "${words[@]}" "${columns[@]}" --data hard.csv --form dense -o dense
expect_exit 0
same_everywhere model.safetensors finetune dense --data FILE --text text --label label --steps 3 --batch 4 --seq 8 \
  --quiet
# --rank and not --ratio: the header has the name of the text file, and its length changes the bytes that --ratio leaves
# for ranks.
same_everywhere model.safetensors tensorize dense --rank 4 --calibrate FILE --text text --tokenizer vocab.txt \
  --calibrate-tokens 256
run "$COMERA" tensorize dense --rank 4 --calibrate hard.csv --text second --tokenizer vocab.txt \
  --calibrate-tokens 256 -o other
expect_exit 2  # too few tokens per row, which shows that --text selected the column
expect_err 'lines of 4 tokens or more'
for data in hard.tsv hard.csv packed.csv.gz; do
  run "$COMERA" evaluate dense --data "$data" --text text --label label --predictions "predictions-$data.tsv" --json
  expect_exit 0
  expect_same_bytes predictions-hard.tsv.tsv "predictions-$data.tsv"
done

# The header, the label and the separators of a table are never text.
run "$COMERA" tokenizer train --data hard.csv --vocab-size 80 --min-count 1 -o learned
expect_exit 0
for word in label lab second '##bel'; do
  if grep -qx -- "$word" learned/vocab.txt; then fail "$word is no word of the text"; fi
done

# Every verb refuses these files with the same message.
printf 'PAR1\x15\x04' >table.parquet
printf 'round red\n' >notes
each() {  # each MESSAGE FILE OPTION...
  local message=$1 file=$2 verb
  shift 2
  refuses "$message" --task mlm --data "$file" "$@"
  refuses "$message" --label label --data "$file" "$@"
  run_refused "$message" tokenizer train --data "$file" "$@"
  run_refused "$message" tensorize dense --ratio 1.5 --tokenizer vocab.txt --calibrate "$file" "$@"
  run_refused "$message" finetune dense --task mlm --data "$file" --steps 1 "$@"
}
each "table\.parquet: parquet is not read; convert it .*read_parquet\('table\.parquet'\)\.to_csv" table.parquet
each 'notes: the name does not tell what the file holds; known are .*--data-format text' notes
each "hard\.csv: has no column 'body'; the columns are 'label', 'text', 'second'" hard.csv --text body
python3 -c '
import bz2, lzma, zipfile
words = open("hard.txt", "rb").read()
open("xz.txt", "wb").write(lzma.compress(words)), open("bzip2.csv", "wb").write(bz2.compress(words))
zipfile.ZipFile("zip.tsv", "w").writestr("hard.txt", words)
open("7z.jsonl", "wb").write(b"7z\xbc\xaf\x27\x1c" + words)'
for file in xz.txt bzip2.csv zip.tsv 7z.jsonl; do
  refuses "$file: is an? ${file%.*} archive, which is not read; unpack it" --task mlm --data $file
done
each 'broken\.csv: no such file|broken\.csv: cannot be read' broken.csv
for verb in "pretrain ${model[*]} ${words[*]} --task mlm --data hard.txt" 'tokenizer train --data hard.txt' \
  'tensorize dense --ratio 1.5 --tokenizer vocab.txt --calibrate hard.txt' \
  'finetune dense --task mlm --steps 1 --data hard.txt'; do
  # shellcheck disable=SC2086
  run_refused 'hard\.txt: --text names columns, and a text file has none; leave --text out' $verb --text text
done
# Also a text file beside a table, and a text file of --dev.
for verb in "pretrain ${model[*]} ${words[*]} --task mlm --data hard.csv,hard.txt" \
  "pretrain ${model[*]} ${words[*]} --task mlm --data hard.csv --dev hard.txt" \
  'tokenizer train --data hard.csv,hard.txt' \
  'tensorize dense --ratio 1.5 --tokenizer vocab.txt --calibrate hard.csv,hard.txt' \
  'finetune dense --task mlm --steps 1 --data hard.csv,hard.txt'; do
  # shellcheck disable=SC2086
  run_refused 'hard\.txt: --text names columns, and a text file has none; leave --text out' $verb --text text
done
# A dry run opens the files: formats and columns are those of the run.
for verb in "pretrain ${model[*]} ${words[*]} --task mlm" 'finetune dense --task mlm --steps 1'; do
  while IFS='|' read -r options message; do
    # shellcheck disable=SC2086
    run_refused "$message" $verb --dry-run $options
  done <<'EOF'
--data table.parquet|table\.parquet: parquet is not read
--data nope.txt|nope\.txt: no such file
--data hard.txt --text text|hard\.txt: --text names columns, and a text file has none
--data hard.csv --text body|hard\.csv: has no column 'body'
--data hard.txt --dev hard.csv --text body|hard\.txt: --text names columns
--data hard.txt --dev nope.csv|nope\.csv: no such file
EOF
  # shellcheck disable=SC2086
  run "$COMERA" $verb --dry-run --data hard.csv --dev hard.txt
  expect_exit 0
done
refuses 'the clm task reads one column, but --text names text, second' --task clm --text text,second --data hard.csv
run "$COMERA" pretrain "${model[@]}" "${words[@]}" --task mlm --data notes --data-format text -o named
expect_exit 0
printf 'label,text\nred,"round\nblue,square\n' >open.csv
refuses 'open\.csv: line 2: a row begins here whose last quote is not closed' "${columns[@]}" --data open.csv
printf 'label,text\nred,a\nblue,round, square\n' >comma.csv
refuses 'comma\.csv: line 3: has 3 columns, the header names 2; put a field that holds a comma in quotes' \
  "${columns[@]}" --data comma.csv
finish
