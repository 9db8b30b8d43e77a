#!/usr/bin/env bash
# recipes/tensorize_tables.sh --smoke: a row for each method and model, and those that are rounded.
. "$(dirname "$0")/../cli/expect.sh"
# shellcheck source=shared/product.sh
. "$tests/recipes/shared/product.sh"

expect_needs checkpoints/all-MiniLM-L6-v2/model.safetensors tensorize_tables
made_text c4_sample tinystories_sample wordnet_glosses gutenberg16
made_sts
made_encoder data/checkpoints/all-MiniLM-L6-v2
made_decoder data/checkpoints/stories15M
check_recipe tensorize_tables '^== minilm' '^== stories' '^\| 1 \| dense \| [0-9]+ \|' '^\| 2.5 \| ttsvd \|' \
  '^\| 2.5 \| healed \|' '^\| [0-9.]+ \| int4-group-32 \|'
for model in minilm stories; do
  ours=("folder/$model/ours/"*/model.safetensors) refined=("folder/$model/refined/"*/model.safetensors)
  ! cmp -s "${ours[0]}" "${refined[0]}" || fail "$model: ours is without refinement, refined with it"
done
finish
