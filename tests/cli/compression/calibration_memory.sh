#!/usr/bin/env bash
# --dry-run tells the memory of calibration: of a wide layer one moment of its inputs at a time, and the activations of
# layers that stay dense too.
. "$(dirname "$0")/../expect.sh"

# Inputs of 4,416 numbers: a moment takes 149 MiB, and those of three parts of the text are more than stays in memory.
python3 "$tests/../scripts/make_checkpoint.py" wide --layers 1 --hidden 64 --intermediate 4416 --vocabulary 320 \
  --heads 4 --shards 1
python3 "$tests/../scripts/make_checkpoint.py" narrow --layers 1 --hidden 512 --intermediate 4096 --vocabulary 8000 \
  --heads 4 --shards 1
python3 - <<'PY'
import random
random.seed(1)
words = ["".join(random.choice("abcdefgh") for _ in range(random.randint(1, 9))) for _ in range(500)]
open("text.txt", "w").write("\n".join(" ".join(random.choice(words) for _ in range(12)) for _ in range(60)))
PY
run "$COMERA" tokenizer train --data text.txt --kind bpe --vocab-size 300 -o pieces
expect_exit 0

# Runs tensorize and stores its peak memory and the planned one, in MiB.
measure() { # model options
  local model=$1
  shift
  run "$COMERA" tensorize "$model" --tokenizer pieces --calibrate text.txt --refine=never "$@" --dry-run
  expect_exit 0
  planned=$(sed -n 's/.*calibration would need about \([0-9.]*\) MiB of.*/\1/p' .out)
  rm -rf out
  python3 - "$COMERA" tensorize "$model" --tokenizer pieces --calibrate text.txt --refine=never "$@" -o out >.peak <<'PY'
import resource, subprocess, sys
with open(".out", "wb") as out, open(".err", "wb") as err:
    code = subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=out, stderr=err).returncode
print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10)
PY
  read -r code peak <.peak
  expect_exit 0
  [ -n "$planned" ] || fail "a plan in MiB"
  [ "$peak" -le "${planned%.*}" ] || fail "at most $planned MiB, not $peak"
  [ "$peak" -le 400 ] || fail "at most one moment and the program at once, not $peak MiB"
}
measure wide --bits 4 --include '*down_proj*'
measure wide --rank 8 --form lowrank --include '*down_proj*'
measure wide --bits auto --ratio 4
measure narrow --bits 4 --include '*gate_proj*'
finish
