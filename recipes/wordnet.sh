#!/usr/bin/env bash
# Real text from Debian's package wordnet-base: definitions of WordNet's nouns, labelled with their lexicographer file.
#
#   recipes/wordnet.sh FOLDER [data.noun]
#
# Writes FOLDER/train.tsv and FOLDER/dev.tsv with the columns `label` (26 classes, noun.Tops to noun.time) and `text`
# (definition and examples). The split is fixed: a hash of the synset's offset puts one in ten into dev. Synsets with
# the same text stay on one side. data.noun is /usr/share/wordnet/data.noun, or the file that NOUNS names. This is data
# for other recipes, so there is no table.
set -euo pipefail

[ "${1:-}" != --help ] || { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0" && exit 0; }
[ $# -ge 1 ] || { sed -n '2,4s/^# \{0,1\}//p' "$0" >&2 && exit 2; }
folder=$1
nouns=${2:-${NOUNS:-/usr/share/wordnet/data.noun}}
if [ ! -r "$nouns" ]; then
  echo "wordnet.sh: $nouns: cannot be read; install it with: apt-get install wordnet-base" >&2
  exit 2
fi
mkdir -p "$folder"

# data.noun, wndb(5WN): "offset lex_filenum ss_type ... | gloss"; lines of the licence begin with two spaces.
# lexnames(5WN): lex_filenum 03 .. 28 are the nouns.
LC_ALL=C awk -v train="$folder/train.tsv" -v dev="$folder/dev.tsv" '
  BEGIN {
    split("Tops act animal artifact attribute body cognition communication event feeling food group location motive " \
          "object person phenomenon plant possession process quantity relation shape state substance time", name, " ")
    print "label\ttext" > train
    print "label\ttext" > dev
  }
  /^  / { next }
  {
    text = substr($0, index($0, " | ") + 3)
    gsub(/[ \t]+/, " ", text)
    sub(/^ /, "", text)
    sub(/ $/, "", text)
    if (!(text in side)) side[text] = ($1 % 65521 * 40503) % 65536 < 6554 ? dev : train
    print "noun." name[$2 - 2] "\t" text > side[text]
    examples[side[text]]++
    if (side[text] == dev && ++seen[$2] > seen[most]) most = $2
  }
  END {
    printf "%s: %d examples\n%s: %d examples, 26 classes, the most frequent (noun.%s) has %.1f %%\n",
      train, examples[train], dev, examples[dev], name[most - 2], 100 * seen[most] / examples[dev]
  }' "$nouns"
