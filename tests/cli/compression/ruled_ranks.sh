#!/usr/bin/env bash
# Ranks of rules and of --rank beside weights on grids: the result has them, or they are refused. Plans are the results.
. "$(dirname "$0")/../expect.sh"
. "$(dirname "$0")/../small_checkpoint.sh"
$make bert --layers 2 --hidden 96 --intermediate 128 --vocabulary 100 --heads 4 --architecture bert --shards 1 --type F32
forms_of() { # folder, end of a name
  "$COMERA" inspect "$1" --json | python3 -c "
import json, sys
layers = json.load(sys.stdin)['layers']
print(*{(layer['form'], *layer['ranks']) for layer in layers if layer['name'].endswith(sys.argv[1])})" "$2"
}

# A rank that the menu of a budget does not have.
for rank in 12 40; do
  run "$COMERA" tensorize bert -o "ruled-$rank" --bits auto --ratio 4 "${drawn[@]}" --layer "*query=rank:$rank" --refine=never
  expect_exit 0
  forms=$(forms_of "ruled-$rank" query.weight)
  grep -q "lowrank.* $rank," <<<"$forms" || fail "the rank of the rule: $forms"
done
run "$COMERA" tensorize bert -o no --bits auto --ratio 4 "${drawn[@]}" --layer '*word_embeddings=rank:8'
expect_refused "is a table on a grid, and corrections are for linear layers"

# --rank beside bits: tables have no corrections, neither in the plan nor in the result.
run "$COMERA" tensorize bert --bits 4 --rank 8 "${drawn[@]}" --dump-plan plan.json --refine=never
expect_exit 0
run "$COMERA" tensorize bert -o direct --bits 4 --rank 8 "${drawn[@]}" --refine=never
expect_exit 0
run "$COMERA" tensorize bert -o planned --plan plan.json "${drawn[@]}" --refine=never
expect_exit 0
expect_equal "$(tensors_of direct/model.safetensors)" "$(tensors_of planned/model.safetensors)"

# Without text a weight on a grid has no correction, in the plan either.
run "$COMERA" tensorize bert --rank 8 --layer '*query=bits:4' --dump-plan plan.json
expect_exit 0
run "$COMERA" tensorize bert -o half --plan plan.json
expect_exit 0
case $(forms_of half query.weight) in *lowrank*) fail "a correction without text" ;; esac
sed -i 's/"rank": 8\b/"rank": 8.5/' plan.json
run "$COMERA" tensorize bert -o no --plan plan.json
expect_refused '"rank" must be a whole number from 1'

# Passes of coordinate descent for layers that a rule puts on a grid.
run "$COMERA" tensorize bert -o swept --ratio 2 --layer '*query=bits:3' --sweeps 9 "${drawn[@]}" --refine=never
expect_exit 0

# Layers are fitted behind the compressed ones, so that --tol of the dense model may not hold in the result.
run "$COMERA" tensorize bert -o near --tol 0.3 "${drawn[@]}" --refine=never
expect_exit 0
expect_err 'the largest error of a layer is 0\.[3-9][0-9]+, above --tol 0\.3'
expect_no_file no
finish
