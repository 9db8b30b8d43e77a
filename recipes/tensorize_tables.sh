#!/usr/bin/env bash
# Cost of compression on two real checkpoints at five sizes: plain TT-SVD, plain SVD, whitened SVD at uniform rank
# (SVD-LLM's method), ours without and with refinement of blocks (the program's defaults), and ours healed; for
# stories15M also rounding to nearest at equal bytes. Ends with two tables.
#
#   COMERA_DATA=... recipes/tensorize_tables.sh [--smoke] [FOLDER]          default: runs/tensorize_tables[-smoke]
#
# COMERA_DATA names a folder with checkpoints/all-MiniLM-L6-v2, checkpoints/stories15M, four files text/*.txt.zst and
# glue/STS-B/dev.tsv.zst. Only linear layers are compressed, embeddings stay dense. CUTS (1.25 1.67 2.5 5 10) are the
# ratios of the linear layers' bytes. METHODS (ttsvd svd white ours refined healed; for the ablation ours without one of
# its parts: unlinked uniform lowrank nogauge), MODELS (minilm stories), STEPS (healing, 200), TOKENS (of calibration,
# 53248), SEED (7, of healing) and THREADS narrow or widen the job. By the time of its parts it takes about two hours
# on two cores; --smoke is for one cut, 2,048 tokens and two steps. Existing results are kept, so a stopped job resumes.
# The tables at the end show all results in FOLDER, which receives them as results.md and results.json too.
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck source=shared/recipe.sh
. recipes/shared/recipe.sh
SEED=${SEED:-7}
start 1 "$@"
cuts=${CUTS:-1.25 1.67 2.5 5 10}
methods=${METHODS:-ttsvd svd white ours refined healed}
models=${MODELS:-minilm stories}
steps=${STEPS:-200}
tokens=${TOKENS:-53248}
batches=(64 8) lengths=(32 256) pairs=1000000
if "$smoke"; then
  cuts=${CUTS:-2.5} steps=${STEPS:-2} tokens=${TOKENS:-2048} batches=(2 2) lengths=(16 16) pairs=20
fi
settings=(tokens="$tokens" steps="$steps" threads="$threads")
files=(text/tinystories_sample.txt.zst)
[[ $models != *minilm* ]] || files+=(checkpoints/all-MiniLM-L6-v2/model.safetensors glue/STS-B/dev.tsv.zst
  text/c4_sample.txt.zst text/wordnet_glosses.txt.zst text/gutenberg16.txt.zst)
[[ $models != *stories* ]] || files+=(checkpoints/stories15M/model.safetensors)
need_data "${files[@]}"
require_program
text=$COMERA_DATA/text

# Extracts sentences of 4 to 24 words from running text, one per line.
sentences() {
  awk "$@" '
    function emit(s, words) {
      sub(/^ +/, "", s)
      sub(/ +$/, "", s)
      words = split(s, word, " ")
      if (words < 4 || words > 24) return
      if (s !~ /^[A-Z]/ || s !~ /[a-z0-9][.!?]$/ || s ~ /[^A-Za-z0-9 ,.;:\047!?$%\/-]/) return
      if (s ~ / ([A-Z]|Mr|Mrs|Dr|St|vs|etc|No)\.$/ || seen[s]++) return
      print s
    }
    {
      gsub(/[ \t\r\n\f]+/, " ")
      while (match($0, /[.!?]+( |$)/)) {
        emit(substr($0, 1, RSTART + RLENGTH - 1))
        $0 = substr($0, RSTART + RLENGTH)
      }
    }'
}

# Joins N lines of stdin by tabs.
by() { awk -v n="$1" '{ printf "%s%s", $0, NR % n ? "\t" : "\n" }'; }

# Web pages, children's stories, a dictionary's examples and definitions, novels, in turn. One line in 8 calibrates; of
# the others one in 101 is the dev text of healing, the rest heals.
minilm_text() {
  [ -f "$1/healing.txt" ] && return
  mkdir -p "$1"
  paste <(zstd -dc "$text/c4_sample.txt.zst" | sentences | by 2) \
    <(zstd -dc "$text/tinystories_sample.txt.zst" | sentences | by 2) \
    <(zstd -dc "$text/wordnet_glosses.txt.zst" |
      awk -F '; "' '{ for (i = 2; i <= NF; i++) { sub(/".*$/, "", $i); if (split($i, word, " ") >= 4) print $i } }' |
      by 3) \
    <(zstd -dc "$text/wordnet_glosses.txt.zst" | sed 's/; ".*//; s/^[^:]*: //' | by 2) \
    <(zstd -dc "$text/gutenberg16.txt.zst" | sentences -v RS= | by 1) |
    awk -F '\t' 'NF == 10 && $1 != "" && $3 != ""' | tr '\t' '\n' > "$1/all.txt"
  awk 'NR % 8 == 3' "$1/all.txt" > "$1/calibration.txt"
  awk 'NR % 8 != 3 && NR % 101 == 0' "$1/all.txt" > "$1/looked-at.txt"
  awk 'NR % 8 != 3 && NR % 101' "$1/all.txt" > "$1/healing.txt"
  { printf 'sentence1\tsentence2\tscore\n' && zstd -dc "$COMERA_DATA/glue/STS-B/dev.tsv.zst" |
    awk -F '\t' -v most="$pairs" 'NR > 1 && NR <= most + 1 { print $8 "\t" $9 "\t" $10 }'; } > "$1/sts-dev.tsv"
}

# The last fifth is the held-out text; the rest calibrates and heals.
stories_text() {
  [ -f "$1/last-fifth.txt" ] && return
  mkdir -p "$1"
  zstd -dc "$text/tinystories_sample.txt.zst" > "$1/all.txt"
  local lines
  lines=$(($(wc -l < "$1/all.txt") * 4 / 5))
  head -n "$lines" "$1/all.txt" > "$1/healing.txt"
  grep -v '^ *$' "$1/healing.txt" > "$1/calibration.txt"
  tail -n +$((lines + 1)) "$1/all.txt" > "$1/rest.txt" # a pipe into head would break
  if "$smoke"; then head -c 2000 "$1/rest.txt"; else cat "$1/rest.txt"; fi | keep "$1/last-fifth.txt"
}

dense_of() {
  [ "$1" = minilm ] && echo "$COMERA_DATA/checkpoints/all-MiniLM-L6-v2" || echo "$COMERA_DATA/checkpoints/stories15M"
}
kept_dense() { [ "$1" = minilm ] && echo '*embeddings*,*pooler*' || echo '*embed*'; }

# Bytes of the dense model's linear layers, and of all its weights.
dense_bytes() { # model
  "$comera" inspect "$(dense_of "$1")" --format csv | awk -F, '
    $2 == "linear" && $1 !~ /pooler/ { linear += $9 }
    NR > 1 { all += $9 }
    END { print linear, all }'
}

# The ratio of the whole file if the linear layers are cut to 1/CUT. It is the value for --ratio, which makes all sizes
# from one factorisation with the bytes that --budget would have.
ratio_of() { # model cut
  dense_bytes "$1" | awk -v cut="$2" '{ printf "%.6g", $2 / ($2 - $1 * (1 - 1 / cut)) + 5e-6 }'
}

options_of() { # method
  case $1 in
    ttsvd) echo --form tt --order 2 --no-gauge --uniform --allow-slower ;;
    svd) echo --form lowrank --no-gauge --uniform --allow-slower ;;
    white) echo --form lowrank --no-gauge --uniform --no-sequential --no-clip-tokens ;;
    ours | refined) ;;
    unlinked) echo --no-sequential ;; # no correction of the residual stream
    uniform) echo --uniform ;;        # equal shares of bytes instead of shares by effect
    lowrank) echo --form lowrank ;;   # only low-rank pairs, no chains of order 3
    nogauge) echo --no-gauge ;;
  esac
}

# One line, because its words are read from a line.
calibration_of() { # model method
  [[ $2 != ttsvd && $2 != svd ]] || return 0
  echo --calibrate "$folder/$1/text/calibration.txt" --calibrate-tokens "$tokens" \
    "$([ "$2" = refined ] || echo --refine=never)"
}

# The cuts of a method. At the bytes of rounding only methods that use the text are measured.
cuts_of() { # model method
  echo "$cuts"
  [[ $1 == stories && ($2 == white || $2 == ours || $2 == refined) ]] || return 0
  cat "$folder"/stories/rounded/*/cut
}

compress() { # model method
  local ratios='' ratio cut options
  for cut in $(cuts_of "$1" "$2"); do
    ratio=$(ratio_of "$1" "$cut")
    [ -d "$folder/$1/$2/ratio-$ratio" ] || ratios+=,$ratio
  done
  [ -n "$ratios" ] || return 0
  read -ra options <<< "$(options_of "$2") $(calibration_of "$1" "$2")"
  ratios=${ratios#,}
  mkdir -p "$folder/$1"
  local out=$folder/$1/$2.made
  rm -rf "$out"
  [[ $ratios == *,* ]] || { mkdir "$out" && out+=/ratio-$ratios; }
  "$comera" tensorize "$(dense_of "$1")" -o "$out" --ratio "$ratios" --exclude "$(kept_dense "$1")" "${options[@]}" \
    --threads "$threads" >&2
  mkdir -p "$folder/$1/$2"
  mv "$folder/$1/$2.made"/ratio-* "$folder/$1/$2/"
  rm -rf "$folder/$1/$2.made"
}

# Heals without labels: MiniLM towards the dense model's last hidden states, stories15M on the tokens of its text.
heal() { # model cut
  local from out options
  from=$folder/$1/ours/ratio-$(ratio_of "$1" "$2")
  out=$folder/$1/healed/ratio-$(ratio_of "$1" "$2")
  finished "$out" && return
  if [ "$1" = minilm ]; then
    options=(--task embed --teacher "$(dense_of minilm)" --distill hidden --batch "${batches[0]}" --seq "${lengths[0]}"
      --lr 5e-5)
  else
    options=(--task clm --batch "${batches[1]}" --seq "${lengths[1]}" --lr 2e-4)
  fi
  "$comera" finetune "$from" --data "$folder/$1/text/healing.txt" "${options[@]}" \
    --core-rates uniform --lr-cores 2e-4 --schedule cosine \
    --warmup 10 --steps "$steps" --weight-decay 0 --dropout 0 --seed "$seed" --threads "$threads" --log-every 10 \
    -o "$out" --resume >&2
}

# The first number of a key in a JSON file.
number() { sed -n "s/^ *\"$2\": \([-0-9.e]*\),*$/\1/p" "$1" | head -n 1; }

# Ends the recipe if a baseline left more than .5 % of the bytes of the linear layers unused.
spends_its_bytes() { # model cut method bytes
  dense_bytes "$1" | awk -v cut="$2" -v bytes="$4" -v what="$1 $3 at 1/$2" '{
    share = (bytes - ($2 - $1)) / ($1 / cut)
    if (share < .995) {
      printf "%s spends %.2f %% of the bytes for its linear layers; want at least 99.5 %%\n", what, 100 * share
      exit 1
    }
  }' >&2
}

# Writes one line of results of a folder: model, cut, method, bytes, quality, its error, mean output error.
measure() { # model cut method folder
  local cells=$folder/$1/cells out quality error=0 mean=- bytes
  mkdir -p "$cells"
  out=$cells/$3.$2
  [ -f "$out.tsv" ] && return
  if [ "$1" = minilm ]; then
    "$comera" evaluate "$4" --data "$folder/$1/text/sts-dev.tsv" --text sentence1,sentence2 --label score \
      --threads "$threads" --json > "$out.json"
    quality=$(number "$out.json" spearman) error=$(number "$out.json" spearman_error)
  else
    # A healed folder is a run, which would read the text with document ends, and all others without them.
    "$comera" evaluate "$4" --data "$folder/$1/text/last-fifth.txt" --seq 256 --stride 128 --no-document-end \
      --threads "$threads" --json > "$out.json"
    quality=$(number "$out.json" perplexity)
  fi
  case $3 in
    white | ours | refined | unlinked | uniform | lowrank | nogauge) mean=$(mean_output_error "$1" "$4/report.json") ;;
    ttsvd | svd)
      "$comera" inspect "$4" --verify "$(dense_of "$1")" --calibrate "$folder/$1/text/calibration.txt" \
        --calibrate-tokens "$tokens" --threads "$threads" --json > "$out.verified.json"
      mean=$(mean_output_error "$1" "$out.verified.json")
      ;;
  esac
  bytes=$(cat "$4/bytes" 2> /dev/null || stat -c %s "$4/model.safetensors")
  case $3 in
    ttsvd | svd | white) "$smoke" || spends_its_bytes "$1" "$2" "$3" "$bytes" ;; # small layers have coarse ranks
  esac
  printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$bytes" "$quality" "$error" "$mean" > "$out.tsv"
}

# Mean over all linear layers; a layer that stays dense counts as 0.
mean_output_error() { # model report
  local layers
  layers=$("$comera" inspect "$(dense_of "$1")" --format csv |
    awk -F, '$2 == "linear" && $1 !~ /pooler/' | wc -l)
  sed -n 's/^ *"output_error": \([-0-9.e]*\),*$/\1/p' "$2" |
    awk -v layers="$layers" '{ sum += $1 } END { printf "%.4f", sum / layers }'
}

# Rounds the linear layers to nearest and measures the result; scales count in its bytes.
rounded() { # bits group
  local name=int$1 out
  [ "$2" = 0 ] || name+=-group-$2
  out=$folder/stories/rounded/$name
  [ -d "$out" ] ||
    python3 recipes/round_to_nearest.py "$(dense_of stories)" "$out" --bits "$1" --group "$2" --exclude embed
  measure stories "$(cat "$out/cut")" "$name" "$out"
}

tables() {
  local model title
  for model in $models; do
    title=Spearman
    [ "$model" = stories ] && title=perplexity
    echo
    echo "== $model: bytes of the file, $title (+- bootstrap error), mean held-out output error of the linear layers"
    echo
    echo "| cut | method | bytes | $title | +- | output error |"
    echo '|---:|---|---:|---:|---:|---:|'
    cat "$folder/$model"/cells/*.tsv | sort -t "$(printf '\t')" -k 2,2g -k 3,3 |
      awk -F '\t' '{
        printf "| %s | %s | %d | %.4f | %s | %s |\n", $2, $3, $4, $5, ($6 > 0 ? sprintf("%.4f", $6) : ""), $7 }'
  done
}

for model in $models; do
  "${model}_text" "$folder/$model/text"
  measure "$model" 1 dense "$(dense_of "$model")"
  if [ "$model" = stories ]; then
    rounded 8 0
    rounded 4 32
  fi
  for method in $methods; do
    [ "$method" = healed ] || compress "$model" "$method"
    for cut in $(cuts_of "$model" "$method"); do
      [ "$method" != healed ] || heal "$model" "$cut"
      measure "$model" "$cut" "$method" "$folder/$model/$method/ratio-$(ratio_of "$model" "$cut")"
    done
  done
done
publish "$seed" tables
