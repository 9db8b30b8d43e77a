#!/usr/bin/env bash
# Trains the vision transformer vit-mini on Fashion-MNIST for three epochs: dense, in tensor-train form and as low-rank
# pairs, each with the activations kept as they are (keep) and kept in 8 bits (int8), and one of them with a second
# seed. Recomputed blocks (block) give the bits of keep, which the recipe checks on a few steps. Ends with accuracy,
# bytes, saved bytes and peak of a step, and ms per step for the three forms and the three policies.
#
#   recipes/vision.sh [--smoke] [FOLDER]          default: runs/vision, or runs/vision-smoke
#
# The data are Zalando's Fashion-MNIST (MIT licence, 30 MB), in FASHION (/usr/share/datasets/fashion-mnist): on Debian,
# `apt-get install dataset-fashion-mnist`. COMERA is the program, SEED (1) the seed. It takes about 2.5 hours on two
# cores; --smoke takes seconds, for a few steps. FOLDER receives a run and a log for each model, and results.md and
# results.json. A second call keeps what is finished and goes on with the rest.
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck source=shared/recipe.sh
. recipes/shared/recipe.sh
start 1 "$@"
images=${FASHION:-/usr/share/datasets/fashion-mnist}

for file in train-images-idx3-ubyte.gz train-labels-idx1-ubyte.gz t10k-images-idx3-ubyte.gz t10k-labels-idx1-ubyte.gz; do
  if [ ! -r "$images/$file" ]; then
    cat >&2 << MESSAGE
vision.sh: $images/$file cannot be read. Get Fashion-MNIST by \`apt-get install dataset-fashion-mnist\` (Debian), or
  fetch the four files from https://github.com/zalandoresearch/fashion-mnist and set FASHION to their folder.
MESSAGE
    exit 2
  fi
done
require_program
mkdir -p "$folder"

# --smoke: a few images of each set.
if "$smoke"; then
  # The labels of the test are written last.
  [ -e "$folder/data/t10k-labels-idx1-ubyte.gz" ] || python3 recipes/vision_table.py few "$images" "$folder/data"
  images=$folder/data
fi

model=(--model vit-mini --batch "$("$smoke" && echo 16 || echo 64)")
declare -A forms=(
  [dense]="--form dense --lr 1e-3"
  [tt]="--form tt --rank 24 --lr 2e-3 --lr-cores 2e-3 --no-adapt-ranks"
  [lowrank]="--form lowrank --rank 14 --lr 2e-3 --lr-cores 2e-3 --no-adapt-ranks"
)
length=(--epochs 3 --warmup 150)
! "$smoke" || length=(--steps 3 --warmup 1)

# learn NAME FORM POLICY SEED length...: trains and evaluates one model.
learn() {
  local name=$1 form=$2 policy=$3 number=$4
  shift 4
  [ ! -e "$folder/$name.evaluation.json" ] || return 0
  echo "== $name"
  # shellcheck disable=SC2086
  logged "$name" "$comera" pretrain "${model[@]}" --data "$images/train-images-idx3-ubyte.gz" ${forms[$form]} \
    --activations "$policy" --crop 2 --flip --schedule cosine --seed "$number" --log-every 50 --save-every 10m "$@" \
    -o "$folder/$name" --resume
  "$comera" evaluate "$folder/$name" --data "$images/t10k-images-idx3-ubyte.gz" --batch 256 --json \
    2> "$folder/$name.evaluate.log" | keep "$folder/$name.evaluation.json"
}

for form in dense tt lowrank; do
  for policy in keep int8; do learn "$form-$policy" "$form" "$policy" "$seed" "${length[@]}"; done
done
learn tt-keep-seed tt keep $((seed + 1)) "${length[@]}"

# The bits of a few steps.
for form in dense tt lowrank; do
  for policy in keep block; do learn "$form-$policy-few" "$form" "$policy" "$seed" --steps 3 --warmup 1; done
  cmp "$folder/$form-keep-few/model.safetensors" "$folder/$form-block-few/model.safetensors"
done

# Time and memory of a step, each alone.
repetitions=$("$smoke" && echo 1 || echo 20)
for form in dense tt lowrank; do
  for policy in keep int8 block; do
    [ ! -e "$folder/$form-$policy.bench.json" ] || continue
    options=${forms[$form]#--form }
    options=${options%% --lr *}
    # shellcheck disable=SC2086
    "$comera" bench "${model[@]}" --task image --form $options --activations "$policy" --repetitions "$repetitions" --json \
      2> "$folder/$form-$policy.bench.log" | keep "$folder/$form-$policy.bench.json"
    # shellcheck disable=SC2086
    "$comera" pretrain "${model[@]}" --task image ${forms[$form]} --activations "$policy" --dry-run --json \
      2> "$folder/$form-$policy.plan.log" | keep "$folder/$form-$policy.plan.json"
  done
done

python3 recipes/vision_table.py results "$folder" --program "$comera" --seed "$seed"
