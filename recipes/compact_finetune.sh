#!/usr/bin/env bash
# CompAct's fine-tuning setting: a dense encoder of 12 blocks, 768 wide, 16 sequences of 512 tokens, projections of rank
# 8. Ends with planned and measured peak memory and the time of a step for each choice of --activations, and fails if
# compact takes more than .62 of the memory of keep, or compact with act2bit more than .5.
#
#   recipes/compact_finetune.sh [--smoke] [FOLDER]      default: runs/compact_finetune, or runs/compact_finetune-smoke
#
# Needs no data and 8 GiB. COMERA names the program, ISA its instruction set, THREADS its threads, STEPS (3) the steps.
# By the time of its steps it takes about ten minutes on two cores; --smoke takes seconds, with a small model, to which
# the limits of memory do not apply. FOLDER receives a file for each row, and results.md and results.json. Finished rows
# are kept, so a stopped job resumes.
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck source=shared/recipe.sh
. recipes/shared/recipe.sh
start 1 "$@"
shape=(--model mnli-6enc --layers 12 --form dense --batch 16 --seq 512 --positions 512 --dropout 0.1)
! "$smoke" || shape+=(--layers 2 --hidden 64 --heads 2 --intermediate 128 --batch 4 --seq 64)
settings=(isa="${ISA:-v3}" threads="$threads")
require_program
mkdir -p "$folder"

for policy in keep compact 'compact,act2bit' 'compact,act2bit,int8' int8 'cheap,int8' block; do
  row="$folder/${policy//,/+}.row.json"
  [ -s "$row" ] && continue
  options=(--activations "$policy")
  case $policy in compact*) options+=(--compact-rank 8) ;; esac
  "$comera" pretrain "${shape[@]}" "${options[@]}" --dry-run --json > "$folder/planned.json"
  "$comera" bench "${shape[@]}" "${options[@]}" --isa "${ISA:-v3}" --threads "$threads" --warmup 1 \
    --repetitions "$((${STEPS:-3} - 1))" --json > "$folder/measured.json"
  python3 -c 'import json, sys
planned, measured = (json.load(open(name)) for name in sys.argv[1:3])
step = next(row for row in measured["rows"] if row["work"] == "step")
print(json.dumps({"planned": planned["memory"]["peak"], "measured": step["peak_bytes"], "ms": step["median_ms"]}))' \
    "$folder/planned.json" "$folder/measured.json" > "$row.part"
  mv "$row.part" "$row"
done

table() { # [limits]: prints the table, or checks the limits
  python3 - "$folder" "$@" << 'TABLE'
import json, pathlib, sys

rows = {p.name.removesuffix(".row.json").replace("+", ","): json.loads(p.read_text())
        for p in pathlib.Path(sys.argv[1]).glob("*.row.json")}
keep = rows["keep"]
if sys.argv[2:]:
    wanted = {"compact": 0.62, "compact,act2bit": 0.5}
    missed = [policy for policy, most in wanted.items() if rows[policy]["measured"] > most * keep["measured"]]
    sys.exit(f"{', '.join(missed)}: more memory than the paper's setting allows" if missed else 0)
print("| --activations | planned MiB | measured MiB | of keep | ms |\n|---|---:|---:|---:|---:|")
for policy, row in sorted(rows.items(), key=lambda item: -item[1]["measured"]):
    share = row["measured"] / keep["measured"]
    print(f"| {policy} | {row['planned'] / 2**20:.0f} | {row['measured'] / 2**20:.0f} | {share:.2f} | {row['ms']:.0f} |")
TABLE
}
publish "$seed" table
"$smoke" || table limits
