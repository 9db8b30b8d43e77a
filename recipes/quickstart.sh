#!/usr/bin/env bash
# The main job in a few minutes on two cores. The same small encoder learns to classify definitions three times: dense,
# in tensor-train form, and in tensor-train form with ranks that fall until it has half the size. Prints one table.
#
#   recipes/quickstart.sh [FOLDER]      default: runs/quickstart
#
# COMERA names the program. STEPS and THREADS set length and width of the job, SEED (7) and ISA (auto) vary it.
set -euo pipefail
cd "$(dirname "$0")/.."

comera=${COMERA:-build/comera}
folder=${1:-runs/quickstart}
steps=${STEPS:-1000}
late=$((steps / 3))
threads=${THREADS:-$(nproc)}
mkdir -p "$folder"

recipes/wordnet.sh "$folder/data"
[ -f "$folder/tokenizer/vocab.txt" ] ||
  "$comera" tokenizer train --data "$folder/data/train.tsv" --text text --vocab-size 30522 -o "$folder/tokenizer"

run() { # NAME options...
  local name=$1
  shift
  echo
  echo "== $name"
  "$comera" pretrain --model encoder-small --task classify --data "$folder/data/train.tsv" \
    --dev "$folder/data/dev.tsv" --text text --label label --tokenizer "$folder/tokenizer/vocab.txt" --seq 64 \
    --positions 64 --batch 64 --warmup 100 --schedule linear --weight-decay 0 --seed "${SEED:-7}" \
    --isa "${ISA:-auto}" --threads "$threads" --log-every 100 --eval-every $((steps / 3)) --save-every "$steps" "$@" \
    -o "$folder/$name" --resume
}

run dense --form dense --steps "$steps" --lr 5e-4
tt=(--form tt --rank 24 --embedding-rank 56 --lr 2e-3 --lr-cores 2e-3 --lr-ranks 2e-3 --activations cheap)
run tt "${tt[@]}" --steps "$steps"
run tt-half "${tt[@]}" --steps $((steps + late)) --late-after "$steps" --target-fraction 0.5

echo
echo "== dense, TT, and TT after the late stage to half the size"
"$comera" inspect --runs "$folder/dense" "$folder/tt" "$folder/tt-half"
echo
echo "open $folder/tt-half/report.html in a browser; compare the layers with: $comera inspect $folder/tt-half"
