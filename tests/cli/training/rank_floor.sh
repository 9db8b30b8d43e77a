#!/usr/bin/env bash
# --rank-floor: ranks stay where the target takes those of all other layers, a resume gives the same bytes, and what
# cannot be is refused before any work, by --dry-run too.
. "$(dirname "$0")/../expect.sh"
# shellcheck source=../tiny_task.sh
. "$tests/cli/tiny_task.sh" || exit 1

ranks_at_end() { # RUN LAYER
  python3 - "$1" "$2" << 'END'
import json, sys
layers = json.load(open(sys.argv[1] + "/report.json"))["layers"]
print(*next(layer["ranks"] for layer in layers if layer["name"].startswith(sys.argv[2])))
END
}

small=(--form tt --rank 8 --steps 12 --late-after 4 --lr-ranks 1e-3 --save-every 3)
run "$COMERA" pretrain "${tiny[@]}" "${small[@]}" --target-fraction 0.2 --rank-floor '*.intermediate.*=6' -o floored
expect_exit 0
[ "$(ranks_at_end floored bert.encoder.layer.0.intermediate.dense.weight)" = '1 6 6 6 1' ] ||
  fail "the floor is 6: $(ranks_at_end floored bert.encoder.layer.0.intermediate.dense.weight)"
run "$COMERA" pretrain "${tiny[@]}" "${small[@]}" --target-fraction 0.2 -o free
expect_exit 0
[ "$(ranks_at_end free bert.encoder.layer.0.intermediate.dense.weight)" != '1 6 6 6 1' ] || fail 'the floor changes nothing'

cp -r floored again
rm -r again/checkpoints/step-0000001? again/model.safetensors
run "$COMERA" pretrain --resume again
expect_exit 0
expect_same_bytes floored/model.safetensors again/model.safetensors
run "$COMERA" pretrain --resume again --rank-floor 2
expect_refused '--rank-floor was'

for plan in '' --dry-run; do
  refuses "--rank-floor zz=3: no layer in tensor-train or low-rank form matches; they are bert" --form tt \
    --data train.tsv "${columns[@]}" --rank-floor zz=3 $plan
  refuses 'the floors of --rank-floor alone keep [0-9]* core entries, and the target leaves' --form tt \
    --data train.tsv "${columns[@]}" --rank-floor 4 --target-fraction 0.01 $plan
  refuses '--rank-floor: no rank is adapted' --form dense --data train.tsv "${columns[@]}" --rank-floor 2 $plan
  refuses '--target-ratio 1e6 cannot be reached|--target-ratio 1000000 cannot be reached' --form tt \
    --data train.tsv "${columns[@]}" --target-ratio 1000000 $plan
done
refuses '--rank-floor 0: a rank of at least 1 is wanted' --form tt --data train.tsv "${columns[@]}" --rank-floor 0
finish
