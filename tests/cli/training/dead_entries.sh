#!/usr/bin/env bash
# Every verb masks diagonal entries at or below the threshold, negative ones too. A run's final folder does not have
# them.
. "$(dirname "$0")/../expect.sh"
# shellcheck source=../tiny_task.sh
. "$tests/cli/tiny_task.sh" || exit 1

# Sets the first entry of every rank diagonal of a folder, or prints the smallest entry of all.
diagonals() {
  python3 - "$@" <<'PYTHON'
import json, struct, sys
path = sys.argv[1] + "/model.safetensors"
data = bytearray(open(path, "rb").read())
start = 8 + struct.unpack("<Q", data[:8])[0]
spans = [v["data_offsets"] for k, v in json.loads(data[8:start]).items() if ".rank." in k]
if len(sys.argv) > 2:
    for first, _ in spans:
        struct.pack_into("<f", data, start + first, float(sys.argv[2]))
    open(path, "wb").write(data)
else:
    print(min(x for a, b in spans for x in struct.unpack(f"<{(b - a) // 4}f", data[start + a : start + b])), len(spans))
PYTHON
}

loss() {
  "$COMERA" evaluate "$@" --data dev.tsv "${columns[@]}" --json |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["loss"])'
}
near() {
  python3 -c 'import sys; a, b = map(float, sys.argv[1:]); sys.exit(abs(a - b) > 1e-5)' "$1" "$2" ||
    fail "$1 is near $2"
}
far() {
  python3 -c 'import sys; a, b = map(float, sys.argv[1:]); sys.exit(abs(a - b) < 1e-3)' "$1" "$2" ||
    fail "$1 is far from $2"
}

run "$COMERA" pretrain "${tiny[@]}" --lr 0.05 --lr-cores 0.02 --steps 40 --form tt -o run
expect_exit 0
whole=$(loss run)
diagonals run -0.9
dead=$(loss run)
far "$whole" "$dead"
run "$COMERA" export run -o dense --to safetensors --json
expect_exit 0
expect_json "0 < d['values_compared'] and d['largest_difference'] <= d['bound'] < 1e-3"
near "$(loss dense)" "$dead"
for form in tt factors dense; do
  run "$COMERA" export run -o "run-$form.onnx" --form "$form"
  expect_exit 0
done

# A finetune whose ranks are fixed starts without the dead entries.
run "$COMERA" finetune run --data train.tsv "${columns[@]}" --seq 8 --batch 4 --steps 1 --lr 0 --lr-cores 0 \
  --lr-ranks 0 --warmup 0 --quiet -o tuned
expect_exit 0
read -r least count < <(diagonals tuned)
python3 -c 'import sys; sys.exit(float(sys.argv[1]) <= 0)' "$least" || fail "a dead entry in $count diagonals: $least"
near "$(loss tuned)" "$dead"

# Without a threshold in config.json no entry is masked; negative entries count in every verb.
cp -r run plain
sed -i '/"threshold"/d' plain/config.json
counted=$(loss plain)
far "$counted" "$dead"
run "$COMERA" export plain -o plain-dense --to safetensors
expect_exit 0
expect_out 'largest difference from the model'
near "$(loss plain-dense)" "$counted"

# Entries below the threshold are removed from the final folder, and stay in the checkpoint.
run "$COMERA" pretrain "${tiny[@]}" --form tt --steps 30 --core-rates uniform --lr-ranks 0.05 --gamma 10 \
  --tau 0.3 --prune-every 0 -o fallen
expect_exit 0
read -r least count < <(diagonals fallen)
python3 -c 'import sys; sys.exit(float(sys.argv[1]) <= 0.3)' "$least" ||
  fail "no entry of 0.3 or less in a folder of $count diagonals: $least"
read -r least count < <(diagonals fallen/checkpoints/step-00000030)
python3 -c 'import sys; sys.exit(float(sys.argv[1]) > 0.3)' "$least" || fail "entries fell: $least"
near "$(loss fallen)" "$(loss fallen/checkpoints/step-00000030 --tokenizer vocab.txt)"
finish
