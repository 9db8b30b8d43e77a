#!/usr/bin/env bash
# The main job in some minutes on two cores. The same small encoder learns to classify definitions four times: dense, in
# tensor-train form, in that form with ranks that are cut until it has half the size, and in that form with three times the
# steps, which take about as long as those of the dense model. Ends with one table.
#
#   recipes/quickstart.sh [--smoke] [FOLDER]      default: runs/quickstart, or runs/quickstart-smoke
#
# The text is Debian's package wordnet-base. COMERA names the program. STEPS (1000) and THREADS set length and width of
# the job, SEED (7) and ISA (auto) vary it; below 100 steps accuracy is measured once, on 500 texts. --smoke takes a
# second, with a smaller model. FOLDER receives data, runs, and results.md and results.json. A second call keeps what is finished and goes on with the rest.
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck source=shared/recipe.sh
. recipes/shared/recipe.sh
SEED=${SEED:-7}
start 1 "$@"
steps=${STEPS:-1000} pieces=30522
model=(--model encoder-small --seq 64 --positions 64 --batch 64)
tt=(--form tt --rank 24 --embedding-form lowrank --embedding-rank 16 --lr 2e-3 --lr-cores 2e-3 --lr-ranks 2e-3
  --activations cheap)
if "$smoke"; then
  steps=${STEPS:-6} pieces=1000
  model=(--model encoder-small --seq 16 --positions 16 --batch 4 --layers 1 --hidden 64 --heads 2 --intermediate 128)
  tt+=(--rank 8 --embedding-rank 8)
fi
late=$((steps / 3)) every=$((steps / 3))
[ "$steps" -ge 100 ] || every=$steps
settings=(steps="$steps" threads="$threads" isa="${ISA:-auto}")
need_nouns
require_program

if [ ! -f "$folder/tokenizer/vocab.txt" ]; then
  recipes/wordnet.sh "$folder/data"
  if [ "$steps" -lt 100 ]; then
    head -n 501 "$folder/data/dev.tsv" > "$folder/data/dev.short"
    mv "$folder/data/dev.short" "$folder/data/dev.tsv"
  fi
  "$comera" tokenizer train --data "$folder/data/train.tsv" --text text --vocab-size "$pieces" -o "$folder/tokenizer"
fi

run() { # NAME options...
  local name=$1
  shift
  echo
  echo "== $name"
  finished "$folder/$name" || "$comera" pretrain "${model[@]}" --task classify --data "$folder/data/train.tsv" \
    --dev "$folder/data/dev.tsv" --text text --label label --tokenizer "$folder/tokenizer/vocab.txt" \
    --warmup 100 --schedule linear --weight-decay 0 --seed "$seed" \
    --isa "${ISA:-auto}" --threads "$threads" --log-every 100 --eval-every "$every" --save-every "$steps" \
    "$@" -o "$folder/$name" --resume
}

run dense --form dense --steps "$steps" --lr 5e-4
run tt "${tt[@]}" --steps "$steps"
run tt-half "${tt[@]}" --steps $((steps + late)) --late-after "$steps" --target-fraction 0.5
run tt-long "${tt[@]}" --steps $((3 * steps))

echo
echo "== dense, TT, TT after the late stage to half the size, and TT for the time of dense"
runs=("$folder/dense" "$folder/tt" "$folder/tt-half" "$folder/tt-long")
"$comera" inspect --runs "${runs[@]}"
echo
publish "$seed" "$comera" inspect --runs "${runs[@]}" --format md | tail -n 1 # the table is above
echo "open $folder/tt-half/report.html in a browser; compare the layers with: $comera inspect $folder/tt-half"
