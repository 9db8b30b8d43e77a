#!/usr/bin/env bash
# Wrong data and vocabularies: the error names file and line, and nothing is written.
. "$(dirname "$0")/../expect.sh"
# shellcheck source=../tiny_task.sh
. "$tests/cli/tiny_task.sh" || exit 1

rows() {  # rows FILE ROW...: writes a TSV with the columns label and text
  local file=$1
  shift
  { printf 'label\ttext\n' && printf '%b' "$@"; } >"$file"
}
learn() { refuses "$1" "${columns[@]}" --data "$2"; }

learn 'missing\.tsv: no such file; check the path' missing.tsv
learn 'no\*\.tsv: no file matches this pattern' 'no*.tsv'
mkdir folder
learn 'folder: is a folder; name a file' folder
: >empty.tsv
learn 'empty\.tsv: there are no rows; a header line and at least one row are wanted' empty.tsv
rows header.tsv ''
learn 'header\.tsv: there are no rows' header.tsv
rows few.tsv 'red\tround red\nblue\n'
learn 'few\.tsv: line 3: has 1 column, the header names 2; write one tab' few.tsv
rows many.tsv 'red\tround red\nblue\tx\ty\n'
learn 'many\.tsv: line 3: has 3 columns, the header names 2' many.tsv
rows bytes.tsv 'red\tround red\nblue\tx\xff\xfe y\n'
learn 'bytes\.tsv: line 3: byte 7 \(0xFF\) is not UTF-8; convert the file' bytes.tsv
rows one.tsv 'red\ta\nred\tb\n'
learn "a classifier needs at least two labels, but there is only 'red'" one.tsv
head -c 300 /dev/zero >zeros.tsv
learn "zeros\.tsv: has no column 'text'; the columns are '.x00" zeros.tsv
gzip -c train.tsv | head -c 60 >cut.tsv.gz
learn 'cut\.tsv\.gz: ends in the middle of its packed data; the file is truncated' cut.tsv.gz
learn 'corpus\.txt: labelled rows are read from \.csv, \.tsv or \.jsonl files' corpus.txt
printf '{"label":"red","text":"a"}\n{"label":"blue"}\n' >key.jsonl
learn "key\.jsonl: line 2: has no key 'text'; the keys are 'label'" key.jsonl
printf '{"label":"red","text":"a"}\n{"label":"blue","text":\n' >broken.jsonl
learn 'broken\.jsonl: line 2: is not valid JSON: byte 24: the line ends inside the object; write one object' broken.jsonl
printf '{"label":"red","text":"a"}\n{"label":"blue","text":["x"]}\n' >list.jsonl
learn "list\.jsonl: line 2: 'text' is a list or an object, a string is wanted" list.jsonl
refuses "train\.tsv: has no column 'txt'; the columns are 'label', 'text', 'second'; did you mean text" --text txt \
  --label label --data train.tsv
for file in train.tsv rows.csv rows.jsonl; do
  case $file in
    rows.csv) printf 'label,text\rred,round red\rblue,square blue\r' ;;
    rows.jsonl) printf '{"label":"red","text":"a"}\r{"label":"blue","text":"b"}\r' ;;
    *) tr '\n' '\r' <$file ;;
  esac >"old-$file"
  learn "old-$file: its lines end in carriage returns alone, and line feeds are wanted; .*tr '" "old-$file"
  refuses "old-$file: its lines end in carriage returns alone" --task mlm --data "old-$file"
done
printf 'round red\rsquare blue\r' >old.txt
run "$COMERA" pretrain "${model[@]}" "${words[@]}" --task mlm --data old.txt -o old
expect_exit 0
expect_err "old.txt: line 1 has carriage returns inside; if lines end in them, convert the file"
refuses "train\.tsv: has no column 'lable'" --text text --label lable --data train.tsv
refuses 'train\.tsv: 3 text columns are named; name one or two' --text text,second,label --label label --data train.tsv
refuses "column 'label' cannot be text and label at once" --text text,label --label label --data train.tsv
rows unknown.tsv 'red\tround red\npurple\tx\n'
refuses "unknown\.tsv: line 3: unknown label 'purple'; the labels are 'blue', 'green', 'red'" "${columns[@]}" \
  --data train.tsv --dev unknown.tsv
refuses 'header\.tsv: there are no rows' "${columns[@]}" --data train.tsv --dev header.tsv

# Masked tokens: the corpus is checked before the run starts.
printf '\n \n' >blank.txt
refuses 'blank\.txt: holds no text to learn from' --task mlm --data blank.txt
refuses 'blank\.txt: holds no text to learn from' --task mlm --data corpus.txt --dev blank.txt
refuses "train\.tsv: has no column 'body'" --task mlm --text body --data train.tsv
printf 'round\nred \xff\n' >bytes.txt
run "$COMERA" pretrain "${model[@]}" "${words[@]}" -o new --task mlm --data bytes.txt
expect_refused 'bytes\.txt: line 2: byte 5 \(0xFF\) is not UTF-8'
rm -rf new

# Vocabularies.
vocabulary() {
  printf '%s\n' "${@:2}" >bad.txt
  refuses "$1" "${columns[@]}" --data train.tsv --tokenizer bad.txt
}
vocabulary 'bad\.txt: holds no \[UNK\] among its 3 entries; a BERT vocab\.txt needs a line \[UNK\]' '[PAD]' '[CLS]' \
  '[SEP]'
vocabulary 'bad\.txt: holds no \[CLS\], which every sequence begins with' '[PAD]' '[UNK]' '[SEP]'
vocabulary 'bad\.txt: line 3: byte 2 is not UTF-8' '[PAD]' '[UNK]' $'r\xffed'
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' >bad.txt
refuses 'bad\.txt: holds no \[MASK\], which the mlm task' --task mlm --data corpus.txt --tokenizer bad.txt
: >bad.txt
refuses 'bad\.txt: is empty; a vocab\.txt holds one piece per line' "${columns[@]}" --data train.tsv --tokenizer bad.txt
refuses 'missing\.txt: there is no such file; name a tokenizer\.json, a vocab\.txt' "${columns[@]}" --data train.tsv \
  --tokenizer missing.txt
refuses 'folder: this folder holds none of tokenizer\.json, vocab\.txt.*; name one with --tokenizer' "${columns[@]}" --data train.tsv \
  --tokenizer folder
cp zeros.tsv zeros.model
refuses 'zeros\.model: is not a SentencePiece model' "${columns[@]}" --data train.tsv --tokenizer zeros.model

# A stored model with other data.
run "$COMERA" pretrain "${tiny[@]}" -o run
expect_exit 0
evaluates() {
  local message=$1
  shift
  run "$COMERA" evaluate run "$@"
  expect_refused "$message"
}
evaluates "unknown\.tsv: line 3: unknown label 'purple'; the labels are 'blue', 'green', 'red'" --data unknown.tsv
evaluates 'bytes\.tsv: line 3: byte 7' --data bytes.tsv
evaluates '--seq 17 is longer than the model.s 16 positions; use --seq 16 or less' --data dev.tsv --seq 17
evaluates '--data is missing: name the files to evaluate on'
evaluates "there is no metric 'acuracy'; use accuracy, f1, matthews, loss" --data dev.tsv --require 'acuracy>=1'
evaluates "'accuracy>=x': expected a metric" --data dev.tsv --require 'accuracy>=x'
evaluates 'nowhere/predictions.*: cannot write: No such file' --data dev.tsv --predictions nowhere/predictions
run_with $'red\nblue \xff\n' "$COMERA" predict run
expect_refused 'stdin: line 2: byte 6 \(0xFF\) is not UTF-8'
run_with $'red\tround\nblue\n' "$COMERA" predict run
expect_refused 'stdin:2: has one text, the lines before have two; give every line as many'
run_with '' "$COMERA" predict run
expect_exit 0
expect_no_out
last="predict with a folder as stdin"
"$COMERA" predict run </ >.out 2>.err
code=$?
expect_refused 'stdin: cannot be read: Is a directory'
finish
