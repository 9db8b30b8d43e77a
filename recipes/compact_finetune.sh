#!/usr/bin/env bash
# CompAct's fine-tuning setting: a dense encoder of 12 blocks, 768 wide, 16 sequences of 512 tokens, projections of rank
# 8. Prints planned and measured peak memory and the time of a step for each choice of --activations, and fails if
# compact takes more than .62 of the memory of keep, or compact with act2bit more than .5.
#
#   recipes/compact_finetune.sh [FOLDER]      default: runs/compact_finetune
#
# Needs no data and 8 GiB. COMERA names the program, ISA its instruction set, THREADS its threads, STEPS (3) the steps.
# Finished rows are kept, so a stopped job resumes.
set -euo pipefail
cd "$(dirname "$0")/.."

comera=${COMERA:-build/comera}
folder=${1:-runs/compact_finetune}
shape=(--model mnli-6enc --layers 12 --form dense --batch 16 --seq 512 --positions 512 --dropout 0.1)
mkdir -p "$folder"

lscpu | sed -n 's/^Model name: *//p'
for policy in keep compact 'compact,act2bit' 'compact,act2bit,int8' int8 'cheap,int8' block; do
  row="$folder/${policy//,/+}.json"
  [ -s "$row" ] && continue
  settings=(--activations "$policy")
  case $policy in compact*) settings+=(--compact-rank 8) ;; esac
  "$comera" pretrain "${shape[@]}" "${settings[@]}" --dry-run --json > "$folder/planned.json"
  "$comera" bench "${shape[@]}" "${settings[@]}" --isa "${ISA:-v3}" --threads "${THREADS:-$(nproc)}" --warmup 1 \
    --repetitions "$((${STEPS:-3} - 1))" --json > "$folder/measured.json"
  python3 -c 'import json, sys
planned, measured = (json.load(open(name)) for name in sys.argv[1:3])
step = next(row for row in measured["rows"] if row["work"] == "step")
print(json.dumps({"planned": planned["memory"]["peak"], "measured": step["peak_bytes"], "ms": step["median_ms"]}))' \
    "$folder/planned.json" "$folder/measured.json" > "$row.part"
  mv "$row.part" "$row"
done

python3 - "$folder" << 'EOF'
import json, pathlib, sys

rows = {p.stem.replace("+", ","): json.loads(p.read_text()) for p in pathlib.Path(sys.argv[1]).glob("*.json")
        if p.stem not in ("planned", "measured")}
keep = rows["keep"]
print("| --activations | planned MiB | measured MiB | of keep | ms |\n|---|---:|---:|---:|---:|")
for policy, row in sorted(rows.items(), key=lambda item: -item[1]["measured"]):
    share = row["measured"] / keep["measured"]
    print(f"| {policy} | {row['planned'] / 2**20:.0f} | {row['measured'] / 2**20:.0f} | {share:.2f} | {row['ms']:.0f} |")
wanted = {"compact": 0.62, "compact,act2bit": 0.5}
missed = [policy for policy, most in wanted.items() if rows[policy]["measured"] > most * keep["measured"]]
sys.exit(f"{', '.join(missed)}: more memory than the paper's setting allows" if missed else 0)
EOF
