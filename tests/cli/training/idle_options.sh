#!/usr/bin/env bash
# Options of the command line that the form or the tokenizer gives no effect are refused by name. Those of files, of the
# environment and of recipes are for many calls, and stay.
. "$(dirname "$0")/../expect.sh"
# shellcheck source=../tiny_task.sh
. "$tests/cli/tiny_task.sh" || exit 1
data=(--data train.tsv "${columns[@]}")

for option in '--rank 4' '--embedding-rank 4' '--lr-table-cores 1e-3' '--modes 4x8|8x4' '--lr-ranks 1e-3' '--core-rates uniform' \
  '--tau 0.1' '--gamma 0.1' '--beta 1e-5' '--rank-penalty mean' '--prune-every 10'; do
  # shellcheck disable=SC2086
  refuses "${option%% *} has no effect without --form tt[|]lowrank[|]auto or --embedding-form tt[|]lowrank or --layer; add it" "${data[@]}" --form dense \
    $option
done
for option in '--embedding-rank 4' '--lr-table-cores 1e-3'; do
  # shellcheck disable=SC2086
  refuses "${option%% *} has no effect without --embedding-form preset[|]same[|]tt[|]lowrank or --layer; add it" \
    "${data[@]}" --form tt --embedding-form dense $option
done
for option in '--tt-rows 4' '--tt-entries 4'; do
  # shellcheck disable=SC2086
  refuses "${option%% *} has no effect without --form tt[|]lowrank[|]auto; add it" "${data[@]}" --form dense $option
done
for form in dense lowrank; do
  for option in '--order 2' '--embedding-order 2'; do
    # shellcheck disable=SC2086
    refuses "${option%% *} has no effect without --form tt[|]auto or --layer; add it" "${data[@]}" --form $form $option
  done
done

# They have an effect with a layer in another form, and --lr-cores is for scripts that train in several forms.
run "$COMERA" pretrain "${tiny[@]}" --form dense --layer '*query=form:tt' --rank 2 --order 2 --tau 0.02 -o layer
expect_exit 0
run "$COMERA" pretrain "${tiny[@]}" --form dense --lr-cores 1e-3 -o dense
expect_exit 0
run env COMERA_TAU=0.02 COMERA_RANK=2 "$COMERA" pretrain "${tiny[@]}" --form dense -o environment
expect_exit 0
grep -q '^tau = 0.02' environment/recipe.toml || fail 'the recipe keeps the value'
expect_resumes environment
run "$COMERA" pretrain --config environment/recipe.toml -o repeated
expect_exit 0
expect_same_bytes environment/model.safetensors repeated/model.safetensors

# --case is for a vocab.txt.
run "$COMERA" tokenizer train --data corpus.txt --kind bpe --vocab-size 270 -o pieces
expect_exit 0
for tokenizer in pieces pieces/tokenizer.json; do
  refuses 'case has no effect: pieces/tokenizer.json is no vocab.txt; leave it out' "${data[@]}" \
    --tokenizer $tokenizer --case cased
done
run "$COMERA" pretrain "${tiny[@]}" --tokenizer pieces --case automatic -o automatic
expect_exit 0
run "$COMERA" predict automatic --case uncased
expect_refused 'case has no effect: automatic/tokenizer.json is no vocab.txt'
run "$COMERA" evaluate automatic --against automatic --case uncased
expect_refused 'case has no effect: --against compares'
run "$COMERA" pretrain "${tiny[@]}" --form dense --case cased -o cased
expect_exit 0
finish
