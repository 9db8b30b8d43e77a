#!/usr/bin/env bash
# recipes/wordnet.sh on a small data.noun: format, labels, a fixed split, and no text in both parts.
. "$(dirname "$0")/../cli/expect.sh"
recipe=$tests/../recipes/wordnet.sh

{
  echo "  1 This software and database is being provided to you"
  echo "00001740 03 n 01 entity 0 000 | that which is  perceived  "
  echo "15122231 28 n 01 time 0 000 | a point in time; \"at noon\"  "
  for i in $(seq 1000 1999); do echo "0000$i 06 n 01 thing 0 000 | thing number $((i % 700))  "; done
} >nouns
run "$recipe" out nouns
expect_exit 0
expect_out 'the most frequent \(noun.artifact\) has (9[0-9].[0-9]|100.0) %'
sort out/train.tsv out/dev.tsv >all
expect_equal "$(wc -l <all)" 1004
expect_equal "$(grep -c $'^label\ttext$' all)" 2
expect_equal "$(grep -c $'^noun.Tops\tthat which is perceived$' all)" 1
expect_equal "$(grep -c $'^noun.time\ta point in time; "at noon"$' all)" 1
expect_equal "$(comm -12 <(sort -u out/train.tsv) <(sort -u out/dev.tsv) | grep -vc '^label')" 0
share=$(($(wc -l <out/dev.tsv) * 100 / 1004))
if [ $share -lt 5 ] || [ $share -gt 15 ]; then fail "about one in ten is in dev, not $share %"; fi

run "$recipe" again nouns
expect_same_bytes out/train.tsv again/train.tsv
expect_same_bytes out/dev.tsv again/dev.tsv

run "$recipe" nowhere missing
expect_refused 'missing: cannot be read; install it with: apt-get install wordnet-base'
expect_no_file nowhere
run "$recipe"
expect_exit 2
run "$recipe" --help
expect_exit 0
expect_out 'recipes/wordnet.sh FOLDER'
finish
