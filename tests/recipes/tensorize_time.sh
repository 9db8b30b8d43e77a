#!/usr/bin/env bash
# recipes/tensorize_time.sh --smoke: seconds for one ratio and for two.
. "$(dirname "$0")/../cli/expect.sh"
# shellcheck source=shared/product.sh
. "$tests/recipes/shared/product.sh"

expect_needs checkpoints/all-MiniLM-L6-v2/model.safetensors tensorize_time
made_text c4_sample wordnet_glosses
made_encoder data/checkpoints/all-MiniLM-L6-v2
check_recipe tensorize_time '^\| v3 \| 1.01 \| [0-9.]+ \| [0-9.]+ \|$' '^\| v3 \| 1.01,1.02 \| [0-9.]+ \| [0-9.]+ \|$'
finish
