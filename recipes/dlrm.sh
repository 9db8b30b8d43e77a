#!/usr/bin/env bash
# Trains models of clicks (DLRM) on public data: dense tables, TTM tables at two ranks, and the hashing trick at the
# bytes of each TTM model. Ends with AUC, normalised cross-entropy, bytes, peak memory and time per step, with
# bootstrap errors; then the memory of the full set of Criteo Kaggle's tables, dense as planned and TTM as measured.
#
#   recipes/dlrm.sh [--smoke] [FOLDER]          default: runs/dlrm, or runs/dlrm-smoke
#
# COMERA_DATA names a folder with ctr/: ml1m_pairs.tsv.zst, ml1m_users.dat.zst, ml1m_movies.dat.zst (MovieLens-1M),
# frappe_valid.libfm.zst, and for tests of the readers criteo8k_train.tsv.zst, criteo8k_dev.tsv.zst and
# talkingdata_100k.csv.zst. With ctr/criteo_train.tsv.zst and ctr/criteo_dev.tsv.zst (the whole Criteo Kaggle data,
# split by you) these are trained too, for hours. COMERA is the program, SEED (1) the seed of all runs. It takes about
# 15 minutes on two cores; --smoke takes seconds, on a few rows. FOLDER receives the data, a run and a log for each
# model, and results.md and results.json. A second call keeps what is finished and goes on with the rest.
#
# OPTIMIZER (adamw) is for --optimizer, such as adagrad or 'emb_l.*=adagrad'; RATE is its learning rate of all weights,
# about ten times the recipe's for adagrad. Name another FOLDER for each.
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck source=shared/recipe.sh
. recipes/shared/recipe.sh
start 1 "$@"

if [ -z "${COMERA_DATA:-}" ]; then
  cat >&2 << 'MESSAGE'
dlrm.sh: COMERA_DATA is not set. Get the data like this, then set it to the folder:
  fetch https://files.grouplens.org/datasets/movielens/ml-1m.zip; write the first two columns of ratings.dat with the
  header line "userID<tab>movieID" to ctr/ml1m_pairs.tsv.zst, users.dat and movies.dat (as UTF-8) to
  ctr/ml1m_users.dat.zst and ctr/ml1m_movies.dat.zst;
  put Frappe in libFM's form (frappe.validation.libfm of the repository of Neural Factorization Machines) at
  ctr/frappe_valid.libfm.zst; Criteo's and TalkingData's files are optional.
MESSAGE
  exit 2
fi
ctr=$COMERA_DATA/ctr
for file in ml1m_pairs.tsv.zst ml1m_users.dat.zst ml1m_movies.dat.zst frappe_valid.libfm.zst; do
  [ -r "$ctr/$file" ] || missing "$ctr/$file cannot be read"
done
require_program
mkdir -p "$folder/data"

# Random numbers of Park and Miller (1988, CACM 31): exact in awk's doubles.
lcg='function draw() { state = state * 16807 % 2147483647; return state / 2147483647 } BEGIN { state = seed * 7919 + 1 }'

# MovieLens-1M: each pair is a click; for each, a film that the user has not seen. 100,000 of both are the test.
movielens() {
  local positives=1000209 test=100000
  ! "$smoke" || positives=20000 test=2000
  {
    zstd -dc "$ctr/ml1m_users.dat.zst" | awk -F'::' '{ print "u\t" $1 "\t" $2 "\t" $3 "\t" $4 "\t" substr($5, 1, 3) }'
    zstd -dc "$ctr/ml1m_movies.dat.zst" | awk -F'::' '{ print "m\t" $1 "\t" substr($2, length($2) - 4, 4) "\t" $3 }'
    # awk reads all pairs, so that zstd is not cut off.
    zstd -dc "$ctr/ml1m_pairs.tsv.zst" | awk -F'\t' -v most="$positives" 'NR > 1 && NR <= most + 1 { print "p\t" $1 "\t" $2 }'
  } | awk -F'\t' -v seed="$seed" "$lcg"'
    function row(click, user, movie) {
      printf "%d\t%d\t%s\t%s\t%s\t%s\t%s\n", draw() * 1e9, click, user, users[user], movie, years[movie], genres[movie]
    }
    $1 == "u" { users[$2] = $3 "\t" $4 "\t" $5 "\t" $6 }
    $1 == "m" { years[$2] = $3; genres[$2] = $4 }
    $1 == "p" { seen[$2, $3] = 1; from[++pairs] = $2; to[pairs] = $3; if (!($3 in number)) film[++films] = $3; number[$3] }
    END {
      for (i = 1; i <= pairs; i++) {
        row(1, from[i], to[i])
        do other = film[1 + int(draw() * films)]; while ((from[i], other) in seen)
        row(0, from[i], other)
      }
    }' | sort -n -s -k1,1 | cut -f2- > "$folder/data/rows.tsv"
  for part in test train; do
    {
      printf 'click\tuser\tgender\tage\toccupation\tzip\tmovie\tyear\tgenres\n'
      if [ $part = test ]; then head -n $((2 * test)) "$folder/data/rows.tsv"; else tail -n +$((2 * test + 1)) "$folder/data/rows.tsv"; fi
    } | zstd -q -T1 | keep "$folder/data/movielens.$part.tsv.zst"
  done
  rm "$folder/data/rows.tsv"
}

# Every fifth row of Frappe is in the test.
frappe() {
  local part
  for part in train test; do
    zstd -dc "$ctr/frappe_valid.libfm.zst" | awk -v seed="$seed" -v part=$part -v smoke="$("$smoke" && echo 1 || echo 0)" "$lcg"'
      { test = draw() < .2 } (part == "test") == test && (!smoke || NR <= 4000)' | zstd -q -T1 | keep "$folder/data/frappe.$part.libfm.zst"
  done
}

talkingdata() {
  local part
  for part in train test; do
    zstd -dc "$ctr/talkingdata_100k.csv.zst" | awk -v seed="$seed" -v part=$part -v smoke="$("$smoke" && echo 1 || echo 0)" "$lcg"'
      NR == 1 { print; next } { test = draw() < .2 } (part == "test") == test && (!smoke || NR <= 20000)' |
      zstd -q -T1 | keep "$folder/data/talkingdata.$part.csv.zst"
  done
}

[ -e "$folder/data/movielens.train.tsv.zst" ] || { echo "== making pairs of MovieLens-1M" && movielens; }
[ -e "$folder/data/frappe.test.libfm.zst" ] || frappe
[ ! -r "$ctr/talkingdata_100k.csv.zst" ] || [ -e "$folder/data/talkingdata.test.csv.zst" ] || talkingdata
[ -s "$folder/data/movielens.json" ] || keep "$folder/data/movielens.json" << 'SCHEMA'
{"format": "tsv", "label": "click", "dense": [{"column": "year", "transform": "standard"}],
 "categories": ["user", "movie", "gender", "age", "occupation", "zip",
                {"column": "genres", "separator": "|", "pooling": "mean"}]}
SCHEMA
[ -s "$folder/data/talkingdata.json" ] || keep "$folder/data/talkingdata.json" << 'SCHEMA'
{"format": "csv", "label": "is_attributed", "categories": ["ip", "app", "device", "os", "channel"]}
SCHEMA

# The learning rates of AdamW, or RATE.
rates() { echo --lr "${RATE:-$1}" --lr-cores "${RATE:-$1}"; }

# learn NAME options...: trains and evaluates one model.
learn() {
  local name=$1
  shift
  [ ! -e "$folder/$name.evaluation.json" ] || return 0
  logged "$name" "$comera" pretrain --model dlrm-small --task ctr "${data[@]}" --seed "$seed" --weight-decay 0 \
    --optimizer "${OPTIMIZER:-adamw}" --schedule linear --log-every 50 --save-every 10m "$@" -o "$folder/$name" --resume
  "$comera" evaluate "$folder/$name" --data "$test" --batch 2048 --json 2> "$folder/$name.evaluate.log" |
    keep "$folder/$name.evaluation.json"
}

# The rows of the hashing trick that give the tables the bytes that they have in a TTM model.
hash_rows() { # DENSE TTM
  local name
  for name in "$@"; do
    [ -s "$folder/$name.csv" ] || "$comera" inspect "$folder/$name" --format csv | keep "$folder/$name.csv"
  done
  python3 recipes/dlrm_table.py hash-rows "$folder/$1.csv" "$folder/$2.csv"
}

# compare NAME ROWS RANKS options...: dense, TTM at two ranks for tables of at least ROWS rows, hashing at their bytes.
compare() {
  local name=$1 rows=$2 ranks=$3 rank
  shift 3
  echo "== $name"
  learn "$name-dense" --form dense "$@"
  for rank in $ranks; do
    learn "$name-ttm-$rank" --form tt --tt-rows "$rows" --embedding-rank "$rank" --embedding-order 3 \
      --no-adapt-ranks "$@"
    learn "$name-hash-$rank" --form dense --hash-rows "$(hash_rows "$name-dense" "$name-ttm-$rank")" "$@"
  done
}

length() { if "$smoke"; then echo --steps 4; else echo --epochs "$1"; fi; }

data=(--data "$folder/data/movielens.train.tsv.zst" --schema "$folder/data/movielens.json")
test=$folder/data/movielens.test.tsv.zst
# shellcheck disable=SC2046
compare movielens 1000 "8 16" --batch 2048 $(length 3) $(rates 1e-2)

data=(--data "$folder/data/frappe.train.libfm.zst")
test=$folder/data/frappe.test.libfm.zst
# shellcheck disable=SC2046
compare frappe 500 "8 16" --batch 512 $(length 4) $(rates 1e-2)

if [ -r "$ctr/criteo8k_train.tsv.zst" ]; then
  data=(--data "$ctr/criteo8k_train.tsv.zst" --schema criteo --min-count 2)
  test=$ctr/criteo8k_dev.tsv.zst
  # shellcheck disable=SC2046
  compare criteo-8k 200 "8" --batch 256 $(length 10) $(rates 1e-3)
fi
if [ -r "$ctr/talkingdata_100k.csv.zst" ]; then
  data=(--data "$folder/data/talkingdata.train.csv.zst" --schema "$folder/data/talkingdata.json" --min-count 2)
  test=$folder/data/talkingdata.test.csv.zst
  # shellcheck disable=SC2046
  compare talkingdata 500 "8" --batch 1024 $(length 5) $(rates 1e-3)
fi
if [ -r "$ctr/criteo_train.tsv.zst" ] && ! "$smoke"; then
  data=(--data "$ctr/criteo_train.tsv.zst" --schema criteo --min-count 10 --hidden 32 --bottom-mlp "512,256,64"
    --top-mlp "512,256")
  test=$ctr/criteo_dev.tsv.zst
  # shellcheck disable=SC2046
  compare criteo 20000 "32 64" --batch 2048 --epochs 1 $(rates 1e-3)
fi

echo "== the tables of Criteo Kaggle: 33.76 million rows, 32 wide, batch 10,000"
criteo=(--model dlrm-kaggle --task ctr --batch "$("$smoke" && echo 100 || echo 10000)")
kaggle() { # FILE command...
  [ -s "$folder/kaggle-$1.json" ] || "$comera" "${@:2}" --json | keep "$folder/kaggle-$1.json"
}
kaggle dense.plan pretrain "${criteo[@]}" --form dense --dry-run
kaggle ttm.plan pretrain "${criteo[@]}" --form tt --dry-run
kaggle ttm.bench bench "${criteo[@]}" --form tt --repetitions 3

python3 recipes/dlrm_table.py results "$folder" --program "$comera" --seed "$seed"
