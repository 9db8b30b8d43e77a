#!/usr/bin/env bash
# recipes/books.sh: the lines that are held out, the bound of their number, and a finished folder is kept.
. "$(dirname "$0")/../cli/expect.sh"

mkdir -p data/text
for i in $(seq 2000); do echo "line $i of a book"; done | zstd -q >data/text/gutenberg16.txt.zst
cat >program <<'STUB'
#!/usr/bin/env bash
for word; do folder=$word; done # the last word is the output
mkdir -p "$folder" && echo made >>"$folder/tokenizer.model"
STUB
chmod +x program
export COMERA_DATA=$PWD/data COMERA=$PWD/program
for most in '' 30; do
  # shellcheck disable=SC2086  # no word if it is empty
  run "$tests/../recipes/books.sh" "$PWD/books$most" $most
  expect_exit 0
  cat "books$most/train.txt" "books$most/dev.txt" | sort >"all$most"
done
expect_equal "$(sort -u all | wc -l)" 2000
expect_equal "$(wc -l <books/dev.txt)" 100
expect_equal "$(head -n 1 books/dev.txt)" 'line 700 of a book'
expect_equal "$(wc -l <books30/dev.txt)" 30
expect_equal "$(comm -12 <(sort books/train.txt) <(sort books30/dev.txt) | wc -l)" 0
run "$tests/../recipes/books.sh" "$PWD/books" 30
expect_exit 0
expect_equal "$(cat books/tokenizer/tokenizer.model)" made
expect_equal "$(wc -l <books/dev.txt)" 100
run env -u COMERA_DATA "$tests/../recipes/books.sh" none
expect_exit 2
expect_err '^books.sh: COMERA_DATA is not set'
run "$tests/../recipes/books.sh" --help
expect_exit 0
expect_out 'recipes/books.sh \[--smoke\] FOLDER'
finish
