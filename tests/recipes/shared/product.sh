# shellcheck shell=bash disable=SC2034,SC2154  # it uses and sets variables of expect.sh
# Sourced by the tests of recipes, after expect.sh and what they need of COMERA_DATA: what every recipe does, and small data of the forms that they read.
#
#   check_recipe NAME PATTERN...      help, arguments, missing data, a --smoke run, results and a second call

# expect_help NAME: --help and wrong arguments.
expect_help() {
  run "$tests/../recipes/$1.sh" --help
  expect_exit 0
  expect_out "recipes/$1\\.sh .*FOLDER"
  run "$tests/../recipes/$1.sh" --unknown
  expect_exit 2
  expect_err "recipes/$1\\.sh .*FOLDER"
}

# expect_needs FILE NAME: without COMERA_DATA, and with an empty one, the recipe says what it needs and makes nothing.
expect_needs() {
  local empty=$work/empty
  mkdir -p "$empty"
  run env -u COMERA_DATA "$tests/../recipes/$2.sh" --smoke "$work/none"
  expect_exit 2
  expect_err "^$2\\.sh: COMERA_DATA is not set"
  expect_err "$1: "
  run env COMERA_DATA="$empty" "$tests/../recipes/$2.sh" --smoke "$work/none"
  expect_exit 2
  expect_err "$1: "
  expect_no_file "$work/none"
}

# expect_results FOLDER: both files, with versions, commit, machine and seeds, and a table with rows.
expect_results() {
  expect_file "$1/results.md"
  python3 - "$1" <<'CHECK' || fail "$1 has its tables with versions, commit, machine and seeds"
import json
import pathlib
import sys

folder = pathlib.Path(sys.argv[1])
found, text = json.loads((folder / "results.json").read_text()), (folder / "results.md").read_text()
assert {"comera", "python", "system"} <= set(found["versions"]) and all(found["versions"].values())
assert found["commit"] and found["machine"] and found["seeds"] and all(type(seed) is int for seed in found["seeds"])
assert all(f"- {key}: " in text for key in ("versions", "commit", "machine", "seeds")) and found["commit"] in text
tables = found.get("tables", [])  # a script of a recipe may write its rows under other names
assert "\n|---" in text.replace("| ---", "|---") and all(table["rows"] for table in tables)
assert all(len(row) > 1 for table in tables for row in table["rows"])
CHECK
}

# Time of change of all files that a second call must not make again; the tables and their logs are written each time.
times_of() { # FOLDER
  find "$1" -type f ! -name 'results.*' ! -name compared.html ! -name rows.jsonl -printf '%P %T@\n' | sort
}

# check_recipe NAME PATTERN...: each pattern is in the output of `NAME.sh --smoke FOLDER`, and again in that of a second
# call, which makes nothing again. Leaves FOLDER at $work/folder. The array further has arguments behind FOLDER.
further=()
check_recipe() {
  local name=$1 pattern before
  shift
  expect_help "$name"
  run "$tests/../recipes/$name.sh" --smoke "$work/folder" "${further[@]}"
  expect_exit 0
  [ "$code" = 0 ] || return
  for pattern in "$@"; do expect_out "$pattern"; done
  expect_results "$work/folder"
  before=$(times_of "$work/folder")
  run "$tests/../recipes/$name.sh" --smoke "$work/folder" "${further[@]}"
  expect_exit 0
  for pattern in "$@"; do expect_out "$pattern"; done
  expect_equal "$(times_of "$work/folder")" "$before"
}

# Sentences of random words, of which each line is another one.
made_lines() { # COUNT
  awk -v count="$1" 'BEGIN { srand(7); split("ka le mi no pu ra se ti vo zu", part, " ")
    for (i = 0; i < count; i++) {
      line = "The"
      for (k = 0; k < 7; k++) line = line " " part[1 + int(rand() * 10)] part[1 + int(rand() * 10)]
      print line "." } }'
}

made_text() { # FILE...: files under data/text
  mkdir -p data/text
  local file
  for file in "$@"; do
    case $file in
      # The lines 700 to 799 are the dev set of recipes/books.sh.
      gutenberg16) made_lines 1200 ;;
      wordnet_glosses) made_lines 400 | sed 's/^The \(.*\)\.$/\1: the \1; "so \1"/' ;;
      *) made_lines 800 ;;
    esac | zstd -q >"data/text/$file.txt.zst"
  done
}

made_mnli() {
  mkdir -p data/mnli data/tokenizers
  printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' red green blue round square \
    >data/tokenizers/bert-base-uncased-vocab.txt
  {
    printf 'premise\thypothesis\tlabel\n'
    for i in $(seq 200); do printf 'round red %s\tround\tentailment\nsquare green\tround\tneutral\n' "$((i % 3))"; done
  } | zstd -q >data/mnli/mnli_train_subset.tsv.zst
  cp data/mnli/mnli_train_subset.tsv.zst data/mnli/mnli_dev_matched.tsv.zst
}

made_sts() {
  mkdir -p data/glue/STS-B
  made_lines 60 | awk '{ if (NR == 1) print "index\tgenre\tfile\tyear\told\ts1\ts2\tsentence1\tsentence2\tscore"
    print "1\tg\tf\ty\to\ta\tb\t" $0 "\tThe " $2 " ka\t" NR % 6 }' | zstd -q >data/glue/STS-B/dev.tsv.zst
}

# Nouns in the form of WordNet's data.noun; NOUNS names the file.
made_nouns() {
  {
    echo "  1 This software and database is being provided to you"
    made_lines 600 | awk '{ printf "%08d %02d n 01 word%d 0 000 | %s  \n", NR * 37, 3 + NR % 26, NR, $0 }'
  } >nouns
  export NOUNS=$PWD/nouns
}

# made_encoder FOLDER, made_decoder FOLDER [WIDTH]: folders of trained models with their tokenizers, two layers each.
made_encoder() {
  { echo label$'\t'text && made_lines 200 | awk '{ print NR % 2 "\t" $0 }'; } >encoder.tsv
  cut -f 2 encoder.tsv >encoder.txt
  {
    "$COMERA" tokenizer train --data encoder.tsv --text text --vocab-size 300 -o encoder-words &&
      "$COMERA" pretrain --model encoder-small --layers 2 --hidden 64 --heads 2 --intermediate 128 --positions 128 \
        --form dense --data encoder.tsv --text text --label label --tokenizer encoder-words/vocab.txt --seq 16 \
        --batch 4 --steps 4 --quiet -o encoder &&
      # Without the head of labels it has embeddings of sentences.
      "$COMERA" finetune encoder --task embed --teacher encoder --data encoder.txt --seq 16 --batch 4 --steps 1 --quiet \
        -o body && "$COMERA" export body -o "$1" --to safetensors
  } >.made 2>&1 || { last='making an encoder' && fail "$(<.made)"; }
  "$tests/recipes/shared/weights.py" pooler "$1/model.safetensors"
}

made_decoder() {
  made_lines 400 >decoder.txt
  {
    "$COMERA" tokenizer train --data decoder.txt --kind sentencepiece-bpe --vocab-size 140 -o decoder-words &&
      "$COMERA" pretrain --model llama-6m --task clm --layers 2 --hidden "${2:-64}" --heads 2 --intermediate 128 \
        --positions 256 --form dense --data decoder.txt --tokenizer decoder-words --seq 16 --batch 4 --steps 4 --quiet \
        -o decoder && "$COMERA" export decoder -o "$1" --to safetensors
  } >.made 2>&1 || { last='making a decoder' && fail "$(<.made)"; }
  "$tests/recipes/shared/weights.py" half "$1/model.safetensors"
}

# PYTHON names a program that answers as a python with PyTorch does: the tests need no PyTorch, and its side is made.
made_torch() {
  cat >python <<'STUB'
#!/usr/bin/env bash
echo "$*" >>"$calls"
case "$*" in
  *torch.__version__*) echo 0.0+made ;;
  *bench_bags.py*) echo '{"median_ms": 4.0, "peak_bytes": 1048576}' ;;
  *pytorch_peer.py*)
    echo '{"median_ms": 40.0, "min_ms": 39.0, "max_ms": 41.0, "peak_bytes": 104857600, "program": "PyTorch, made"}'
    ;;
esac
STUB
  chmod +x python
  export PYTHON=$PWD/python calls=$PWD/calls
  echo "PyTorch is not measured here: its answers are made" >&2
}

# expect_needs_torch NAME: with a python that has no PyTorch the recipe says how to install it and makes nothing.
expect_needs_torch() {
  run env PYTHON=/bin/false "$tests/../recipes/$1.sh" --smoke "$work/none"
  expect_exit 2
  expect_err "^$1\\.sh: /bin/false has no PyTorch"
  expect_err 'pip install torch numpy'
  expect_no_file "$work/none"
}

# Tests run beside each other, so one thread is enough for each.
export COMERA_DATA=$PWD/data THREADS=1 COMERA_THREADS=1
